/**
 * Searches a large history. Frequent text is found among the newest rows; rare text by the trigram, hash or amount index. Searches that
 * would read too much of the history are refused before they read it.
 */
import { and, count, type SQL, sql } from "drizzle-orm";
import { PgDialect, QueryBuilder } from "drizzle-orm/pg-core";
import { invalid } from "../../core/domain/errors.ts";
import { type HistoryRow, NO_FILTER, type TransactionFilter } from "../../core/domain/transaction.ts";
import { runBuilt, type Tx } from "../postgres/client.ts";
import { readInTime } from "../postgres/statement-timeout.ts";
import { transactions } from "../schema.ts";
import { countByAmount } from "./amount-counts.ts";
import { countByDays, countRows, readCells } from "./counts.ts";
import {
  branchesOf,
  conditionsOf,
  HISTORY_COLUMNS,
  type HistoryPosition,
  isAfter,
  isIndexed,
  isOwnedBy,
  mergeNewest,
  NEWEST_FIRST,
  searchCondition,
  timeConditions,
} from "./filter.ts";

const dialect = new PgDialect();

/** Newest rows scanned: more when the first ones show that it will suffice. */
const RECENT_ROWS = [500, 5_000, 20_000, 200_000];
/** Rows that a search may read by an index: some 50 ms of Postgres' time. */
const INDEXED_ROWS_MAX = 25_000;
/** Rows between amounts lie anywhere in the table: as long for fewer of them. */
const AMOUNT_ROWS_MAX = 10_000;
/** Rows looked at in each of two places to learn how frequent a text is. */
const SAMPLE_ROWS = 500;

type Page = { limit: number; offset: number; after?: HistoryPosition | undefined };
/** `size`: rows of the user's whole history. */
type Asked = Page & { size: number };
type Found = { rows: HistoryRow[]; total: number; isLowerBound: boolean };

export async function listLargeHistory(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  { size, ...page }: Asked,
): Promise<Found> {
  const reach = page.offset + page.limit;
  let found = Number.POSITIVE_INFINITY;
  let looked = 1;
  for (const span of RECENT_ROWS) {
    if ((found / looked) * span < 2 * reach) break;
    const recent = await findRecent(tx, userId, filter, page, span);
    if (recent.total > reach) return recent;
    found = recent.total;
    looked = span;
  }
  if (await readsTooMuch(tx, userId, filter, size)) throw tooBroad();
  return findByIndex(tx, conditionsOf(userId, filter), page);
}

/** Whether each index that could serve a search leads to more rows than it may. */
async function readsTooMuch(
  tx: Tx,
  userId: string,
  { search, from, before, minUnits, maxUnits }: TransactionFilter,
  size: number,
): Promise<boolean> {
  if (search === undefined) return false;
  if (from !== undefined || before !== undefined) {
    const between = { ...NO_FILTER, from, before };
    const rows = await countByDays(tx, userId, between, await readCells(tx, userId, between));
    if (rows <= INDEXED_ROWS_MAX) return false;
  }
  if (minUnits !== undefined || maxUnits !== undefined) {
    const rows = await countByAmount(tx, userId, { ...NO_FILTER, minUnits, maxUnits });
    if (rows <= AMOUNT_ROWS_MAX) return false;
  }
  return !isIndexed(search) || (await shareOf(tx, userId, search)) * size > INDEXED_ROWS_MAX;
}

/**
 * The share of rows with this text, among the newest and among those before the middle of the history's time: the lower of the two, since
 * a text may be new or no longer in use.
 */
async function shareOf(tx: Tx, userId: string, search: string): Promise<number> {
  const settled = and(isOwnedBy(userId), sql`${transactions.isSettled}`);
  const end = (order: "asc" | "desc") => sql`
    (select detected_at from transactions where ${settled} order by detected_at ${sql.raw(order)}, id ${sql.raw(order)} limit 1)`;
  const sample = (condition: SQL | undefined) => sql`
    select coalesce(avg(case when ${searchCondition(search)} then 1 else 0 end), 0)::float8 as share
    from (
      select description, reference, tx_hash
      from transactions
      where ${condition}
      order by detected_at desc, id desc
      limit ${SAMPLE_ROWS}
    ) transactions`;
  const middle = sql`${end("asc")} + (${end("desc")} - ${end("asc")}) / 2`;
  const query = sql`
    select least(
      (${sample(settled)}), (${sample(and(settled, sql`${transactions.detectedAt} <= ${middle}`))})
    ) as share`;
  const [row] = await runBuilt<{ share: number | null }>(tx, { toSQL: () => dialect.sqlToQuery(query) });
  return row?.share ?? 0;
}

/** The page within the newest `span` rows that follow the position, and how many of them match: a lower bound of the total. */
async function findRecent(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  page: Page,
  span: number,
): Promise<Found> {
  const newest = mergeNewest(
    branchesOf(and(isOwnedBy(userId), timeConditions(filter), isAfter(page.after))).map((branch) =>
      new QueryBuilder()
        .select()
        .from(transactions)
        .where(branch)
        .orderBy(...NEWEST_FIRST)
        .limit(span),
    ),
    { limit: span, offset: 0 },
  );
  const query = sql`
    select *, count(*) over () as total
    from (${newest}) transactions
    where ${conditionsOf(userId, filter)}
    order by detected_at desc, id desc
    limit ${page.limit}
    offset ${page.offset}`;
  const rows = await runBuilt<HistoryRow & { total: bigint }>(tx, { toSQL: () => dialect.sqlToQuery(query) });
  return { rows, total: Number(rows[0]?.total ?? 0n), isLowerBound: true };
}

/** Every matching row, by the most selective index: exact. */
async function findByIndex(tx: Tx, conditions: SQL | undefined, page: Page): Promise<Found> {
  const found = branchesOf(conditions).map((branch) =>
    new QueryBuilder()
      .select({ id: transactions.id, detectedAt: transactions.detectedAt })
      .from(transactions)
      .where(branch),
  );
  const query = sql`
    with found as materialized (${sql.join(found, sql` union all `)}),
    page as (
      select id
      from found
      where ${isBelow(page.after)}
      order by detected_at desc, id desc
      limit ${page.limit}
      offset ${page.offset}
    )
    select ${sql.join(Object.values(HISTORY_COLUMNS), sql`, `)}, (select ${count()} from found) as total
    from page
    join transactions using (id)
    order by detected_at desc, id desc`;
  const read = async () => {
    const rows = await runBuilt<HistoryRow & { total: bigint }>(tx, {
      toSQL: () => dialect.sqlToQuery(query),
    });
    const total = rows[0]?.total ?? (page.offset === 0 && !page.after ? 0n : await countRows(tx, conditions));
    return { rows, total: Number(total), isLowerBound: false };
  };
  return readInTime(tx, read, tooBroad);
}

function tooBroad() {
  return invalid(
    "search",
    "too_broad",
    "This search would read the whole history: search for a longer text, or between dates",
  );
}

function isBelow(after: HistoryPosition | undefined): SQL {
  if (!after) return sql`true`;
  return sql`(detected_at, id) < (to_timestamp_micros(${after.micros}::bigint), ${after.id}::text)`;
}
