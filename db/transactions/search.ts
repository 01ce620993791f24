/**
 * Searches a large history. Frequent text is found among the newest rows; rare text by the trigram, hash or amount index. Searches that
 * would read too much of the history are refused before they read it. Which fields a text matches: `matchesText` of filter.ts.
 */
import { and, count, type SQL, sql } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import { invalid } from "../../core/domain/errors.ts";
import { type HistoryRow, NO_FILTER, type TransactionFilter } from "../../core/domain/transaction.ts";
import { runBuilt, type Tx } from "../postgres/client.ts";
import { readInTime } from "../postgres/statement-timeout.ts";
import { transactions } from "../schema.ts";
import { countByAmount } from "./amount-counts.ts";
import { type Cell, countByDays, sumCounts } from "./counts.ts";
import {
  type Branch,
  choosesCell,
  conditionsOf,
  HISTORY_COLUMNS,
  type HistoryPosition,
  isAfter,
  isIndexed,
  isOwnedBy,
  matchesText,
  pendingBranch,
  rowsOf,
  settledBranch,
  timeConditions,
  withoutPending,
} from "./filter.ts";

const dialect = new PgDialect();

/** Newest rows scanned; more when the first ones show that this will be enough. */
const RECENT_ROWS = [500, 5_000];
/** The same when no index can be used. */
const RECENT_ROWS_FAR = [20_000, 50_000];
/** Times as many rows as the first ones suggest. */
const SPAN_MARGIN = 3;
/** And as counters suggest, which know the whole history: enough for all but one page in some hundred, of evenly spread rows. */
const COUNTED_MARGIN = 1.5;
/** Rows that a search may read by an index: about 40 ms of Postgres time. */
const INDEXED_ROWS_MAX = 25_000;
/** Rows between amounts are scattered over the table, so fewer of them take as long. */
const AMOUNT_ROWS_MAX = 5_000;
/** Without a search, an index-only scan of the amount index is enough. */
const AMOUNT_ENTRIES_MAX = 20_000;
/** Rows sampled in each of two places to estimate how frequent a text is. */
const SAMPLE_ROWS = 500;

type Page = { limit: number; offset: number; after?: HistoryPosition | undefined };
/** `cells`: what is settled of the user's whole history. */
type Asked = Page & { cells: readonly Cell[] };
type Found = { rows: HistoryRow[]; total: number; isLowerBound: boolean };

export async function listLargeHistory(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  { cells, ...page }: Asked,
): Promise<Found> {
  const reach = page.offset + page.limit;
  /** Share of rows that match, as far as is known. */
  let frequency = Number.POSITIVE_INFINITY;
  const look = async (spans: readonly number[], margin = SPAN_MARGIN) => {
    for (const most of spans) {
      if (frequency * most < 2 * reach) break;
      const span = Math.min(most, Math.ceil((margin * reach) / frequency) || most);
      const recent = await findRecent(tx, userId, filter, page, span);
      if (recent.settled > reach) return recent;
      frequency = recent.settled / span;
    }
    return undefined;
  };
  const findAll = (key: Key) => findByIndex(tx, userId, filter, { ...page, key });
  if (!withoutPending(filter)) return findAll("dates");
  const shares = await sampleText(tx, userId, filter, page);
  if (shares?.share === 0 && shares.near === 0) return findAll("text");
  const near = await look(RECENT_ROWS);
  if (near) return near;
  const size = sumCounts(cells);
  const { key, isShort, amounts } = await chooseIndex(tx, userId, filter, {
    cells,
    share: shares?.share ?? 1,
  });
  if (isShort) return findAll(key);
  // from the counters, which are more reliable than the few sampled rows
  const isCounted = filter.search === undefined && amounts !== undefined;
  const spans = isCounted ? RECENT_ROWS_FAR.slice(-1) : RECENT_ROWS_FAR;
  if (isCounted) {
    const chosen = sumCounts(cells.filter((cell) => choosesCell(filter, cell)));
    const known = (amounts / size) * (chosen / size);
    frequency = known;
    const counted = await look(spans, COUNTED_MARGIN);
    if (counted) return counted;
    // none or nearly none that far: they begin further down
    if (spans.every((most) => frequency * most < 2 * reach)) frequency = known;
  }
  const far = await look(spans);
  if (far) return far;
  if (filter.search !== undefined) throw tooBroad();
  return findAll(key);
}

/** The lookup in an index. */
type Key = "dates" | "amounts" | "text";

/** The index that leads to the fewest rows, and whether these are few enough. `amounts`: rows between the amounts, at any time. */
async function chooseIndex(
  tx: Tx,
  userId: string,
  { search, from, before, minUnits, maxUnits }: TransactionFilter,
  { cells, share }: { cells: readonly Cell[]; share: number },
): Promise<{ key: Key; isShort: boolean; amounts?: number | undefined }> {
  const ways: { key: Key; rows: number; most: number }[] = [];
  if (search !== undefined) {
    const rows = share * sumCounts(cells);
    if (rows === 0) return { key: "text", isShort: true };
    ways.push({ key: "text", rows, most: INDEXED_ROWS_MAX });
  }
  if (from !== undefined || before !== undefined) {
    const between = { ...NO_FILTER, from, before };
    const rows = await countByDays(tx, userId, between, cells);
    ways.push({ key: "dates", rows, most: INDEXED_ROWS_MAX });
  }
  if (minUnits !== undefined || maxUnits !== undefined) {
    const rows = await countByAmount(tx, userId, { ...NO_FILTER, minUnits, maxUnits });
    ways.push({ key: "amounts", rows, most: search === undefined ? AMOUNT_ENTRIES_MAX : AMOUNT_ROWS_MAX });
  }
  ways.sort((one, other) => one.rows / one.most - other.rows / other.most);
  const [best] = ways;
  const amounts = ways.find(({ key }) => key === "amounts")?.rows;
  return best
    ? { key: best.key, isShort: best.rows <= best.most, amounts }
    : { key: "dates", isShort: false };
}

/**
 * How frequent a text is that an index can find. `share`: of the newest rows and of those before the middle of the history's time, the lower
 * one, since a text may be new or no longer in use; where the newest have none, the others are not read. `near`: of the rows that the list
 * begins with.
 */
async function sampleText(
  tx: Tx,
  userId: string,
  { search, from, before }: TransactionFilter,
  { after }: Page,
): Promise<{ share: number; near: number } | undefined> {
  if (search === undefined || !isIndexed(search)) return undefined;
  const settled = and(isOwnedBy(userId), sql`${transactions.isSettled}`);
  const end = (order: "asc" | "desc") => sql`
    (select detected_at from transactions where ${settled} order by detected_at ${sql.raw(order)} limit 1)`;
  const sample = (condition: SQL | undefined) => sql`
    select coalesce(avg(case when ${matchesText(search)} then 1 else 0 end), 0)::float8 as share
    from (
      select description, reference, tx_hash
      from transactions
      where ${condition}
      order by detected_at desc
      limit ${sql.raw(String(SAMPLE_ROWS))}
    ) transactions`;
  const middle = sql`${end("asc")} + (${end("desc")} - ${end("asc")}) / 2`;
  const elsewhere = and(timeConditions({ from, before }), isAfter(after));
  const query = sql`
    with newest as materialized (${sample(settled)})
    select
      case
        when share = 0 then 0
        else least(share, (${sample(and(settled, sql`${transactions.detectedAt} <= ${middle}`))}))
      end as share,
      ${elsewhere ? sql`(${sample(and(settled, elsewhere))})` : sql`share`} as near
    from newest`;
  const built = { toSQL: () => dialect.sqlToQuery(query) };
  const [row] = await runBuilt<{ share: number; near: number }>(tx, built, { prepare: true });
  return row;
}

/**
 * The page within what is PENDING and the newest `span` settled rows that follow the position. `settled`: how many of these match. The page
 * has no gap where they are more than it reaches. `total`: how many match altogether, a lower bound.
 */
async function findRecent(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  page: Page,
  span: number,
): Promise<Found & { settled: number }> {
  const following = isAfter(page.after);
  const near = { ...NO_FILTER, from: filter.from, before: filter.before };
  const columns = sql.join(
    [...Object.values(HISTORY_COLUMNS), transactions.owner, transactions.cell],
    sql`, `,
  );
  const pending = pendingBranch(userId, filter, following);
  // rows of the last one's time, too: their order by id is of the few that match
  const newest = sql`
    (select ${columns}, true as is_settled
    from transactions
    where ${settledBranch(userId, near, following)?.where}
    order by detected_at desc
    fetch first (${span}) rows with ties)
    ${pending ? sql`union all select ${columns}, false from ${pending.from} where ${pending.where}` : sql``}`;
  const query = sql`
    select
      ${sql.join(Object.values(HISTORY_COLUMNS), sql`, `)}, count(*) over () as total,
      count(*) filter (where is_settled) over () as settled
    from (${newest}) transactions
    where ${conditionsOf(userId, filter)}
    order by detected_at desc, id desc
    limit ${page.limit}
    offset ${page.offset}`;
  const rows = await runBuilt<HistoryRow & { total: bigint; settled: bigint }>(tx, {
    toSQL: () => dialect.sqlToQuery(query),
  });
  const [row] = rows;
  return { rows, total: Number(row?.total ?? 0n), settled: Number(row?.settled ?? 0n), isLowerBound: true };
}

/** Every matching row, by one index: exact. */
async function findByIndex(
  tx: Tx,
  userId: string,
  filter: TransactionFilter,
  { key, ...page }: Page & { key: Key },
): Promise<Found> {
  const pending = pendingBranch(userId, filter);
  const branches = [settledBy(key, userId, filter) ?? [], pending ? keysOf(pending) : []].flat();
  if (branches.length === 0) return { rows: [], total: 0, isLowerBound: false };
  const query = sql`
    with found as materialized (${sql.join(branches, sql` union all `)}),
    page as (
      select id
      from found
      where ${isBelow(page.after)}
      order by detected_at desc, id desc
      limit ${page.limit}
      offset ${page.offset}
    )
    select ${sql.join(Object.values(HISTORY_COLUMNS), sql`, `)}, counted.total
    from (select ${count()} as total from found) counted
    left join (${rowsOf(userId, sql`select id from page`)}) on true
    order by transactions.detected_at desc, transactions.id desc`;
  const read = async () => {
    const rows = await runBuilt<HistoryRow & { id: string | null; total: bigint }>(tx, {
      toSQL: () => dialect.sqlToQuery(query),
    });
    const total = Number(rows[0]?.total ?? 0n);
    return { rows: rows.filter(({ id }) => id !== null), total, isLowerBound: false };
  };
  return readInTime(tx, read, tooBroad);
}

/** Settled rows by the index of `key`, whatever the planner expects of another one: `offset 0` keeps the other conditions out of it. */
function settledBy(key: Key, userId: string, filter: TransactionFilter): SQL | undefined {
  const chosen = withoutPending(filter);
  if (!chosen) return undefined;
  const { from, before, minUnits, maxUnits, search } = filter;
  // compared when the rows are read
  const rest = key === "text" ? { ...chosen, search: undefined } : chosen;
  const asked: Record<Key, Partial<TransactionFilter>> = {
    dates: { from, before },
    amounts: { from, before, minUnits, maxUnits },
    text: { search },
  };
  const order: Record<Key, SQL> = {
    dates: sql`order by detected_at desc, id desc`,
    amounts: sql`order by amount_units`,
    text: sql``,
  };
  return sql`
    select id, detected_at
    from (
      select id, owner, cell, detected_at, amount_units, description, reference, tx_hash
      from transactions
      where ${settledBranch(userId, { ...NO_FILTER, ...asked[key] })?.where}
      ${order[key]}
      offset 0
    ) transactions
    where ${conditionsOf(userId, rest)}`;
}

function keysOf(branch: Branch): SQL {
  return sql`
    select id, detected_at
    from ${branch.from}
    where ${branch.where ?? sql`true`}`;
}

function tooBroad() {
  return invalid(
    "search",
    "too_broad",
    "This search would scan the whole history: search for a longer text, or limit the dates",
  );
}

function isBelow(after: HistoryPosition | undefined): SQL {
  if (!after) return sql`true`;
  return sql`(detected_at, id) < (to_timestamp_micros(${after.micros}::bigint), ${after.id}::text)`;
}
