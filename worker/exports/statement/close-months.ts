/**
 * Closes months: when a merchant's month is over and confirmed, records the wallet's balance on the chain, orders its statement as PDF and
 * CSV, and announces it by mail when both are made. Runs every minute; it may run twice or stop anywhere, because each step finds what is
 * left to do.
 */
import { setImmediate } from "node:timers/promises";
import { monthBefore, periodOfMonth } from "../../../core/domain/calendar.ts";
import { MONTHLY_STATEMENT_KEPT_DAYS } from "../../../core/domain/export-lifetime.ts";
import { newExportId } from "../../../core/domain/ids.ts";
import { NO_FILTER } from "../../../core/domain/transaction.ts";
import type { Log } from "../../../core/runtime/log.ts";
import { insertExport } from "../../../db/exports/exports.ts";
import {
  findStatementEnd,
  hasMonthlyStatement,
  insertMonthlyStatement,
  listMonthlyWallets,
  type MonthlyWallet,
  setStatementFiles,
  takeReadyStatements,
} from "../../../db/exports/statements.ts";
import { enqueue } from "../../../db/jobs/queue.ts";
import { addNotice } from "../../../db/notices/notices.ts";
import type { Sql } from "../../../db/postgres/client.ts";
import { type ClosingDeps, closePeriod } from "./closing.ts";

export type MonthsDeps = ClosingDeps & { log: Log };

const WALLETS_AT_ONCE = 500;
const ANNOUNCED_AT_ONCE = 1_000;

/** `now` decides which month is over. Throws after all wallets when one failed, so that the queue retries. */
export async function closeMonths(deps: MonthsDeps, now = new Date()): Promise<void> {
  const failures: unknown[] = [];
  let after = "";
  for (;;) {
    const wallets = await listMonthlyWallets(deps.sql, after, WALLETS_AT_ONCE);
    for (const wallet of wallets) {
      await closeMonth(deps, wallet, now).catch((error: unknown) => failures.push(error));
      await setImmediate();
    }
    after = wallets.at(-1)?.id ?? after;
    if (wallets.length < WALLETS_AT_ONCE) break;
  }
  await announce(deps.sql);
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} month(s) were not closed`);
}

async function closeMonth(deps: MonthsDeps, wallet: MonthlyWallet, now: Date): Promise<void> {
  const { sql, log } = deps;
  const { timeZone, network, userId, id: walletId } = wallet;
  const month = monthBefore(now, timeZone);
  const { from, before } = periodOfMonth(month, timeZone);
  const { monthlySince, createdAt } = wallet;
  if (!monthlySince || before <= monthlySince || before <= createdAt) return;
  if (await hasMonthlyStatement(sql, walletId, month)) return;
  // also records the balance, while nodes still have the state of that block
  const closing = await closePeriod(deps, wallet, before);
  if (!closing.isFinal) return;
  // where the month before ended, which was elsewhere if the time zone has changed since: its closing balance is this one's opening balance
  const endedAt = await findStatementEnd(sql, walletId, monthBefore(from, timeZone));
  const isNew = await sql.begin(async (tx) => {
    if (!(await insertMonthlyStatement(tx, { walletId, userId, month }))) return false;
    const [pdfExportId, csvExportId] = [newExportId(), newExportId()];
    const files = [
      { id: pdfExportId, format: "pdf" },
      { id: csvExportId, format: "csv" },
    ] as const;
    for (const { id, format } of files) {
      const statement = { network, from: endedAt ?? from, before };
      const request = { filter: NO_FILTER, profile: "accounting", timeZone, statement } as const;
      const keptDays = MONTHLY_STATEMENT_KEPT_DAYS;
      await insertExport(tx, { id, userId, format, requestId: null, request, keptDays });
      await enqueue(tx, "build_export", { exportId: id });
    }
    await setStatementFiles(tx, { walletId, month }, { pdfExportId, csvExportId });
    return true;
  });
  if (isNew) log.info({ userId, network, month }, "month closed, statement ordered");
}

async function announce(sql: Sql): Promise<void> {
  await sql.begin(async (tx) => {
    for (const { userId, month, network } of await takeReadyStatements(tx, ANNOUNCED_AT_ONCE))
      await addNotice(tx, {
        ...{ userId, kind: "statement_ready" },
        key: `statement:${network}:${month}`,
        details: { month, network },
      });
  });
}
