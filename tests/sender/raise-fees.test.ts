/** Blocks, never the clock, decide when a waiting transaction is offered at a higher fee. */
import { expect, test } from "bun:test";
import { type FirstHeads, isPassedOver, keepOnly } from "../../core/domain/raise-fees.ts";

const sent = { txHash: "0x01", sinceSentMs: 10 };

test("an attempt counts as skipped after two blocks, not after one", () => {
  const heads: FirstHeads = new Map();
  expect(isPassedOver(heads, sent, 100n)).toBe(false);
  expect(isPassedOver(heads, sent, 101n)).toBe(false);
  expect(isPassedOver(heads, sent, 102n)).toBe(true);
});

test("an attempt does not count as skipped while a chain makes no blocks, however long that lasts", () => {
  const heads: FirstHeads = new Map();
  for (const sinceSentMs of [0, 6_001, 600_000, 86_400_000]) {
    expect(isPassedOver(heads, { ...sent, sinceSentMs }, 100n)).toBe(false);
  }
});

test("blocks made before an attempt was sent to a node do not count", () => {
  const heads: FirstHeads = new Map();
  expect(isPassedOver(heads, { txHash: "0x01", sinceSentMs: null }, 100n)).toBe(false);
  expect(isPassedOver(heads, sent, 150n)).toBe(false);
  expect(isPassedOver(heads, sent, 151n)).toBe(false);
  expect(isPassedOver(heads, sent, 152n)).toBe(true);
});

test("a lagging node only prolongs the wait, and each attempt waits separately", () => {
  const heads: FirstHeads = new Map();
  expect(isPassedOver(heads, sent, 100n)).toBe(false);
  expect(isPassedOver(heads, sent, 98n)).toBe(false);
  expect(isPassedOver(heads, { ...sent, txHash: "0x02" }, 102n)).toBe(false);
  expect(isPassedOver(heads, sent, 102n)).toBe(true);
});

test("first heads of attempts that no longer wait are removed", () => {
  const heads: FirstHeads = new Map([
    ["0x01", 1n],
    ["0x02", 2n],
  ]);
  keepOnly(heads, new Set(["0x02"]));
  expect([...heads]).toEqual([["0x02", 2n]]);
});
