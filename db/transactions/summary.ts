/**
 * Counts and sums of the rows that a filter selects, by network, type and status. Of types, statuses, networks and dates from the counters, at a
 * cost that does not grow with the history; with amounts or a search from the rows. Use a repeatable read transaction.
 */
import { sql } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import { invalid } from "../../core/domain/errors.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { TransactionStatus, TransactionType } from "../../core/domain/payment.ts";
import type { TransactionFilter } from "../../core/domain/transaction.ts";
import { runBuilt, type Tx } from "../postgres/client.ts";
import { readInTime } from "../postgres/statement-timeout.ts";
import { transactions } from "../schema.ts";
import { cellConditions, dayConditions, nearestDay } from "./counts.ts";
import { branchesOf } from "./filter.ts";

export type Sum = {
  network: NetworkId;
  type: TransactionType;
  status: TransactionStatus;
  count: bigint;
  units: bigint;
};

const dialect = new PgDialect();

/** Only networks, types and statuses that have rows. Throws VALIDATION_ERROR when too many rows would have to be read. */
export async function sumTransactions(tx: Tx, userId: string, filter: TransactionFilter): Promise<Sum[]> {
  const { from, before, search, minUnits, maxUnits } = filter;
  const fullFrom = from && nearestDay(from);
  const fullBefore = before && nearestDay(before);
  const isByRows =
    search !== undefined ||
    minUnits !== undefined ||
    maxUnits !== undefined ||
    (fullFrom !== undefined && fullBefore !== undefined && fullFrom >= fullBefore);
  if (isByRows) return sumInTime(tx, userId, filter);
  const parts = await Promise.all([
    sumDays(tx, userId, { ...filter, from: fullFrom, before: fullBefore }),
    sumSigned(tx, userId, filter, from, fullFrom),
    sumSigned(tx, userId, filter, fullBefore, before),
  ]);
  return merge(parts.flat());
}

async function sumDays(tx: Tx, userId: string, filter: TransactionFilter): Promise<Sum[]> {
  const isBounded = filter.from !== undefined || filter.before !== undefined;
  const days = isBounded ? tx`and day < 'infinity' ${dayConditions(tx, filter)}` : tx`and day = 'infinity'`;
  return tx<Sum[]>`
    select network, type, status, sum(count)::bigint as count, sum(units) as units
    from (
      select network, type, status, count, units
      from transaction_counts
      where user_id = ${userId} and network <> '*' ${days} ${cellConditions(tx, filter)}
      union all
      select network, type, status, count, units
      from transactions_to_count
      where user_id = ${userId} and owner = owner_key(${userId}) ${dayConditions(tx, filter)} ${cellConditions(tx, filter)}
    ) parts
    group by network, type, status`;
}

/** Of the rows in [from, before); of those in [before, from), negative, when it is the other way round. */
async function sumSigned(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  from: Date | undefined,
  before: Date | undefined,
): Promise<Sum[]> {
  if (!from || !before || from.getTime() === before.getTime()) return [];
  if (from < before) return sumRows(tx, userId, { ...filter, from, before });
  const sums = await sumRows(tx, userId, { ...filter, from: before, before: from });
  return sums.map((sum) => ({ ...sum, count: -sum.count, units: -sum.units }));
}

function sumInTime(tx: Tx, userId: string, filter: TransactionFilter): Promise<Sum[]> {
  const field = filter.search === undefined ? "amountMin" : "search";
  return readInTime(
    tx,
    () => sumRows(tx, userId, filter),
    () =>
      invalid(
        field,
        "too_broad",
        "This summary would scan the whole history: limit the dates, or leave out amounts and search",
      ),
  );
}

/** Row by row. */
async function sumRows(tx: Tx, userId: string, filter: TransactionFilter): Promise<Sum[]> {
  const rows = branchesOf(userId, filter).map(
    ({ from, where }) => sql`
      select ${transactions.network}, ${transactions.type}, ${transactions.status}, ${transactions.amountUnits}
      from ${from}
      where ${where ?? sql`true`}`,
  );
  const query = sql`
    select network, type, status, count(*) as count, sum(amount_units) as units
    from (${sql.join(rows, sql` union all `)}) rows
    group by network, type, status`;
  return runBuilt<Sum>(tx, { toSQL: () => dialect.sqlToQuery(query) });
}

function merge(parts: readonly Sum[]): Sum[] {
  const sums = new Map<string, Sum>();
  for (const { network, type, status, count, units } of parts) {
    const key = `${network}:${type}:${status}`;
    const known = sums.get(key) ?? { count: 0n, units: 0n };
    sums.set(key, { network, type, status, count: known.count + count, units: known.units + units });
  }
  return [...sums.values()].filter(({ count }) => count !== 0n);
}
