/** A history filter as query conditions, built by drizzle. The owner is always the first condition. */
import {
  and,
  desc,
  eq,
  gte,
  ilike,
  inArray,
  like,
  lt,
  lte,
  or,
  type SQL,
  type SQLWrapper,
  sql,
} from "drizzle-orm";
import type { TransactionFilter } from "../../core/domain/transaction.ts";
import { transactions } from "../schema.ts";

/** Prefixes of a transaction hash: "0", "0x", "0xab…". */
const HASH_PREFIX = /^0(x[0-9a-f]{0,64})?$/i;

/** All conditions of the filter for one user. */
export function conditionsOf(userId: string, filter: TransactionFilter): SQL | undefined {
  return and(
    eq(transactions.userId, userId),
    anyOf(transactions.type, filter.types),
    anyOf(transactions.status, filter.statuses),
    anyOf(transactions.network, filter.networks),
    timeConditions(filter),
    amountConditions(filter),
    filter.search === undefined ? undefined : searchCondition(filter.search),
  );
}

/** The same condition for each of the two sets of indexes there are: what a block decided, and what is PENDING. Together every row. */
export function branchesOf(condition: SQL | undefined): SQL[] {
  return [
    sql`(${condition}) and ${transactions.isSettled}`,
    sql`(${condition}) and not ${transactions.isSettled}`,
  ];
}

export const NEWEST_FIRST = [desc(transactions.detectedAt), desc(transactions.id)] as const;

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

/** Case-insensitive substring of the description or the reference, or a prefix of the hash. `%`, `_` and `\` are literal. */
export function searchCondition(term: string): SQL | undefined {
  const part = `%${escapeLike(term)}%`;
  const inText = or(ilike(transactions.description, part), ilike(transactions.reference, part));
  if (!HASH_PREFIX.test(term)) return inText;
  return or(inText, like(transactions.txHash, `${term.toLowerCase()}%`));
}

export function escapeLike(text: string): string {
  return text.replace(/[\\%_]/g, (character) => `\\${character}`);
}

type EnumColumn = typeof transactions.type | typeof transactions.status | typeof transactions.network;

function anyOf(column: EnumColumn, values: readonly string[]): SQL | undefined {
  return values.length === 0 ? undefined : inArray(column, values as never[]);
}
