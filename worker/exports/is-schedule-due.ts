/** When a scheduled export is due: its period is over, confirmed on every network and, in a currency, has its last rate. */
import type { NetworkId } from "../../core/domain/networks.ts";
import { isComplete } from "../../core/domain/period-end.ts";
import { bookedNetworks } from "../../core/domain/real-money.ts";
import { RATE_WAIT_DAYS } from "../../core/domain/schedule-period.ts";
import type { ActiveSchedule } from "../../db/exports/export-schedules.ts";
import type { ExportRequest } from "../../db/exports/exports.ts";
import { findLedgerEnd } from "../../db/exports/statements.ts";
import { readValuation } from "../../db/exports/valuation.ts";
import type { Sql, Tx } from "../../db/postgres/client.ts";
import { listWallets } from "../../db/wallets/wallets.ts";
import type { WorkerConfig } from "../config.ts";

type DueDeps = { sql: Sql; config: Pick<WorkerConfig, "chains"> };

const DAY_MS = 86_400_000;

/** `before` ends the period. Waits up to RATE_WAIT_DAYS for the rate of its last day. */
export async function isScheduleDue(
  deps: DueDeps,
  schedule: ActiveSchedule,
  { before, lastDay, request, now }: { before: Date; lastDay: string; request: ExportRequest; now: Date },
): Promise<boolean> {
  if (before > now) return false;
  const { userId, definition } = schedule;
  if (!(await isLedgerComplete(deps, { userId, networks: definition.networks, before }, now))) return false;
  const mayWait = now.getTime() < before.getTime() + RATE_WAIT_DAYS * DAY_MS;
  return !mayWait || isValued(deps.sql, { userId, request, lastDay });
}

/**
 * Whether the ledger of each of the merchant's wallets on an enabled network is complete to the end of the period. `networks`: those chosen,
 * empty for all that are booked.
 */
export async function isLedgerComplete(
  { sql, config }: DueDeps,
  { userId, networks: chosen, before }: { userId: string; networks: readonly NetworkId[]; before: Date },
  now = new Date(),
): Promise<boolean> {
  const wallets = await listWallets(sql, userId);
  const networks = bookedNetworks(chosen, wallets);
  for (const { network } of wallets) {
    if (networks.length > 0 && !networks.includes(network)) continue;
    // the ledger of a network that is no longer enabled ends where it stopped
    const settings = config.chains.find(({ id }) => id === network);
    if (!settings) continue;
    const { confirmations } = settings;
    const end = await findLedgerEnd(sql, { userId, network, confirmations });
    if (!end || !isComplete(end, before, now)) return false;
  }
  return true;
}

async function isValued(
  tx: Tx,
  { userId, request, lastDay }: { userId: string; request: ExportRequest; lastDay: string },
): Promise<boolean> {
  if (!request.fiat) return true;
  const valuation = await readValuation(tx, request.fiat, { userId, firstDay: lastDay });
  return valuation.valueOf(1n, lastDay) !== undefined;
}
