/**
 * How many rows of the history a filter chooses, from counters kept by triggers (db/schema/transactions.sql): exact at the snapshot of `tx`,
 * at a cost that does not grow with the history. Use a repeatable read transaction to count and list the same rows.
 */
import { and, count, gte, lt, type SQL, sql } from "drizzle-orm";
import { PgDialect, QueryBuilder } from "drizzle-orm/pg-core";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { TransactionStatus, TransactionType } from "../../core/domain/payment.ts";
import type { TransactionFilter } from "../../core/domain/transaction.ts";
import { runBuilt, type Tx } from "../postgres/client.ts";
import { transactions } from "../schema.ts";
import { branchesOf, conditionsOf, isInCell, isOwnedBy } from "./filter.ts";

const dialect = new PgDialect();
const DAY_MS = 86_400_000;

export type Cell = { network: NetworkId; type: TransactionType; status: TransactionStatus; count: number };

/** A user's cells (network, type, status) that the filter selects and that have or had rows, over all time. */
export async function readCells(tx: Tx, userId: string, filter: TransactionFilter): Promise<Cell[]> {
  const rows = await tx<(Omit<Cell, "count"> & { count: bigint })[]>`
    select network, type, status, sum(count) as count
    from (
      select network, type, status, count
      from transaction_counts
      where user_id = ${userId} and day = 'infinity' and network <> '*' ${cellConditions(tx, filter)}
      union all
      select network, type, status, count
      from transactions_to_count
      where user_id = ${userId} and owner = owner_key(${userId}) ${cellConditions(tx, filter)}
    ) parts
    group by network, type, status`;
  return rows.map((row) => ({ ...row, count: Number(row.count) }));
}

/**
 * Rows of a filter without search and amounts: whole days from counters. A partial day at an end is counted by index on its shorter
 * side, which is added or subtracted.
 */
export async function countByDays(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  cells: readonly Cell[],
): Promise<number> {
  const { from, before } = filter;
  const fullFrom = from && nearestDay(from);
  const fullBefore = before && nearestDay(before);
  if (fullFrom && fullBefore && fullFrom >= fullBefore) return countRows(tx, conditionsOf(userId, filter));
  const [whole, head, tail] = await Promise.all([
    sumDays(tx, userId, { ...filter, from: fullFrom, before: fullBefore }, cells),
    countSigned(tx, userId, filter, from, fullFrom),
    countSigned(tx, userId, filter, fullBefore, before),
  ]);
  return whole + head + tail;
}

async function sumDays(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  cells: readonly Cell[],
): Promise<number> {
  const [row] = await tx<{ count: bigint }[]>`
    select coalesce(sum(count), 0) as count
    from (${dayCounts(tx, userId, filter, cells)}) parts`;
  return Number(row?.count ?? 0n);
}

/** Counters of the filter's days, folded and not, as (day, count). Every cell's days are one range of the primary key. */
function dayCounts(tx: Tx, userId: string, filter: TransactionFilter, cells: readonly Cell[]) {
  const chosen = isEveryCell(filter) ? [{ network: "*", type: "*", status: "*" }] : cells;
  return tx`
    select counted.day, counted.count
    from unnest(
      ${chosen.map((cell) => cell.network)}::text[],
      ${chosen.map((cell) => cell.type)}::text[],
      ${chosen.map((cell) => cell.status)}::text[]
    ) as cell (network, type, status)
    join transaction_counts counted on counted.user_id = ${userId}
      and counted.network = cell.network
      and counted.type = cell.type
      and counted.status = cell.status
      and counted.day < 'infinity'
      ${dayConditions(tx, filter)}
    union all
    select day, count
    from transactions_to_count
    where user_id = ${userId} and owner = owner_key(${userId}) ${dayConditions(tx, filter)} ${cellConditions(tx, filter)}`;
}

/** Rows of the filter in [from, before); those of [before, from), negative, when it is the other way round. */
async function countSigned(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  from: Date | undefined,
  before: Date | undefined,
): Promise<number> {
  if (!from || !before || from.getTime() === before.getTime()) return 0;
  if (from < before) return countRows(tx, conditionsOf(userId, { ...filter, from, before }));
  return -(await countRows(tx, conditionsOf(userId, { ...filter, from: before, before: from })));
}

/**
 * Where a distant page begins: rows of whole days are skipped by their counters; less than one day's rows remain.
 * For filters without search and amounts. Undefined when the offset lies beyond the last row.
 */
export async function locateOffset(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  cells: readonly Cell[],
  offset: number,
): Promise<{ before: Date; skip: number } | undefined> {
  const { before } = filter;
  const edge = before && ceilDay(before);
  // rows of a partial newest day that the filter excludes
  const excess = await countSigned(tx, userId, filter, before, edge);
  const days = { ...filter, from: undefined, before: edge };
  const [row] = await tx<{ day: Date; newer: bigint }[]>`
    select day, newer
    from (
      select day, sum(count) as count, sum(sum(count)) over (order by day desc) - sum(count) as newer
      from (${dayCounts(tx, userId, days, cells)}) parts
      group by day
    ) days
    where newer <= ${offset + excess}::bigint and newer + count > ${offset + excess}::bigint`;
  if (!row) return undefined;
  const end = new Date(row.day.getTime() + DAY_MS);
  if (before && end > before) return { before, skip: offset };
  return { before: end, skip: offset + excess - Number(row.newer) };
}

/** Counts rows individually. */
export async function countRows(tx: Tx, conditions: SQL | undefined): Promise<number> {
  const counts = branchesOf(conditions).map(
    (branch) => sql`(${new QueryBuilder().select({ count: count() }).from(transactions).where(branch)})`,
  );
  const query = sql`select ${sql.join(counts, sql` + `)} as count`;
  const [row] = await runBuilt<{ count: bigint }>(tx, { toSQL: () => dialect.sqlToQuery(query) });
  return Number(row?.count ?? 0n);
}

export function cellCondition(userId: string, cell: Cell, filter: TransactionFilter): SQL | undefined {
  return and(
    isOwnedBy(userId),
    isInCell(cell),
    cell.status === "PENDING" ? sql`not ${transactions.isSettled}` : sql`${transactions.isSettled}`,
    filter.from ? gte(transactions.detectedAt, filter.from) : undefined,
    filter.before ? lt(transactions.detectedAt, filter.before) : undefined,
  );
}

/** True when the filter excludes no type, status or network. */
export function isEveryCell({ types, statuses, networks }: TransactionFilter): boolean {
  return types.length + statuses.length + networks.length === 0;
}

/** The filter's types, statuses and networks, for tables that have these columns. */
export function cellConditions(tx: Tx, { types, statuses, networks }: TransactionFilter) {
  return tx`
    ${types.length > 0 ? tx`and type = any(${types as string[]}::text[])` : tx``}
    ${statuses.length > 0 ? tx`and status = any(${statuses as string[]}::text[])` : tx``}
    ${networks.length > 0 ? tx`and network = any(${networks as string[]}::text[])` : tx``}`;
}

/** Days in [from, before), both at midnight UTC. */
export function dayConditions(
  tx: Tx,
  { from, before }: { from?: Date | undefined; before?: Date | undefined },
) {
  return tx`
    ${from ? tx`and day >= ${dayText(from)}::date` : tx``}
    ${before ? tx`and day < ${dayText(before)}::date` : tx``}`;
}

function dayText(day: Date): string {
  return day.toISOString().slice(0, 10);
}

export function nearestDay(instant: Date): Date {
  return new Date(Math.round(instant.getTime() / DAY_MS) * DAY_MS);
}

function ceilDay(instant: Date): Date {
  return new Date(Math.ceil(instant.getTime() / DAY_MS) * DAY_MS);
}
