/** A user's history: pages in a fixed order, and the number of rows a filter selects. docs/QUERIES.md describes how each is served. */
import { and, type SQL, sql } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import { type HistoryRow, NO_FILTER, type TransactionFilter } from "../../core/domain/transaction.ts";
import { runBuilt, type Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { transactions } from "../schema.ts";
import { countByAmount } from "./amount-counts.ts";
import { DEEP_OFFSET, LARGE_HISTORY_ROWS, readAmountPage } from "./amount-pages.ts";
import {
  type Cell,
  cellCondition,
  countByDays,
  countRows,
  locateOffset,
  readCells,
  readSettledCells,
  sumCounts,
} from "./counts.ts";
import {
  type Branch,
  branchesOf,
  HISTORY_COLUMNS,
  type HistoryPosition,
  inHistory,
  isAfter,
  isEveryCell,
  mergeNewest,
  pendingBranch,
  rowsOf,
  scanBranch,
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

/** From this offset on, rows are skipped by key only. */
const PLAIN_OFFSET = 100;
const KEYS = { id: transactions.id, detectedAt: transactions.detectedAt };

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
  if (filter.search === undefined && !hasDates) {
    const total = await countByAmount(tx, userId, filter);
    return exactPage(total, page, () => readAmountPage(tx, userId, filter, { ...page, total }));
  }
  const cells = await readSettledCells(tx, userId, NO_FILTER);
  if (sumCounts(cells) > LARGE_HISTORY_ROWS) return listLargeHistory(tx, userId, filter, { ...page, cells });
  const branches = branchesOf(userId, filter, isAfter(page.after));
  return exactPage(await countRows(tx, userId, filter), page, () => scanMerged(tx, branches, page));
}

/** The position of a user's row in the list. */
export async function findPosition(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<HistoryPosition | undefined> {
  // one statement: its block may write the row between two
  const [row] = await tx<HistoryPosition[]>`
    select id, (extract(epoch from detected_at) * 1000000)::bigint as micros
    from transactions
    where id = ${id} and owner = owner_key(${userId})
    union all
    select id, (extract(epoch from detected_at) * 1000000)::bigint
    from unwritten_of(owner_key(${userId}))
    where id = ${id}
    limit 1`;
  return row;
}

/** The user's own row. */
export async function findTransaction(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<HistoryRow | undefined> {
  const [row] = await tx<HistoryRow[]>`
    select ${columnsOf(tx, transactions)}
    from transactions
    where id = ${id} and owner = owner_key(${userId})
    union all
    select ${columnsOf(tx, transactions)}
    from unwritten_of(owner_key(${userId}))
    where id = ${id}
    limit 1`;
  return row;
}

/** The exact number of matching rows. A search or an amount between dates counts row by row: for jobs, not for pages. */
export async function countChosen(tx: Tx, userId: string, filter: TransactionFilter): Promise<number> {
  const hasAmounts = filter.minUnits !== undefined || filter.maxUnits !== undefined;
  const hasDates = filter.from !== undefined || filter.before !== undefined;
  if (filter.search !== undefined || (hasAmounts && hasDates)) return countRows(tx, userId, filter);
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

async function exactPage(
  total: number,
  page: Page,
  read: () => Promise<HistoryRow[]>,
): Promise<TransactionPage> {
  return { rows: page.offset >= total ? [] : await read(), total, isLowerBound: false };
}

/** One ordered index scan when every cell is selected, else one per cell, merged, and one of what is PENDING: never reads beyond the page. */
function scanCells(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  cells: readonly Cell[],
  page: Page,
): Promise<HistoryRow[]> {
  if (cells.length === 0) return Promise.resolve([]);
  const following = isAfter(page.after);
  const settled = cells.filter(({ status }) => status !== "PENDING");
  const pending = cells.length > settled.length ? pendingBranch(userId, filter, following) : undefined;
  const branches = isEveryCell(filter)
    ? branchesOf(userId, filter, following)
    : [
        ...settled.map((cell) => inHistory(and(cellCondition(userId, cell, filter), following))),
        ...(pending ? [pending] : []),
      ];
  return page.offset > PLAIN_OFFSET ? scanKeys(tx, userId, branches, page) : scanMerged(tx, branches, page);
}

/** One ordered scan a branch, merged. */
function scanMerged(tx: Tx, branches: readonly Branch[], page: Page): Promise<HistoryRow[]> {
  const reach = page.offset + page.limit;
  return run(
    tx,
    mergeNewest(
      branches.map((branch) => scanBranch(HISTORY_COLUMNS, branch, reach)),
      page,
    ),
  );
}

/** First the page's keys by index, one ordered scan per branch, merged; then the page's rows. */
function scanKeys(tx: Tx, userId: string, branches: readonly Branch[], page: Page): Promise<HistoryRow[]> {
  const scans = branches.map((branch) => scanBranch(KEYS, branch, page.offset + page.limit));
  return run(
    tx,
    sql`
      select ${sql.join(Object.values(HISTORY_COLUMNS), sql`, `)}
      from ${rowsOf(userId, mergeNewest(scans, page))}
      order by transactions.detected_at desc, transactions.id desc`,
  );
}

function run(tx: Tx, query: SQL): Promise<HistoryRow[]> {
  return runBuilt<HistoryRow>(tx, { toSQL: () => dialect.sqlToQuery(query) });
}
