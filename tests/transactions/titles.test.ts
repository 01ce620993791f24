/** How a movement is named in lists, mails and files. */
import { describe, expect, test } from "bun:test";
import {
  type HistoryRow,
  presentTransaction,
  shortAddress,
  shorten,
  titleOf,
} from "../../core/domain/transaction.ts";

const counterparty = `0x12ab${"0".repeat(32)}89cd`;
const AT = new Date("2026-11-20T11:00:00Z");
const row = (change: Partial<HistoryRow> = {}): HistoryRow => ({
  ...{ id: "txn_1", type: "PAYMENT_LINK", status: "CONFIRMED", amountUnits: 5_000_000n, counterparty },
  ...{
    network: "base",
    description: "Order 1",
    txHash: "0x5a",
    logIndex: 3,
    blockNumber: 70n,
    linkId: "link_1",
  },
  ...{ paymentId: null, failureReason: null, detectedAt: AT, confirmedAt: AT, settledBy: "amount" },
  ...{ candidates: null, operationId: null, operationNote: null, reference: null, ...change },
});

describe("a movement", () => {
  test.each([
    ["Payment for Order 1", {}],
    ["Payment from 0x12ab…89cd", { description: "" }],
    ["Received from 0x12ab…89cd", { type: "RECEIVE" }],
    ["Sent to 0x12ab…89cd", { type: "SEND" }],
    ["Sent to 0x12ab…89cd", { type: "SEND", operationId: "snd_1" }],
    ["Refund for Order 1", { type: "SEND", operationId: "rfd_1" }],
    [`Payment for ${"x".repeat(59)}…`, { description: "x".repeat(61) }],
  ] as const)("is named %s", (title, change) => {
    expect(titleOf(row(change))).toBe(title);
  });

  test("shows the fields that exist, and for a send or refund its id", () => {
    const metadata = { txHash: "0x5a", logIndex: 3, linkId: "link_1", paymentId: null };
    expect(presentTransaction(row())).toMatchObject({ amount: "5.000000", blockNumber: 70, candidates: [] });
    expect(presentTransaction(row()).metadata).toEqual(metadata);
    const told = { reference: "A-1", failureReason: "NONCE_USED" };
    expect(presentTransaction(row(told)).metadata).toEqual({ ...metadata, ...told });
    expect(presentTransaction(row({ operationId: "snd_1" })).metadata).toEqual({
      ...{ ...metadata, kind: "SEND", sendId: "snd_1" },
    });
    expect(presentTransaction(row({ operationId: "rfd_1", operationNote: "broken" })).metadata).toEqual({
      ...{ ...metadata, kind: "REFUND", refundId: "rfd_1", reason: "broken" },
    });
    expect(presentTransaction(row({ blockNumber: null, confirmedAt: null }))).toMatchObject({
      ...{ blockNumber: null, confirmedAt: null },
    });
  });
});

test("a text is truncated at whole characters, and marked as truncated", () => {
  expect(shorten("abc", 3)).toBe("abc");
  expect(shorten("abcd", 3)).toBe("ab…");
  expect(shorten("a bcd", 3)).toBe("a…");
  // one character of eleven code units
  const family = "👨‍👩‍👧‍👦";
  expect(shorten(family.repeat(3), 3)).toBe(family.repeat(3));
  expect(shorten(family.repeat(4), 3)).toBe(`${family.repeat(2)}…`);
});

test("an address is abbreviated to its ends, a shorter text is shown in full", () => {
  expect(shortAddress(counterparty)).toBe("0x12ab…89cd");
  expect(shortAddress("0x1234567890")).toBe("0x1234567890");
  expect(shortAddress("0x12345678901")).toBe("0x1234…8901");
});
