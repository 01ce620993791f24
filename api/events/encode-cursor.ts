/**
 * A position of the event log as opaque text. Where a stream continues: stream-events.ts; whether the history before a position still
 * exists: db/events/cursor-history.ts.
 */
import { invalid } from "../../core/domain/errors.ts";
import type { EventPosition } from "../../db/events/cursor-history.ts";

/** Epoch, transaction, event, digest. Cursors of version 0.1 have neither epoch nor digest, or, from later builds, no digest. */
const CURSOR = /^(?:([0-9a-f]{32})\.)?(\d{1,20})\.(\d{1,19})(?:\.([0-9a-f]{16}))?$/;
export const CURSOR_LENGTH_MAX = 200;

export function writeCursor({ epoch, writtenBy, id, digest }: EventPosition): string {
  // as short as it was read: a stream's first message repeats the position of an earlier version's reader
  const parts = [epoch, writtenBy, id, digest].filter((part) => part !== undefined);
  return Buffer.from(parts.join(".")).toString("base64url");
}

export function readCursor(cursor: string): EventPosition {
  const bytes = Buffer.from(cursor, "base64url");
  const match = bytes.toString("base64url") === cursor ? CURSOR.exec(bytes.toString()) : null;
  const [, epoch, writtenBy = "", id = "", digest] = match ?? [];
  const isInRange = match && BigInt(writtenBy) < 2n ** 64n && BigInt(id) < 2n ** 63n;
  if (!isInRange) throw invalid("cursor", "is not a cursor of this list");
  return { epoch, writtenBy: BigInt(writtenBy), id: BigInt(id), digest };
}
