/** The opaque position in a merchant's list of links. Bound to the merchant: another merchant's or an edited cursor is refused. */
import { createHash } from "node:crypto";
import { invalid } from "../../core/domain/errors.ts";
import type { LinkPosition } from "../../db/links/links.ts";

const CHECK_BYTES = 9;
const FORM = /^(\d{1,18})\.([A-Za-z0-9_-]{1,64})$/;

export function writeCursor(userId: string, position: LinkPosition): string {
  const text = `${position.createdAtMicros}.${position.id}`;
  return Buffer.concat([checkOf(userId, text), Buffer.from(text)]).toString("base64url");
}

/** Throws VALIDATION_ERROR for anything that `writeCursor` did not write for this user. */
export function readCursor(userId: string, cursor: string): LinkPosition {
  const bytes = Buffer.from(cursor, "base64url");
  const text = bytes.subarray(CHECK_BYTES).toString();
  const match = FORM.exec(text);
  const isOwn = bytes.subarray(0, CHECK_BYTES).equals(checkOf(userId, text));
  if (!match || !isOwn || bytes.toString("base64url") !== cursor)
    throw invalid("cursor", "is not a cursor of this list");
  return { createdAtMicros: BigInt(match[1] ?? 0), id: match[2] ?? "" };
}

/** Not a secret: it detects mistakes; ownership is checked by the query. */
function checkOf(userId: string, text: string): Buffer {
  return createHash("sha256").update(`link-cursor:${userId}:${text}`).digest().subarray(0, CHECK_BYTES);
}
