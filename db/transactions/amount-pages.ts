/**
 * Pages of a list filtered by amount. From the counters it is known how far down the history a page reaches, and how many rows have these amounts
 * in total: the cheaper of the two is read, whatever the planner estimates.
 */
import { and, type SQL, sql } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import { invalid } from "../../core/domain/errors.ts";
import { type HistoryRow, NO_FILTER, type TransactionFilter } from "../../core/domain/transaction.ts";
import { runBuilt, type Tx } from "../postgres/client.ts";
import { readInTime } from "../postgres/statement-timeout.ts";
import { transactions } from "../schema.ts";
import { countSettledByAmount } from "./amount-counts.ts";
import { type Cell, cellCondition, readCells, readSettledCells, sumCounts } from "./counts.ts";
import {
  amountConditions,
  HISTORY_COLUMNS,
  type HistoryPosition,
  inHistory,
  isAfter,
  isEveryCell,
  isOwnedBy,
  mergeNewest,
  pendingBranch,
  rowsOf,
  scanBranch,
  settledBranch,
} from "./filter.ts";

const dialect = new PgDialect();

/** From this offset on, a page by amount may be refused; others skip whole days by their counters instead of row by row. */
export const DEEP_OFFSET = 500;
/** Rows that a page of a large history's list by amount may read: about 30 ms of Postgres time. */
const AMOUNTS_READ_MAX = 25_000;
/** Histories up to this size are read to any depth, searched and counted row by row. */
export const LARGE_HISTORY_ROWS = 100_000;
/** Minimum number of rows scanned down the history: about 2 ms. */
const WALK_MIN_ROWS = 5_000;
/** Factor beyond what the counters suggest, because amounts may be spread unevenly. */
const WALK_MARGIN = 4;

const KEYS = { id: transactions.id, detectedAt: transactions.detectedAt };

type Page = { limit: number; offset: number; after?: HistoryPosition | undefined };

/** `total`: rows of the filter, which has amounts and neither dates nor a search. */
export async function readAmountPage(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  { total, ...page }: Page & { total: number },
): Promise<HistoryRow[]> {
  const reach = page.offset + page.limit;
  if (page.offset >= DEEP_OFFSET) {
    const size = sumCounts(await readCells(tx, userId, NO_FILTER));
    // down the history until enough of its rows have such an amount, or all with these amounts
    const read = Math.min(total, (reach * size) / total);
    if (size > LARGE_HISTORY_ROWS && read > AMOUNTS_READ_MAX) throw tooDeep();
  }
  const { minUnits, maxUnits } = filter;
  const [cells, between] = await Promise.all([
    readSettledCells(tx, userId, filter),
    isEveryCell(filter) ? total : countSettledByAmount(tx, userId, { ...NO_FILTER, minUnits, maxUnits }),
  ]);
  const walk = Math.ceil((reach * sumCounts(cells)) / total);
  const read = async () => {
    if (cells.length > 0 && walk < between) {
      const span = Math.max(WALK_MIN_ROWS, WALK_MARGIN * walk);
      const near = await readPage(tx, userId, filter, page, walkDown(userId, filter, cells, page, span));
      if (near.found === reach || span >= sumCounts(cells)) return near.rows;
    }
    return (await readPage(tx, userId, filter, page, allBetween(userId, filter, page))).rows;
  };
  return readInTime(tx, read, tooDeep);
}

function tooDeep() {
  return invalid(
    "offset",
    "too_deep",
    "This page is too far down a list sorted by amount: use cursor, or narrow the amounts or dates",
  );
}

/**
 * The page of these settled rows' keys and of what is PENDING, merged; then the page's rows. `found`: settled keys, as many as the page
 * reaches unless there are no more.
 */
async function readPage(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  page: Page,
  settled: SQL,
): Promise<{ rows: HistoryRow[]; found: number }> {
  const pending = pendingBranch(userId, filter, isAfter(page.after));
  const reach = page.offset + page.limit;
  const scans = [sql`select id, detected_at from settled`];
  if (pending) scans.push(scanBranch(KEYS, pending, reach));
  const query = sql`
    with settled as materialized (${settled})
    select ${sql.join(Object.values(HISTORY_COLUMNS), sql`, `)}, (select count(*) from settled) as found
    from ${rowsOf(userId, mergeNewest(scans, page))}
    order by transactions.detected_at desc, transactions.id desc`;
  const rows = await runBuilt<HistoryRow & { found: bigint }>(tx, {
    toSQL: () => dialect.sqlToQuery(query),
  });
  return { rows, found: Number(rows[0]?.found ?? 0n) };
}

/** Of the newest `span` rows of these cells, those with these amounts. */
function walkDown(
  userId: string,
  filter: TransactionFilter,
  cells: readonly Cell[],
  page: Page,
  span: number,
): SQL {
  const following = isAfter(page.after);
  const branches = isEveryCell(filter)
    ? [and(isOwnedBy(userId), sql`${transactions.isSettled}`, following)]
    : cells.map((cell) => and(cellCondition(userId, cell, filter), following));
  const passed = mergeNewest(
    branches.map((where) =>
      scanBranch({ ...KEYS, amountUnits: transactions.amountUnits }, inHistory(where), span),
    ),
    { limit: span, offset: 0 },
  );
  return sql`
    select id, detected_at
    from (${passed}) transactions
    where ${amountConditions(filter)}
    order by detected_at desc, id desc
    limit ${page.offset + page.limit}`;
}

/** Every row with these amounts, in the order of the amount index, by an index-only scan. */
function allBetween(userId: string, filter: TransactionFilter, page: Page): SQL {
  const chosen = settledBranch(userId, filter, isAfter(page.after))?.where ?? sql`false`;
  return sql`
    select id, detected_at
    from (
      select id, detected_at
      from transactions
      where ${chosen}
      order by amount_units
      offset 0
    ) between
    order by detected_at desc, id desc
    limit ${page.offset + page.limit}`;
}
