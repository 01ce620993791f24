/** A history filter as query conditions, built by drizzle. The owner is always the first condition. */
import { and, desc, gte, ilike, like, lt, lte, or, type SQL, type SQLWrapper, sql } from "drizzle-orm";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { TRANSACTION_STATUSES, TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import type { TransactionFilter } from "../../core/domain/transaction.ts";
import { transactions } from "../schema.ts";
import { type CellKey, counterCell } from "./counter-cell.ts";

/** The columns of a list row. */
export const HISTORY_COLUMNS = {
  id: transactions.id,
  type: transactions.type,
  status: transactions.status,
  amountUnits: transactions.amountUnits,
  network: transactions.network,
  counterparty: transactions.counterparty,
  description: transactions.description,
  txHash: transactions.txHash,
  logIndex: transactions.logIndex,
  blockNumber: transactions.blockNumber,
  linkId: transactions.linkId,
  paymentId: transactions.paymentId,
  failureReason: transactions.failureReason,
  detectedAt: transactions.detectedAt,
  confirmedAt: transactions.confirmedAt,
  settledBy: transactions.settledBy,
  candidates: transactions.candidates,
  operationId: transactions.operationId,
  operationNote: transactions.operationNote,
  reference: transactions.reference,
};

/** Prefixes of a transaction hash: "0", "0x", "0xab…". */
const HASH_PREFIX = /^0(x[0-9a-f]{0,64})?$/i;
/** Digits have no case, and comparing them directly is several times as fast. */
const DIGITS = /^[0-9]+$/;
/** Digits in a row that `number_parts` holds as one number each, for transactions_numbered. */
const PART_DIGITS = 5;
/** What the trigram index can look up: three letters or digits in a row. */
const HAS_TRIGRAM = /[\p{L}\p{N}]{3}/u;
export const SETTLED_STATUSES = TRANSACTION_STATUSES.filter((status) => status !== "PENDING");
/** Bytes of a hash in transactions_user_hash. */
const INDEXED_HASH_BYTES = 6;

/** All conditions of the filter for one user. Lists read by `branchesOf`, which has an index for each. */
export function conditionsOf(userId: string, filter: TransactionFilter): SQL | undefined {
  return and(
    isOwnedBy(userId),
    isInCells(filter),
    timeConditions(filter),
    amountConditions(filter),
    filter.search === undefined ? undefined : searchCondition(filter.search),
  );
}

/** By the column that the indexes hold instead of the user's id. */
export function isOwnedBy(userId: string): SQL {
  return sql`${transactions.owner} = owner_key(${userId})`;
}

/** A row's type, status and network, by the number that the indexes hold instead. */
export function isInCell(cell: CellKey): SQL {
  return sql`${transactions.cell} = ${counterCell(cell)}`;
}

/** Any choice of types, statuses and networks: absent or empty means every one. */
export function isInCells(filter: TransactionFilter): SQL | undefined {
  if (isEveryCell(filter)) return undefined;
  const cells = counterCells(filter).map((cell) => sql`${cell}`);
  return sql`${transactions.cell} in (${sql.join(cells, sql`, `)})`;
}

/** The filter's choice of types, statuses and networks: absent or empty means every one. */
export function counterCells({ types, statuses, networks }: TransactionFilter): number[] {
  return orEvery(types, TRANSACTION_TYPES).flatMap((type) =>
    orEvery(statuses, TRANSACTION_STATUSES).flatMap((status) =>
      orEvery(networks, NETWORK_IDS).map((network) => counterCell({ type, status, network })),
    ),
  );
}

export function orEvery<Value>(chosen: readonly Value[], every: readonly Value[]): readonly Value[] {
  return chosen.length === 0 ? every : chosen;
}

/** Rows to read: what is read `from` goes by the name of transactions. */
export type Branch = { from: SQL; where: SQL | undefined };

/**
 * The selected rows in each of two disjoint sets: settled by a block, and PENDING. A set that cannot contain any
 * is left out, because searching it for absent statuses would scan it completely.
 */
export function branchesOf(userId: string, filter: TransactionFilter, further?: SQL): Branch[] {
  return [settledBranch(userId, filter, further), pendingBranch(userId, filter, further)].flatMap(
    (branch) => branch ?? [],
  );
}

/** Undefined when the filter selects only PENDING rows. */
export function settledBranch(userId: string, filter: TransactionFilter, further?: SQL): Branch | undefined {
  const chosen = withoutPending(filter);
  return chosen && inHistory(and(conditionsOf(userId, chosen), further, sql`${transactions.isSettled}`));
}

/** Rows of the table itself. */
export function inHistory(where: SQL | undefined): Branch {
  return { from: sql`transactions`, where };
}

/** The filter for rows that are known to be settled. */
export function withoutPending(filter: TransactionFilter): TransactionFilter | undefined {
  if (isEveryCell(filter)) return filter;
  const statuses = filter.statuses.filter((status) => status !== "PENDING");
  if (filter.statuses.length > 0 && statuses.length === 0) return undefined;
  return { ...filter, statuses: orEvery(statuses, SETTLED_STATUSES) };
}

/**
 * Undefined when the filter selects no PENDING rows. Includes open payments, which have no
 * row in the table (unwritten_transactions in db/schema/transactions.sql).
 */
export function pendingBranch(userId: string, filter: TransactionFilter, further?: SQL): Branch | undefined {
  if (!choosesPending(filter)) return undefined;
  const isEvery = filter.types.length + filter.networks.length === 0;
  const chosen: TransactionFilter = { ...filter, statuses: isEvery ? [] : ["PENDING"] };
  return {
    from: sql`pending_of(owner_key(${userId})) transactions`,
    where: and(conditionsOf(userId, chosen), further),
  };
}

export function choosesPending({ statuses }: TransactionFilter): boolean {
  return statuses.length === 0 || statuses.includes("PENDING");
}

export function choosesCell({ types, statuses, networks }: TransactionFilter, cell: CellKey): boolean {
  return (
    orEvery(types, TRANSACTION_TYPES).includes(cell.type) &&
    orEvery(statuses, TRANSACTION_STATUSES).includes(cell.status) &&
    orEvery(networks, NETWORK_IDS).includes(cell.network)
  );
}

/** True when the filter excludes no type, status or network. */
export function isEveryCell({ types, statuses, networks }: TransactionFilter): boolean {
  return types.length + statuses.length + networks.length === 0;
}

/** These columns of a branch, newest first. */
export function scanBranch(
  columns: Readonly<Record<string, SQLWrapper>>,
  { from, where }: Branch,
  limit: number,
): SQL {
  return sql`
    select ${sql.join(Object.values(columns), sql`, `)}
    from ${from}
    where ${where ?? sql`true`}
    order by ${NEWEST_FIRST}
    limit ${limit}`;
}

/** The user's rows with the ids of `page`, as transactions, whether they are PENDING without a row of the table or not. */
export function rowsOf(userId: string, page: SQL): SQL {
  const columns = sql.join(Object.values(HISTORY_COLUMNS), sql`, `);
  return sql`
    (${page}) page
    cross join lateral (
      select ${columns}
      from transactions
      where transactions.id = page.id
      union all
      select ${columns}
      from unwritten_of(owner_key(${userId})) transactions
      where transactions.id = page.id
    ) transactions`;
}

const NEWEST_FIRST = sql.join([desc(transactions.detectedAt), desc(transactions.id)], sql`, `);

/** One page of several scans that are each newest first and reach as far as the page does. */
export function mergeNewest(scans: readonly SQLWrapper[], page: { limit: number; offset: number }): SQL {
  const merged = sql.join(
    scans.map((scan) => sql`(${scan})`),
    sql` union all `,
  );
  return sql`
    select *
    from (${merged}) merged
    order by detected_at desc, id desc
    limit ${page.limit}
    offset ${page.offset}`;
}

/** `detected_at` in [from, before). */
export function timeConditions({
  from,
  before,
}: Pick<TransactionFilter, "from" | "before">): SQL | undefined {
  return and(
    from ? gte(transactions.detectedAt, from) : undefined,
    before ? lt(transactions.detectedAt, before) : undefined,
  );
}

/** Rows older than this one, in the list's order. `micros` of `detected_at` since 1970. */
export type HistoryPosition = { micros: bigint; id: string };

export function isAfter(position: HistoryPosition | undefined): SQL | undefined {
  if (!position) return undefined;
  return sql`(${transactions.detectedAt}, ${transactions.id}) < (to_timestamp_micros(${position.micros}::bigint), ${position.id}::text)`;
}

/** `amount_units` in [minUnits, maxUnits]. */
export function amountConditions({
  minUnits,
  maxUnits,
}: Pick<TransactionFilter, "minUnits" | "maxUnits">): SQL | undefined {
  return and(
    minUnits === undefined ? undefined : gte(transactions.amountUnits, minUnits),
    maxUnits === undefined ? undefined : lte(transactions.amountUnits, maxUnits),
  );
}

/**
 * As `matchesText`. A number is looked up in transactions_numbered only: its parts are in few rows, the trigrams of its digits in many.
 */
export function searchCondition(term: string): SQL | undefined {
  if (!DIGITS.test(term) || term.length < PART_DIGITS) return matchesText(term);
  const parts = sql`number_parts(${transactions.description}, ${transactions.reference}) @> ${partsOf(term)}::int[]`;
  return and(containsUnindexed(term), HAS_NUMBER, parts);
}

/** Case-insensitive substring of the description or the reference, or a prefix of the hash. `%`, `_` and `\` are literal. */
export function matchesText(term: string): SQL | undefined {
  const part = `%${escapeLike(term)}%`;
  const contains = DIGITS.test(term) ? like : ilike;
  const inText = HAS_TRIGRAM.test(term)
    ? // the index has no entries for rows without a description
      or(
        and(sql`${transactions.description} <> ''`, contains(transactions.description, part)),
        contains(transactions.reference, part),
      )
    : // without a trigram to look up, the whole index would be read, with the rows of every user
      containsUnindexed(term);
  if (!HASH_PREFIX.test(term)) return inText;
  const digits = term.toLowerCase().slice(2);
  const beginning = (filler: string) =>
    `0x${digits.slice(0, 2 * INDEXED_HASH_BYTES).padEnd(2 * INDEXED_HASH_BYTES, filler)}`;
  const hash = and(
    sql`substr(${transactions.txHash}, 1, ${sql.raw(String(INDEXED_HASH_BYTES))})
      between ${beginning("0")}::bytea and ${beginning("f")}::bytea`,
    like(sql`hex_of(${transactions.txHash})`, `0x${digits}%`),
  );
  return or(inText, hash);
}

/** Does not use the trigram index. */
function containsUnindexed(term: string): SQL | undefined {
  const part = `%${escapeLike(term)}%`;
  const contains = DIGITS.test(term) ? like : ilike;
  return or(
    contains(sql`(${transactions.description} || '')`, part),
    contains(sql`(${transactions.reference} || '')`, part),
  );
}

/** As transactions_numbered says which rows it holds. */
const HAS_NUMBER = sql`(${transactions.description} ~ '[0-9]{5}' or ${transactions.reference} ~ '[0-9]{5}')`;

/** Every five digits in a row, as an array of numbers. */
function partsOf(digits: string): string {
  const parts = Array.from({ length: digits.length - PART_DIGITS + 1 }, (_, start) =>
    Number(digits.slice(start, start + PART_DIGITS)),
  );
  return `{${parts.join(",")}}`;
}

/** Whether an index can find the rows: a trigram, or the beginning of a hash. Otherwise every row of the user's is compared. */
export function isIndexed(term: string): boolean {
  return HAS_TRIGRAM.test(term) || HASH_PREFIX.test(term);
}

export function escapeLike(text: string): string {
  return text.replace(/[\\%_]/g, (character) => `\\${character}`);
}
