import { expect, test } from "bun:test";
import { confirmingBlock, newestConfirmedBlock } from "../../core/domain/confirmations.ts";

test("with one confirmation the head itself is confirmed immediately", () => {
  expect(newestConfirmedBlock(100, 1)).toBe(100);
  expect(confirmingBlock(100, 1)).toBe(100);
});

test("with three confirmations the newest confirmed block has two blocks on top", () => {
  expect(newestConfirmedBlock(100, 3)).toBe(98);
  expect(confirmingBlock(98, 3)).toBe(100);
});
