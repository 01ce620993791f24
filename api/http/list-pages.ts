/** Pagination: the page size, and opaque cursors into a user's list. A cursor is bound to list and user: another user's or an edited one is refused. */
import { createHash } from "node:crypto";
import { invalid } from "../../core/domain/errors.ts";
import { queryNumber } from "./query.ts";

const PAGE_ROWS_MAX = 100;

/** The `limit` of a list's query. */
export const pageLimit = (fallback: number) => queryNumber({ min: 1, max: PAGE_ROWS_MAX, fallback });

type Owner = { list: "link" | "transaction"; userId: string };
/** The time by which the list is ordered, and the id. */
type Position = { micros: bigint; id: string };

const CHECK_BYTES = 9;
const FORM = /^(\d{1,18})\.([A-Za-z0-9_-]{1,64})$/;

/** For a list that was read with one row more than a page holds: the extra row shows whether there is a next page. */
export function pageOf<Row>(found: readonly Row[], limit: number, cursorOf: (last: Row) => string) {
  const rows = found.slice(0, limit);
  const last = rows.at(-1);
  const hasNextPage = found.length > limit;
  return { rows, hasNextPage, nextCursor: hasNextPage && last ? cursorOf(last) : null };
}

/** `data` and `pagination` of the general form for a list that always fits on one page. */
export function wholeList<Row>(data: Row[]) {
  const limit = Math.max(PAGE_ROWS_MAX, data.length);
  return { data, pagination: { hasNextPage: false, nextCursor: null, limit } };
}

export function writeCursor(owner: Owner, { micros, id }: Position): string {
  const text = `${micros}.${id}`;
  return Buffer.concat([checkOf(owner, text), Buffer.from(text)]).toString("base64url");
}

/** Throws VALIDATION_ERROR for anything that `writeCursor` did not write for this list and user. */
export function readCursor(owner: Owner, cursor: string): Position {
  const bytes = Buffer.from(cursor, "base64url");
  const text = bytes.subarray(CHECK_BYTES).toString();
  const match = FORM.exec(text);
  const isOwn = bytes.subarray(0, CHECK_BYTES).equals(checkOf(owner, text));
  if (!match || !isOwn || bytes.toString("base64url") !== cursor)
    throw invalid("cursor", "is not a cursor of this list");
  return { micros: BigInt(match[1] ?? 0), id: match[2] ?? "" };
}

/** Not a secret: it detects mistakes; ownership is checked by the query. */
function checkOf({ list, userId }: Owner, text: string): Buffer {
  return createHash("sha256").update(`${list}-cursor:${userId}:${text}`).digest().subarray(0, CHECK_BYTES);
}
