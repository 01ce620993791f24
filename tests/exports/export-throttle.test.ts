/** How an export leaves cores to others: its rests, and when what waits for it comes back. */
import { expect, test } from "bun:test";
import { restMsAfter, spreadMs } from "../../core/domain/export-throttle.ts";

const REST = { share: 0.7, minMs: 1, maxMs: 50 };

test("a pause is its share of the preceding work, in whole milliseconds", () => {
  expect(restMsAfter(20, REST)).toBe(14);
  expect(restMsAfter(9, REST)).toBe(6);
  expect(restMsAfter(3, { ...REST, share: 2 })).toBe(6);
});

test("a pause is never shorter than a timer's tick, nor as long as the silence of a database", () => {
  expect(restMsAfter(0.2, REST)).toBe(1);
  expect(restMsAfter(60_000, REST)).toBe(50);
});

test("concurrent exports are retried after between half and one and a half times the mean delay", () => {
  expect([0, 0.25, 0.5, 1].map((random) => spreadMs(6_000, random))).toEqual([3_000, 4_500, 6_000, 9_000]);
});
