/** Whether a period has more movements than a statement holds. */
import { NO_FILTER, type TransactionFilter } from "../../core/domain/transaction.ts";
import type { Tx } from "../postgres/client.ts";
import { countChosen } from "../transactions/transactions.ts";
import type { StatementPeriod } from "./statements.ts";

const DAY_MS = 86_400_000;

/**
 * Decided by the counters of days. Rows are counted, those of the days in which the period begins and ends, only when the days within it
 * have no more than `max` and those that it touches have.
 */
export async function hasMoreMovements(
  tx: Tx,
  { userId, network, from, before }: StatementPeriod,
  max: number,
): Promise<boolean> {
  const count = (period: Pick<TransactionFilter, "from" | "before">) =>
    countChosen(tx, userId, { ...NO_FILTER, statuses: ["CONFIRMED"], networks: [network], ...period });
  if ((await count({ from: dayAt(from, Math.floor), before: dayAt(before, Math.ceil) })) <= max) return false;
  const within = { from: dayAt(from, Math.ceil), before: dayAt(before, Math.floor) };
  if (within.from < within.before && (await count(within)) > max) return true;
  return (await count({ from, before })) > max;
}

function dayAt(instant: Date, round: (days: number) => number): Date {
  return new Date(round(instant.getTime() / DAY_MS) * DAY_MS);
}
