/** Which logs of a wallet change its owners: those that the account's code writes. A wallet can be upgraded to code that writes anything. */
import { describe, expect, test } from "bun:test";
import { encodeAbiParameters, numberToHex } from "viem";
import {
  ADD_OWNER_TOPIC,
  decodeAccountLog,
  REMOVE_OWNER_TOPIC,
  UPGRADED_TOPIC,
} from "../../core/chain/account-logs.ts";
import type { Hex } from "../../core/domain/networks.ts";

const OWNER: Hex = `0x${"ab".repeat(64)}`;
const ADDRESS: Hex = `0x${"00".repeat(12)}${"cd".repeat(20)}`;

const decode = (topic: string, index: bigint, data: Hex) =>
  decodeAccountLog({ topics: [topic as Hex, numberToHex(index, { size: 32 })], data } as never);
const bytes = (owner: Hex) => encodeAbiParameters([{ type: "bytes" }], [owner]);

describe("a change of owners is read", () => {
  test.each([
    ["added", ADD_OWNER_TOPIC, "OWNER_ADDED"],
    ["removed", REMOVE_OWNER_TOPIC, "OWNER_REMOVED"],
  ] as const)("when a passkey or an address is %s", (_, topic, type) => {
    for (const [index, subject] of [
      [1n, OWNER],
      [2n ** 31n - 2n, ADDRESS],
    ] as const)
      expect(decode(topic, index, bytes(subject))).toEqual({ type, ownerIndex: index, subject });
  });

  test("and an upgrade with its implementation", () => {
    const subject: Hex = `0x${"cd".repeat(20)}`;
    expect(decode(UPGRADED_TOPIC, BigInt(subject), "0x")).toEqual({
      ...{ type: "UPGRADED", ownerIndex: undefined, subject },
    });
  });
});

test("no change of owners is read from another event, or without its index", () => {
  expect(decode(`0x${"11".repeat(32)}`, 1n, bytes(OWNER))).toBeUndefined();
  expect(decodeAccountLog({ topics: [ADD_OWNER_TOPIC], data: bytes(OWNER) } as never)).toBeUndefined();
});

describe("no change of owners is read from a log that the account's code never writes", () => {
  test.each([
    ["an index that no row holds", 2n ** 31n - 1n, bytes(OWNER)],
    ["the highest index", 2n ** 256n - 1n, bytes(OWNER)],
    ["an owner of no length", 1n, bytes("0x")],
    ["an owner of 20 bytes", 1n, bytes(`0x${"cd".repeat(20)}`)],
    ["an owner of 65 bytes", 1n, bytes(`0x${"cd".repeat(65)}`)],
    ["an owner that no index entry holds", 1n, bytes(`0x${"cd".repeat(9_000)}`)],
    ["another encoding", 1n, OWNER],
  ])("%s", (_, index, data) => {
    expect(decode(ADD_OWNER_TOPIC, index, data)).toBeUndefined();
    expect(decode(REMOVE_OWNER_TOPIC, index, data)).toBeUndefined();
  });
});
