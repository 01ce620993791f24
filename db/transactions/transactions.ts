/** A user's history: pages in a fixed order, and the number of rows a filter selects. docs/QUERIES.md describes how each is served. */
import { and, type SQL, sql } from "drizzle-orm";
import { PgDialect, QueryBuilder } from "drizzle-orm/pg-core";
import { invalid } from "../../core/domain/errors.ts";
import { type HistoryRow, NO_FILTER, type TransactionFilter } from "../../core/domain/transaction.ts";
import { runBuilt, type Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { readInTime } from "../postgres/statement-timeout.ts";
import { transactions } from "../schema.ts";
import { countByAmount } from "./amount-counts.ts";
import {
  type Cell,
  cellCondition,
  countByDays,
  countRows,
  isEveryCell,
  locateOffset,
  readCells,
} from "./counts.ts";
import {
  branchesOf,
  conditionsOf,
  HISTORY_COLUMNS,
  type HistoryPosition,
  isAfter,
  mergeNewest,
  NEWEST_FIRST,
} from "./filter.ts";
import { listLargeHistory } from "./search.ts";

const dialect = new PgDialect();

/** `after`: the page follows this row; with an offset of 0 only. */
export type Page = { limit: number; offset: number; after?: HistoryPosition | undefined };
export type TransactionPage = {
  rows: HistoryRow[];
  total: number;
  /** True when there are more rows than `total`: only for a search or an amount between dates in a large history. */
  isLowerBound: boolean;
};

/** From this offset on, whole days are skipped by their counters instead of row by row. */
const DEEP_OFFSET = 500;
/** From this offset on, rows are skipped by key only. */
const PLAIN_OFFSET = 100;
/** Rows that a page of a large history's list by amount may read: some 30 ms of Postgres' time. */
const AMOUNTS_READ_MAX = 25_000;
/** Histories up to this size are searched and counted row by row. */
const LARGE_HISTORY_ROWS = 100_000;

/**
 * One page, newest first (detected_at, then id), and the total number of matching rows. Requires a repeatable read transaction, so
 * that both are of one snapshot. Throws VALIDATION_ERROR for a search that would have to read a large history completely.
 */
export async function listTransactions(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  page: Page,
): Promise<TransactionPage> {
  const hasAmounts = filter.minUnits !== undefined || filter.maxUnits !== undefined;
  if (filter.search === undefined && !hasAmounts) return listByCells(tx, userId, filter, page);
  const hasDates = filter.from !== undefined || filter.before !== undefined;
  const conditions = conditionsOf(userId, filter);
  const following = and(conditions, isAfter(page.after));
  if (filter.search === undefined && !hasDates) {
    const total = await countByAmount(tx, userId, filter);
    return exactPage(total, page, () => scanAmounts(tx, userId, following, { ...page, total }));
  }
  const size = sumCounts(await readCells(tx, userId, NO_FILTER));
  if (size > LARGE_HISTORY_ROWS) return listLargeHistory(tx, userId, filter, { ...page, size });
  return exactPage(await countRows(tx, conditions), page, () => scan(tx, following, page));
}

/** Where a row of the user's stands in the list. */
export async function findPosition(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<HistoryPosition | undefined> {
  const [row] = await tx<HistoryPosition[]>`
    select id, (extract(epoch from detected_at) * 1000000)::bigint as micros
    from transactions
    where id = ${id} and user_id = ${userId}`;
  return row;
}

/** A user's own row. */
export async function findTransaction(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<HistoryRow | undefined> {
  const [row] = await tx<HistoryRow[]>`
    select ${columnsOf(tx, transactions)}
    from transactions
    where id = ${id} and user_id = ${userId}`;
  return row;
}

/** The exact number of matching rows. A search or an amount between dates counts row by row: for jobs, not for pages. */
export async function countChosen(tx: Tx, userId: string, filter: TransactionFilter): Promise<number> {
  const hasAmounts = filter.minUnits !== undefined || filter.maxUnits !== undefined;
  const hasDates = filter.from !== undefined || filter.before !== undefined;
  if (filter.search !== undefined || (hasAmounts && hasDates))
    return countRows(tx, conditionsOf(userId, filter));
  if (hasAmounts) return countByAmount(tx, userId, filter);
  return countByDays(tx, userId, filter, await readCells(tx, userId, filter));
}

/** Types, statuses, networks and dates in any combination: counted by counters, read by ordered index scans. */
async function listByCells(tx: Tx, userId: string, filter: TransactionFilter, page: Page) {
  const cells = await readCells(tx, userId, filter);
  const isBounded = filter.from !== undefined || filter.before !== undefined;
  const total = isBounded ? await countByDays(tx, userId, filter, cells) : sumCounts(cells);
  return exactPage(total, page, async () => {
    const start =
      page.offset < DEEP_OFFSET ? undefined : await locateOffset(tx, userId, filter, cells, page.offset);
    const near = start ? { ...filter, before: start.before } : filter;
    return scanCells(tx, userId, near, cells, { ...page, offset: start?.skip ?? page.offset });
  });
}

/** Amounts have no daily counters, so rows are skipped one by one, within limits. `total`: rows with these amounts. */
async function scanAmounts(
  tx: Tx,
  userId: string,
  conditions: SQL | undefined,
  { total, ...page }: Page & { total: number },
): Promise<HistoryRow[]> {
  const branches = branchesOf(conditions);
  if (page.offset < DEEP_OFFSET) return scanKeys(tx, branches, page);
  const size = sumCounts(await readCells(tx, userId, NO_FILTER));
  // down the history until enough of its rows have such an amount, or all with these amounts
  const read = Math.min(total, ((page.offset + page.limit) * size) / total);
  if (size > LARGE_HISTORY_ROWS && read > AMOUNTS_READ_MAX) throw tooDeep();
  return readInTime(tx, () => scanKeys(tx, branches, page), tooDeep);
}

function tooDeep() {
  return invalid(
    "offset",
    "too_deep",
    "This page lies too far down a list by amount: use cursor, or choose narrower amounts, or dates",
  );
}

async function exactPage(
  total: number,
  page: Page,
  read: () => Promise<HistoryRow[]>,
): Promise<TransactionPage> {
  return { rows: page.offset >= total ? [] : await read(), total, isLowerBound: false };
}

/** One ordered index scan when every cell is selected, else one per cell, merged: never reads beyond the page. */
function scanCells(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  cells: readonly Cell[],
  page: Page,
): Promise<HistoryRow[]> {
  if (cells.length === 0) return Promise.resolve([]);
  const following = isAfter(page.after);
  const every = and(conditionsOf(userId, filter), following);
  const byCell = cells.map((cell) => and(cellCondition(userId, cell, filter), following));
  if (page.offset > PLAIN_OFFSET) return scanKeys(tx, isEveryCell(filter) ? branchesOf(every) : byCell, page);
  return isEveryCell(filter) ? scan(tx, every, page) : scanMerged(tx, byCell, page);
}

/** One ordered index scan a condition, merged. */
function scanMerged(tx: Tx, conditions: readonly (SQL | undefined)[], page: Page): Promise<HistoryRow[]> {
  const reach = page.offset + page.limit;
  return run(
    tx,
    mergeNewest(
      conditions.map((condition) => select(condition).limit(reach)),
      page,
    ),
  );
}

/** First the page's keys from the indexes alone, one ordered scan per condition, merged; then the page's rows. */
function scanKeys(tx: Tx, conditions: readonly (SQL | undefined)[], page: Page): Promise<HistoryRow[]> {
  const scans = conditions.map((condition) => selectKeys(condition).limit(page.offset + page.limit));
  return run(
    tx,
    sql`
      select ${sql.join(Object.values(HISTORY_COLUMNS), sql`, `)}
      from (${mergeNewest(scans, page)}) page
      join transactions using (id)
      order by transactions.detected_at desc, id desc`,
  );
}

function run(tx: Tx, query: SQL): Promise<HistoryRow[]> {
  return runBuilt<HistoryRow>(tx, { toSQL: () => dialect.sqlToQuery(query) });
}

function scan(tx: Tx, conditions: SQL | undefined, page: Page): Promise<HistoryRow[]> {
  return scanMerged(tx, branchesOf(conditions), page);
}

function selectKeys(conditions: SQL | undefined) {
  return new QueryBuilder()
    .select({ id: transactions.id, detectedAt: transactions.detectedAt })
    .from(transactions)
    .where(conditions)
    .orderBy(...NEWEST_FIRST)
    .$dynamic();
}

function select(conditions: SQL | undefined) {
  return new QueryBuilder()
    .select(HISTORY_COLUMNS)
    .from(transactions)
    .where(conditions)
    .orderBy(...NEWEST_FIRST)
    .$dynamic();
}

function sumCounts(cells: readonly Cell[]): number {
  return cells.reduce((sum, cell) => sum + cell.count, 0);
}
