/**
 * Closes months: when a merchant's month is over and confirmed, records the wallet's balance on the chain, requests its statement as PDF and CSV,
 * and sends an e-mail when both are ready or one has failed. A failed file is retried later, unless it was refused. Runs every minute;
 * it may run twice or stop at any point, because each step finds what is left to do.
 */
import { setImmediate } from "node:timers/promises";
import {
  EXPORT_ATTEMPTS_MAX,
  MONTHLY_STATEMENT_KEPT_DAYS,
  MONTHLY_STATEMENT_RETRY_DAYS,
} from "../../../core/domain/export-lifetime.ts";
import { newExportId } from "../../../core/domain/ids.ts";
import { monthAfter, monthBefore, monthOf, periodOfMonth } from "../../../core/domain/local-days.ts";
import { NO_FILTER } from "../../../core/domain/transaction.ts";
import type { Log } from "../../../core/runtime/log.ts";
import { insertExport } from "../../../db/exports/exports.ts";
import {
  findLastStatementMonth,
  findStatementEnd,
  insertMonthlyStatement,
  listMonthlyWallets,
  type MonthlyWallet,
  retryFailedFiles,
  setStatementFiles,
  takeFailedStatements,
  takeReadyStatements,
} from "../../../db/exports/statements.ts";
import { enqueue } from "../../../db/jobs/queue.ts";
import { addNotice } from "../../../db/notices/notices.ts";
import type { Sql } from "../../../db/postgres/client.ts";
import { type ClosingDeps, closePeriod } from "./close-period.ts";

export type MonthsDeps = ClosingDeps & { log: Log };

const WALLETS_AT_ONCE = 500;
const ANNOUNCED_AT_ONCE = 1_000;
/** Months per wallet and run; the others follow a minute later. */
const MONTHS_AT_ONCE = 12;
/** Hours from a failed attempt to the next: doubled each time, up to a day. */
const RETRY_FIRST_H = 1;
const RETRY_MOST_H = 24;
const RETRIED_AT_ONCE = 100;

/** `now` decides which month is over. If a wallet failed, throws after processing all, so that the queue retries. */
export async function closeMonths(deps: MonthsDeps, now = new Date()): Promise<void> {
  const failures: unknown[] = [];
  let after = "";
  for (;;) {
    const wallets = await listMonthlyWallets(deps.sql, after, WALLETS_AT_ONCE);
    for (const wallet of wallets) {
      await closeMonthsOf(deps, wallet, now).catch((error: unknown) => failures.push(error));
      await setImmediate();
    }
    after = wallets.at(-1)?.id ?? after;
    if (wallets.length < WALLETS_AT_ONCE) break;
  }
  await announce(deps.sql);
  await announceFailed(deps);
  await retryFailed(deps);
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} month(s) were not closed`);
}

/** The oldest first: a month that could not be closed during the following month is closed later. */
async function closeMonthsOf(deps: MonthsDeps, wallet: MonthlyWallet, now: Date): Promise<void> {
  const last = monthBefore(now, wallet.timeZone);
  let month = await findFirstOpenMonth(deps.sql, wallet);
  for (let closed = 0; month <= last && closed < MONTHS_AT_ONCE; closed++) {
    if (!(await closeMonth(deps, wallet, { month, now }))) return;
    month = monthAfter(month);
  }
}

/** The month after the last one with a statement, but not one that ended before monthly statements were enabled or the wallet was created. */
async function findFirstOpenMonth(sql: Sql, wallet: MonthlyWallet): Promise<string> {
  const { id, monthlySince, createdAt, timeZone } = wallet;
  const since = monthlySince > createdAt ? monthlySince : createdAt;
  const first = monthOf(since, timeZone);
  const made = await findLastStatementMonth(sql, id);
  if (made === undefined || made < first) return first;
  return monthAfter(made);
}

/** False while the ledger is not complete up to the month's end. */
async function closeMonth(
  deps: MonthsDeps,
  wallet: MonthlyWallet,
  { month, now }: { month: string; now: Date },
): Promise<boolean> {
  const { sql, log } = deps;
  const { timeZone, network, userId, id: walletId } = wallet;
  const { from, before } = periodOfMonth(month, timeZone);
  // also records the balance, while nodes still have the state of that block
  const closing = await closePeriod(deps, wallet, before, now);
  if (!closing.isFinal) return false;
  // where the previous month ended, which is elsewhere if the time zone has changed since: its closing balance is this month's opening balance
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
      const request = {
        ...({ filter: NO_FILTER, profile: "accounting", timeZone, statement, isWhole: true } as const),
      };
      const keptDays = MONTHLY_STATEMENT_KEPT_DAYS;
      await insertExport(tx, { id, userId, format, requestId: null, request, keptDays });
      await enqueue(tx, "build_export", { exportId: id });
    }
    await setStatementFiles(tx, { walletId, month }, { pdfExportId, csvExportId });
    return true;
  });
  if (isNew) log.info({ userId, network, month }, "month closed, statement requested");
  return true;
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

async function announceFailed({ sql, log }: MonthsDeps): Promise<void> {
  const limits = { limit: ANNOUNCED_AT_ONCE, retryDays: MONTHLY_STATEMENT_RETRY_DAYS };
  await sql.begin(async (tx) => {
    for (const { userId, month, network, refusal, isOver, noticeKey } of await takeFailedStatements(
      tx,
      limits,
    )) {
      const details = { month, network, reason: refusal, willRetry: !isOver };
      await addNotice(tx, { userId, kind: "statement_failed", key: noticeKey, details });
      log.warn({ userId, network, month, refusal, willRetry: !isOver }, "monthly statement failed");
    }
  });
}

async function retryFailed({ sql, log }: MonthsDeps): Promise<void> {
  const pace = { attempts: EXPORT_ATTEMPTS_MAX, firstH: RETRY_FIRST_H, mostH: RETRY_MOST_H };
  await sql.begin(async (tx) => {
    for (const { id: exportId } of await retryFailedFiles(tx, { ...pace, limit: RETRIED_AT_ONCE })) {
      await enqueue(tx, "build_export", { exportId });
      log.info({ exportId }, "retrying a file of a monthly statement");
    }
  });
}
