/** The wallets in memory while they become many: none is lost and none is made up, however often the tables grow. */
import { describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { WatchedSet } from "../../indexer/source/watched-wallets.ts";
import { seededRandom } from "../support/seeded-random.ts";

const ZERO: Hex = `0x${"0".repeat(40)}`;
const WALLETS = 6_000;

const random = seededRandom("wallets in memory");
const digit = () => Math.floor(random() * 16).toString(16);
const randomAddress = (): Hex => `0x${Array.from({ length: 40 }, digit).join("")}`;
const wallets = Array.from({ length: WALLETS }, randomAddress);
const others = Array.from({ length: 1_000 }, randomAddress);

function expectAll(set: WatchedSet): void {
  expect(set.size).toBe(WALLETS);
  expect(wallets.filter((address) => !set.has(address))).toEqual([]);
  expect([...set].sort()).toEqual(wallets.toSorted());
  expect([ZERO, ...others].filter((address) => set.has(address))).toEqual([]);
}

describe("the set of wallets", () => {
  test("contains all that were added one by one, from empty", () => {
    const set = new WatchedSet();
    for (const address of wallets) set.add(address);
    expectAll(set);
    for (const address of wallets) set.add(address);
    expectAll(set);
  });

  test("contains all that were added as rows, up to the expected size", () => {
    const set = new WatchedSet(WALLETS);
    set.addLines(wallets.map((address) => `${address}\n`).join(""));
    expectAll(set);
  });

  test("contains all that end in the same digits, which share a bucket", () => {
    const set = new WatchedSet();
    const twins = wallets.slice(0, 300).map((address): Hex => `0x${address.slice(2, 34)}00000001`);
    for (const address of twins) set.add(address);
    expect(set.size).toBe(300);
    expect([...set].sort()).toEqual(twins.toSorted());
    expect(twins.every((address) => set.has(address))).toBe(true);
  });

  test("of nothing contains nothing, and the zero address only once it is added", () => {
    const set = new WatchedSet();
    set.addLines("");
    expect([set.size, [...set], set.has(ZERO)]).toEqual([0, [], false]);
    set.add(ZERO);
    expect([set.size, [...set], set.has(ZERO)]).toEqual([1, [ZERO], true]);
  });
});
