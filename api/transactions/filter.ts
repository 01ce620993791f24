/** Parses the list's filters from a query string or an export's body: same names, same rules. */
import { z } from "zod";
import { invalid } from "../../core/domain/errors.ts";
import { parseUnits } from "../../core/domain/money.ts";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { TRANSACTION_STATUSES, TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import type { TransactionFilter } from "../../core/domain/transaction.ts";
import { oneOf } from "../http/envelope.ts";
import { documentedAs } from "../http/json-schema.ts";
import { pageLimit } from "../http/list-pages.ts";
import { userId } from "../http/own-user-id.ts";
import { knownQuery, queryNumber } from "../http/query.ts";

const OFFSET_MAX = 1_000_000_000;
const CURSOR_MAX_CHARS = 200;
const SEARCH_MAX_CHARS = 200;
const VALUES_MAX = 100;
const DAY_MS = 86_400_000;
const CURRENCIES = ["USDC"] as const;

/** Repeated keys, `key[]` or commas, in any combination; empty values are ignored. OpenAPI shows the plain form: a list. */
const oneOrMore = <const Values extends readonly [string, ...string[]]>(values: Values) => {
  type Value = Values[number];
  const isKnown = (value: string): value is Value => values.includes(value);
  const schema = z
    .union([z.string(), z.array(z.string()).max(VALUES_MAX)], "must be a string or a list of strings")
    .transform((given) => [given].flat().flatMap((text) => text.split(",")))
    .transform((texts) => [...new Set(texts.map((text) => text.trim()).filter((text) => text !== ""))])
    .refine((texts) => texts.every(isKnown), `must be ${oneOf(values)}`)
    .transform((texts) => texts.filter(isKnown))
    .optional();
  return documentedAs(schema, {
    type: "array",
    items: { type: "string", enum: values },
    maxItems: VALUES_MAX,
  });
};

const search = z
  .string()
  .max(SEARCH_MAX_CHARS)
  .refine((text) => text.isWellFormed() && !text.includes("\0"), "must be text");

/** Filters in a query string; array parameters also as `key[]`. */
const arrays = {
  types: oneOrMore(TRANSACTION_TYPES),
  statuses: oneOrMore(TRANSACTION_STATUSES),
  networks: oneOrMore(NETWORK_IDS),
  currencies: oneOrMore(CURRENCIES),
};
const time = z.string().max(40);
const AMOUNT_ISSUE = "must be a decimal number of USDC with at most 6 decimals";
const amount = z.string().max(40);
const queryAmount = documentedAs(amount.optional(), { type: "number", minimum: 0 });

const filters = {
  ...arrays,
  "types[]": arrays.types,
  "statuses[]": arrays.statuses,
  "networks[]": arrays.networks,
  "currencies[]": arrays.currencies,
  dateFrom: time.optional().describe("ISO 8601; a date is its UTC day"),
  dateTo: time.optional().describe("ISO 8601, inclusive; a date is its UTC day"),
  search: search.optional().describe("Part of description or reference, or beginning of the hash"),
  amountMin: queryAmount,
  amountMax: queryAmount,
};

const own = { userId: userId.optional() };
export const summaryQuery = knownQuery({ ...own, ...filters });
export const listQuery = knownQuery({
  ...own,
  limit: pageLimit(50),
  offset: queryNumber({ min: 0, max: OFFSET_MAX, fallback: 0 }),
  cursor: z
    .string()
    .max(CURSOR_MAX_CHARS)
    .optional()
    .describe("`nextCursor` of the previous page; not with offset"),
  ...filters,
});

/** The same filters in an export's JSON body, where amounts may be numbers. */
const bodyAmount = z.union([amount, z.number().nonnegative().transform(String)], AMOUNT_ISSUE);
export const bodyFilters = {
  ...arrays,
  dateFrom: time.optional(),
  dateTo: time.optional(),
  search: search.optional(),
  amountMin: bodyAmount.optional(),
  amountMax: bodyAmount.optional(),
};

type Given = Partial<z.infer<typeof summaryQuery>>;

/** Throws VALIDATION_ERROR naming the first invalid filter. */
export function toFilter(given: Given): TransactionFilter {
  const from = given.dateFrom ? readTime(given.dateFrom, "dateFrom").from : undefined;
  const before = given.dateTo ? readTime(given.dateTo, "dateTo").before : undefined;
  if (from && before && from >= before) throw invalid("dateFrom", "must not be after dateTo");
  const minUnits = given.amountMin ? readAmount(given.amountMin, "amountMin") : undefined;
  const maxUnits = given.amountMax ? readAmount(given.amountMax, "amountMax") : undefined;
  if (minUnits !== undefined && maxUnits !== undefined && minUnits > maxUnits)
    throw invalid("amountMin", "must not be greater than amountMax");
  const term = given.search?.trim();
  return {
    types: merge(given.types, given["types[]"]),
    statuses: merge(given.statuses, given["statuses[]"]),
    networks: merge(given.networks, given["networks[]"]),
    currencies: merge(given.currencies, given["currencies[]"]),
    from: from && clamp(from),
    before: before && clamp(before),
    search: term === "" ? undefined : term,
    minUnits,
    maxUnits,
  };
}

function merge<Value>(one: readonly Value[] | undefined, other: readonly Value[] | undefined): Value[] {
  return [...new Set([...(one ?? []), ...(other ?? [])])];
}

const DATE = /^\d{4}-\d{2}-\d{2}$/;
/** ISO 8601 (RFC 3339): date, time, and a zone; without one it is UTC. A `+` that the query string turned into a space is accepted. */
const INSTANT = /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}(?::\d{2})?)(\.\d{1,9})?([Zz]|[+\- ]\d{2}:?\d{2})?$/;

/**
 * The first instant of the given date or time, and the first after it. Stored times are more precise than displayed ones, so a millisecond is a
 * range.
 */
function readTime(text: string, field: string): { from: Date; before: Date } {
  if (DATE.test(text)) {
    const day = toInstant(`${text}T00:00:00Z`, text, field);
    return { from: day, before: new Date(day.getTime() + DAY_MS) };
  }
  const match = INSTANT.exec(text);
  if (!match) throw invalid(field, "must be an ISO 8601 date or time");
  const [, date = "", time = "", fraction = "", zone = "Z"] = match;
  const offset =
    zone.toUpperCase() === "Z" ? "Z" : zone.replace(" ", "+").replace(/^(.\d{2})(\d{2})$/, "$1:$2");
  const seconds = time.length === 5 ? `${time}:00` : time;
  const instant = toInstant(`${date}T${seconds}${fraction.slice(0, 4)}${offset}`, date, field);
  return { from: instant, before: new Date(instant.getTime() + 1) };
}

/** The database only stores four-digit years, so a bound beyond them excludes nothing. */
const EARLIEST = new Date("0001-01-01T00:00:00Z");
const LATEST = new Date("9999-12-31T00:00:00Z");

function clamp(instant: Date): Date {
  if (instant < EARLIEST) return EARLIEST;
  return instant > LATEST ? LATEST : instant;
}

/** Refuses dates that do not exist (2026-02-30), which Date would roll over, and times Postgres cannot store. */
function toInstant(text: string, date: string, field: string): Date {
  const instant = new Date(text);
  const midnight = new Date(`${date}T00:00:00Z`);
  const isDay = !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(date);
  if (Number.isNaN(instant.getTime()) || !isDay) throw invalid(field, "must be an ISO 8601 date or time");
  return instant;
}

function readAmount(text: string, field: string): bigint {
  const units = parseUnits(text.trim());
  if (units === undefined) throw invalid(field, AMOUNT_ISSUE);
  return units;
}
