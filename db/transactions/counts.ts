/**
 * How many rows of the history a filter chooses, from counters kept by triggers (db/schema/transactions.sql): exact at the snapshot of `tx`,
 * at a cost that does not grow with the history. Use a repeatable read transaction to count and list the same rows.
 */
import { and, count, gte, lt, type SQL, sql } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import { NETWORK_IDS, type NetworkId } from "../../core/domain/networks.ts";
import {
  TRANSACTION_TYPES,
  type TransactionStatus,
  type TransactionType,
} from "../../core/domain/payment.ts";
import type { TransactionFilter } from "../../core/domain/transaction.ts";
import { runBuilt, type Tx } from "../postgres/client.ts";
import { transactions } from "../schema.ts";
import {
  type Branch,
  branchesOf,
  choosesPending,
  isEveryCell,
  isInCell,
  isOwnedBy,
  pendingBranch,
  settledBranch,
} from "./filter.ts";

const dialect = new PgDialect();
const DAY_MS = 86_400_000;

type Parts = ReturnType<typeof settledCells>;
export type Cell = { network: NetworkId; type: TransactionType; status: TransactionStatus; count: number };

/** A user's cells (network, type, status) that the filter selects and that have or had rows, over all time. */
export function readCells(tx: Tx, userId: string, filter: TransactionFilter): Promise<Cell[]> {
  const pending = choosesPending(filter) ? tx`union all ${pendingCells(tx, userId, filter)}` : tx``;
  return addCells(tx, tx`${settledCells(tx, userId, filter)} ${pending}`);
}

/** Of these, what is not PENDING. */
export function readSettledCells(tx: Tx, userId: string, filter: TransactionFilter): Promise<Cell[]> {
  return addCells(tx, settledCells(tx, userId, filter));
}

async function addCells(tx: Tx, parts: Parts): Promise<Cell[]> {
  const rows = await tx<(Omit<Cell, "count"> & { count: bigint })[]>`
    select network, type, status, sum(count) as count
    from (${parts}) parts
    group by network, type, status`;
  return rows.map((row) => ({ ...row, count: Number(row.count) }));
}

function settledCells(tx: Tx, userId: string, filter: TransactionFilter) {
  return tx`
    select network, type, status, count
    from transaction_counts
    where user_id = ${userId} and day = 'infinity' and network <> '*' ${cellConditions(tx, filter)}
    union all
    select network, type, status, count
    from transaction_count_deltas
    where owner_key(user_id) = owner_key(${userId}) and user_id = ${userId} ${cellConditions(tx, filter)}`;
}

export function sumCounts(cells: readonly Cell[]): number {
  return cells.reduce((sum, cell) => sum + cell.count, 0);
}

/** Counts of what is PENDING by network and type. */
function pendingCells(tx: Tx, userId: string, filter: TransactionFilter) {
  const { types, networks } = filter;
  const chosen = (types.length > 0 ? types : TRANSACTION_TYPES).flatMap((type) =>
    (networks.length > 0 ? networks : NETWORK_IDS).map((network) => ({ type, network })),
  );
  return tx`
    select chosen.network, chosen.type, 'PENDING', pending.count
    from (
      select cell, count(*) as count
      from pending_of(owner_key(${userId}))
      group by cell
    ) pending
    join unnest(
      ${chosen.map(({ network }) => network)}::text[],
      ${chosen.map(({ type }) => type)}::text[]
    ) as chosen (network, type) on pending.cell = transaction_cell(chosen.type, 'PENDING', chosen.network)`;
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
  if (fullFrom && fullBefore && fullFrom >= fullBefore) return countRows(tx, userId, filter);
  const [pending, whole, head, tail] = await Promise.all([
    countPending(tx, userId, filter),
    sumShorter(tx, userId, { ...filter, from: fullFrom, before: fullBefore }, cells),
    countSigned(filter, from, fullFrom, (range) => countSettled(tx, userId, range)),
    countSigned(filter, fullBefore, before, (range) => countSettled(tx, userId, range)),
  ]);
  return pending + whole + head + tail;
}

/** With one bound only, the days on its other side are subtracted from the sum of all where they are fewer. */
async function sumShorter(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  cells: readonly Cell[],
): Promise<number> {
  const { from, before } = filter;
  const bound = from ?? before;
  if (!bound || (from && before)) return sumDays(tx, userId, filter, cells);
  const [row] = await tx<{ oldest: Date | null }[]>`
    select min(day) as oldest
    from transaction_counts
    where user_id = ${userId} and network = '*' and type = '*' and status = '*'`;
  const older = bound.getTime() - (row?.oldest?.getTime() ?? 0);
  const newer = Date.now() - bound.getTime();
  if (from ? newer <= older : older <= newer) return sumDays(tx, userId, filter, cells);
  const settled = cells.filter(({ status }) => status !== "PENDING");
  return sumCounts(settled) - (await sumDays(tx, userId, { ...filter, from: before, before: from }, cells));
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

/**
 * Counters of the filter's days, folded and not, as (day, count), without what is PENDING. Every cell's days are one range of the primary
 * key.
 */
function dayCounts(tx: Tx, userId: string, filter: TransactionFilter, cells: readonly Cell[]) {
  const settled = cells.filter(({ status }) => status !== "PENDING");
  const chosen = isEveryCell(filter) ? [{ network: "*", type: "*", status: "*" }] : settled;
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
    from transaction_count_deltas
    where owner_key(user_id) = owner_key(${userId}) and user_id = ${userId} ${dayConditions(tx, filter)} ${cellConditions(tx, filter)}`;
}

/** Rows of the filter in [from, before); those of [before, from), negative, when it is the other way round. */
async function countSigned(
  filter: TransactionFilter,
  from: Date | undefined,
  before: Date | undefined,
  count: (range: TransactionFilter) => Promise<number>,
): Promise<number> {
  if (!from || !before || from.getTime() === before.getTime()) return 0;
  if (from < before) return count({ ...filter, from, before });
  return -(await count({ ...filter, from: before, before: from }));
}

/**
 * The start of a distant page: whole days are skipped by their counters; less than one day's rows remain.
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
  const excess = await countSigned(filter, before, edge, (range) => countRows(tx, userId, range));
  const days = { ...filter, from: undefined, before: edge };
  const [row] = await tx<{ day: Date; newer: bigint }[]>`
    select day, newer
    from (
      select day, sum(count) as count, sum(sum(count)) over (order by day desc) - sum(count) as newer
      from (
        ${dayCounts(tx, userId, days, cells)}
        ${choosesPending(filter) ? tx`union all ${pendingDays(tx, userId, days, cells)}` : tx``}
      ) parts
      group by day
    ) days
    where newer <= ${offset + excess}::bigint and newer + count > ${offset + excess}::bigint`;
  if (!row) return undefined;
  const end = new Date(row.day.getTime() + DAY_MS);
  if (before && end > before) return { before, skip: offset };
  return { before: end, skip: offset + excess - Number(row.newer) };
}

/** What is PENDING, as (day, count). */
function pendingDays(tx: Tx, userId: string, filter: TransactionFilter, cells: readonly Cell[]) {
  const chosen = cells.filter(({ status }) => status === "PENDING");
  const isChosen = isEveryCell(filter)
    ? tx``
    : tx`and cell in (
        select transaction_cell(chosen.type, 'PENDING', chosen.network)
        from unnest(
          ${chosen.map(({ network }) => network)}::text[],
          ${chosen.map(({ type }) => type)}::text[]
        ) as chosen (network, type)
      )`;
  return tx`
    select transaction_day(detected_at) as day, count(*) as count
    from pending_of(owner_key(${userId}))
    where true
      ${filter.before ? tx`and detected_at < ${filter.before}` : tx``}
      ${isChosen}
    group by 1`;
}

/** Counts rows individually. */
export function countRows(tx: Tx, userId: string, filter: TransactionFilter): Promise<number> {
  return countEach(tx, branchesOf(userId, filter));
}

function countSettled(tx: Tx, userId: string, filter: TransactionFilter): Promise<number> {
  return countEach(tx, [settledBranch(userId, filter) ?? []].flat());
}

/** Rows not decided by a block yet, which are few. */
export function countPending(tx: Tx, userId: string, filter: TransactionFilter): Promise<number> {
  return countEach(tx, [pendingBranch(userId, filter) ?? []].flat());
}

async function countEach(tx: Tx, branches: readonly Branch[]): Promise<number> {
  if (branches.length === 0) return 0;
  const counts = branches.map(
    ({ from, where }) => sql`(select ${count()} from ${from} where ${where ?? sql`true`})`,
  );
  const query = sql`select ${sql.join(counts, sql` + `)} as count`;
  const [row] = await runBuilt<{ count: bigint }>(tx, { toSQL: () => dialect.sqlToQuery(query) });
  return Number(row?.count ?? 0n);
}

/** Settled rows of one cell. */
export function cellCondition(userId: string, cell: Cell, filter: TransactionFilter): SQL | undefined {
  return and(
    isOwnedBy(userId),
    isInCell(cell),
    sql`${transactions.isSettled}`,
    filter.from ? gte(transactions.detectedAt, filter.from) : undefined,
    filter.before ? lt(transactions.detectedAt, filter.before) : undefined,
  );
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
