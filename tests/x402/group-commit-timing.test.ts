/** When a group of payments is committed: a burst is not cut in two, and the first check after 25 ms ends the wait. */
import { expect, test } from "bun:test";
import { isGathered } from "../../api/x402/group-commit-timing.ts";

test("a group of eight waits while its burst continues, and is committed once none arrived since the last check", () => {
  expect(isGathered(8, { before: 7, passedMs: 12 })).toBe(false);
  expect(isGathered(13, { before: 8, passedMs: 16 })).toBe(false);
  expect(isGathered(13, { before: 13, passedMs: 20 })).toBe(true);
});

test("a group is gathered for at least 8 ms", () => {
  expect(isGathered(50, { before: 50, passedMs: 7.9 })).toBe(false);
  expect(isGathered(50, { before: 50, passedMs: 8 })).toBe(true);
});

test("fewer than eight wait for others, up to 25 ms", () => {
  expect(isGathered(7, { before: 7, passedMs: 24.9 })).toBe(false);
  expect(isGathered(7, { before: 7, passedMs: 25 })).toBe(true);
});

test("a burst that does not end is cut after 25 ms, or at a hundred payments", () => {
  expect(isGathered(99, { before: 80, passedMs: 24.9 })).toBe(false);
  expect(isGathered(99, { before: 80, passedMs: 25 })).toBe(true);
  expect(isGathered(100, { before: 80, passedMs: 1 })).toBe(true);
});
