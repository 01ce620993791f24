/** Ids of sends, refunds and owner changes: the time in milliseconds, then the random bytes that their calls carry. */
import { expect, test } from "bun:test";
import {
  anotherOwnerChangeId,
  newOwnerChangeIds,
  newRefundId,
  newSendId,
  restoredOperationId,
} from "../../core/domain/ids.ts";

const TIME = "0123456789ab";
const NOW = new Date(Number(`0x${TIME}`));

test("an id is its kind, 12 hex digits of the time and 32 of random bytes", () => {
  expect(newSendId(NOW)).toMatch(new RegExp(`^snd_${TIME}[0-9a-f]{32}$`));
  expect(newRefundId(NOW)).toMatch(new RegExp(`^rfd_${TIME}[0-9a-f]{32}$`));
  expect(newSendId(NOW)).not.toBe(newSendId(NOW));
});

test("an operation whose row was lost gets its id back from its block's time and its tag", () => {
  const tag = `0x${"5a".repeat(16)}` as const;
  expect(restoredOperationId("SEND", NOW, tag)).toBe(`snd_${TIME}${"5a".repeat(16)}`);
  expect(restoredOperationId("REFUND", NOW, tag)).toBe(`rfd_${TIME}${"5a".repeat(16)}`);
});

test("the ids of one owner change differ only in their times, including one for a further network", () => {
  const ids = newOwnerChangeIds(NOW, 3);
  const later = anotherOwnerChangeId(ids[2] ?? "", new Date(NOW.getTime() + 60_000));
  const all = [...ids, later];
  expect(new Set(all).size).toBe(4);
  for (const id of all) expect(id).toMatch(/^own_[0-9a-f]{44}$/);
  expect(new Set(all.map((id) => id.slice(-32))).size).toBe(1);
  expect(all.toSorted()).toEqual(all);
});
