/** Sums by type and status: which types are money in and money out, and which statuses are money at all. */
import { describe, expect, test } from "bun:test";
import type { ExportTotal } from "../../core/domain/export.ts";
import {
  TRANSACTION_STATUSES,
  TRANSACTION_TYPES,
  type TransactionStatus,
  type TransactionType,
} from "../../core/domain/payment.ts";
import { directionOf, isMoneyMoved } from "../../core/domain/transaction.ts";
import { presentTests, presentTotal, splitTotals, sumConfirmed } from "../../worker/exports/report-totals.ts";

const DIRECTIONS: Record<TransactionType, "in" | "out"> = { RECEIVE: "in", PAYMENT_LINK: "in", SEND: "out" };
const MOVED: Record<TransactionStatus, boolean> = {
  ...{ PENDING: false, DETECTED: false, CONFIRMED: true, FAILED: false, ORPHANED: false },
};

describe("sums of transactions", () => {
  for (const type of TRANSACTION_TYPES) {
    test(`${type} is money ${DIRECTIONS[type]}`, () => {
      expect(directionOf(type)).toBe(DIRECTIONS[type]);
      const sums = sumConfirmed([{ type, status: "CONFIRMED", isTest: false, count: 2, units: 5n }]);
      const isIn = DIRECTIONS[type] === "in";
      expect(sums).toEqual({ count: 2, inUnits: isIn ? 5n : 0n, outUnits: isIn ? 0n : 5n });
    });
  }

  for (const status of TRANSACTION_STATUSES) {
    test(`${status} ${MOVED[status] ? "counts" : "does not count"} as money that moved`, () => {
      expect(isMoneyMoved(status)).toBe(MOVED[status]);
    });
  }

  test("the total takes only CONFIRMED rows, each on its side; others have a count without a sum", () => {
    const totals: ExportTotal[] = [
      { type: "RECEIVE", status: "CONFIRMED", isTest: false, count: 1, units: 1n },
      { type: "PAYMENT_LINK", status: "CONFIRMED", isTest: false, count: 2, units: 10n },
      { type: "SEND", status: "CONFIRMED", isTest: false, count: 3, units: 100n },
      { type: "PAYMENT_LINK", status: "DETECTED", isTest: false, count: 4, units: 1_000n },
      { type: "SEND", status: "FAILED", isTest: false, count: 5, units: 10_000n },
    ];
    expect(sumConfirmed(totals)).toEqual({ count: 6, inUnits: 11n, outUnits: 100n });
    expect(totals.map((total) => presentTotal(total)).map((cells) => cells.slice(2))).toEqual([
      ["1", "0.000001", "0.000000", "0.000001"],
      ["2", "0.000010", "0.000000", "0.000010"],
      ["3", "0.000000", "0.000100", "-0.000100"],
      ["4", "", "", ""],
      ["5", "", "", ""],
    ]);
  });

  describe("of test networks", () => {
    const test1: ExportTotal = { type: "RECEIVE", status: "CONFIRMED", isTest: true, count: 7, units: 70n };
    const test2: ExportTotal = { type: "RECEIVE", status: "FAILED", isTest: true, count: 1, units: 1n };
    const real: ExportTotal = { type: "RECEIVE", status: "CONFIRMED", isTest: false, count: 2, units: 5n };

    test("are the total if there is no real money", () => {
      expect(sumConfirmed([test1, test2])).toEqual({ count: 7, inUnits: 70n, outUnits: 0n });
      expect(splitTotals([test1, test2])).toEqual({ confirmed: [test1], others: [test2], tests: [] });
    });

    test("are separate from real money, as a count without a sum", () => {
      const totals = [test1, test2, real];
      expect(sumConfirmed(totals)).toEqual({ count: 2, inUnits: 5n, outUnits: 0n });
      expect(splitTotals(totals)).toEqual({ confirmed: [real], others: [], tests: [test1, test2] });
      expect(presentTests([test1, test2])).toEqual([["RECEIVE", "test network", "8", "", "", ""]]);
    });
  });
});
