/**
 * Searches a large history. Frequent text is found among the newest rows; rare text by the trigram, hash or amount index. Searches that
 * would read the whole history are refused.
 */
import { and, count, type SQL, sql } from "drizzle-orm";
import { PgDialect, QueryBuilder } from "drizzle-orm/pg-core";
import { invalid } from "../../core/domain/errors.ts";
import type { HistoryRow, TransactionFilter } from "../../core/domain/transaction.ts";
import { runBuilt, type Tx } from "../postgres/client.ts";
import { readInTime } from "../postgres/statement-timeout.ts";
import { transactions } from "../schema.ts";
import { countRows } from "./counts.ts";
import {
  branchesOf,
  conditionsOf,
  type HistoryPosition,
  isAfter,
  isIndexed,
  isOwnedBy,
  mergeNewest,
  NEWEST_FIRST,
  timeConditions,
} from "./filter.ts";

const dialect = new PgDialect();

/** Newest rows scanned: more when the first ones show that it will suffice. */
const RECENT_ROWS = [500, 5_000, 20_000, 200_000];

type Page = { limit: number; offset: number; after?: HistoryPosition | undefined };
type Found = { rows: HistoryRow[]; total: number; isLowerBound: boolean };

export async function listLargeHistory(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  page: Page,
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
  const hasOtherBounds = [filter.minUnits, filter.maxUnits, filter.from].some((bound) => bound !== undefined);
  // only dates or amounts keep it from comparing every row
  if (filter.search !== undefined && !isIndexed(filter.search) && !hasOtherBounds) throw tooBroad();
  return findByIndex(tx, conditionsOf(userId, filter), page);
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
    select transactions.*, (select ${count()} from found) as total
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
