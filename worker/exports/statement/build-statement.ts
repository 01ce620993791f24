/**
 * A statement's file: what it says about itself first, then every movement with the balance after it, from one snapshot. The opening balance
 * is the balance when the ledger began plus the confirmed movements before the period (`sumOpening` of db/exports/statements.ts); the closing
 * balance is the opening balance plus the confirmed movements of the period.
 */

import { addDays } from "../../../core/domain/exchange-rate.ts";
import type { ExportRow } from "../../../core/domain/export.ts";
import { ExportRefusal } from "../../../core/domain/export-refusal-error.ts";
import { localTime } from "../../../core/domain/local-time.ts";
import {
  changeOf,
  checkOf,
  type Issuer,
  isMoneyIn,
  STATEMENT_ROWS_MAX,
  type StatementHead,
  type StatementLine,
  type StatementRequest,
} from "../../../core/domain/statement.ts";
import { NO_FILTER } from "../../../core/domain/transaction.ts";
import { defaultMerchantName } from "../../../core/domain/user.ts";
import { findUser } from "../../../db/accounts/users.ts";
import { openExportCursor } from "../../../db/exports/export-rows.ts";
import { findMerchantBooks } from "../../../db/exports/merchant-books.ts";
import { sumMovements, sumOpening } from "../../../db/exports/statements.ts";
import { readValuation } from "../../../db/exports/valuation.ts";
import type { Tx } from "../../../db/postgres/client.ts";
import type { Wallet } from "../../../db/schema.ts";
import { LedgerIncompleteError } from "../ledger-incomplete.ts";
import { readableTime } from "../report-totals.ts";
import type { Closing } from "./close-period.ts";

export type StatementBatches = AsyncIterable<readonly StatementLine[]>;

/** Also opens the cursor of the movements. Throws when there are too many for a statement. */
export async function openStatement(
  tx: Tx,
  wallet: Wallet,
  { request, closing }: { request: StatementRequest; closing: Closing },
): Promise<StatementHead> {
  const { network, from, timeZone, fiat } = request;
  const period = { userId: wallet.userId, network, from, before: closing.before };
  const openingUnits = await sumOpening(tx, period);
  const { openingUnits: units, createdAt } = wallet;
  const totals = await sumMovements(tx, period);
  const movements = totals.reduce((sum, { count }) => sum + count, 0);
  if (movements > STATEMENT_ROWS_MAX)
    throw new ExportRefusal(
      `a statement holds at most ${STATEMENT_ROWS_MAX} movements, but this period has ${movements}`,
    );
  const closingUnits = totals.reduce(
    (sum, { kind, units }) => sum + (isMoneyIn(kind) ? units : -units),
    openingUnits,
  );
  const filter = { ...NO_FILTER, statuses: ["CONFIRMED"] as const, networks: [network] };
  await openExportCursor(
    tx,
    {
      userId: wallet.userId,
      filter: { ...filter, from, before: closing.before },
      limit: STATEMENT_ROWS_MAX,
    },
    { detail: "movements", order: "oldest" },
  );
  return {
    ...{
      issuer: await findIssuer(tx, wallet.userId),
      network,
      walletId: wallet.id,
      walletAddress: wallet.address,
      timeZone,
      from,
    },
    ...{ before: closing.isFinal ? request.before : closing.before, isFinal: closing.isFinal },
    ...{ generatedAt: new Date(), openingUnits, closingUnits, movements, totals },
    untracked: units && from < createdAt ? { units, before: createdAt } : undefined,
    // the opening balance is valued at the rate of the day before
    valuation:
      fiat && (await readValuation(tx, fiat, { userId: wallet.userId, firstDay: dayBefore(from, timeZone) })),
    check: checkOf(closingUnits, closing.chain),
  };
}

/** Throws ExportRefusal for a period that the ledger has not reached, LedgerIncompleteError for one that must be complete and is not. */
export function refuseIncomplete(
  { before, isFinal }: Pick<Closing, "before" | "isFinal">,
  { from, timeZone }: Pick<StatementRequest, "from" | "timeZone">,
  { mustBeFinal }: { mustBeFinal: boolean },
): void {
  if (isFinal) return;
  if (mustBeFinal) throw new LedgerIncompleteError();
  if (before <= from)
    throw new ExportRefusal(
      `this wallet is confirmed up to ${readableTime(before, timeZone)}, where this period has not begun; try again later`,
    );
}

function dayBefore(instant: Date, timeZone: string): string {
  return addDays(localTime(instant, timeZone).slice(0, 10), -1);
}

async function findIssuer(tx: Tx, userId: string): Promise<Issuer> {
  const user = await findUser(tx, userId);
  const books = await findMerchantBooks(tx, userId);
  const email = user?.email ?? "";
  return {
    name: books?.legalName ?? user?.displayName ?? defaultMerchantName(email || "@"),
    postalAddress: books?.postalAddress ?? null,
    taxId: books?.taxId ?? null,
    email,
  };
}

/** Adds the balance after each movement, oldest first. Throws when the last one is not the closing balance. */
export async function* withBalances(
  { openingUnits, closingUnits }: StatementHead,
  batches: AsyncIterable<readonly ExportRow[]>,
): StatementBatches {
  let balanceUnits = openingUnits;
  for await (const rows of batches)
    yield rows.map((row) => {
      const changeUnits = changeOf(row);
      balanceUnits += changeUnits;
      return { row, changeUnits, balanceUnits };
    });
  if (balanceUnits !== closingUnits)
    throw new Error(`the movements add up to ${balanceUnits}, but the closing balance is ${closingUnits}`);
}
