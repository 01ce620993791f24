/** What a report says about itself: its period, what it leaves out, and which rows are in its total. */
import { describe, expect, test } from "bun:test";
import type { ExportSummary, ExportTotal } from "../../core/domain/export.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { TRANSACTION_STATUSES } from "../../core/domain/payment.ts";
import { factsOf, isInTotal, othersHeading } from "../../worker/exports/report-totals.ts";

const REAL: ExportTotal = { type: "RECEIVE", status: "CONFIRMED", isTest: false, count: 1, units: 1n };
const TEST: ExportTotal = { ...REAL, isTest: true };

const summaryOf = (given: Partial<ExportSummary> = {}): ExportSummary => ({
  ...({ profile: "standard", timeZone: "UTC", metadataColumns: [], columns: undefined } as const),
  ...{ valuation: undefined, datev: undefined, merchantName: "Ann", filters: [], totals: [REAL] },
  ...{ generatedAt: new Date("2026-11-01T00:00:00Z"), rows: 2, matched: 2 },
  ...{ oldest: new Date("2026-10-01T01:02:03Z"), newest: new Date("2026-10-02T01:02:03Z"), ...given },
});
const factOf = (name: string, given: Partial<ExportSummary>) =>
  Object.fromEntries(factsOf(summaryOf(given)))[name];

describe("a report", () => {
  test("names the period of its rows, or that it has none", () => {
    expect(factOf("Period", {})).toBe("2026-10-01 01:02:03 +00:00 to 2026-10-02 01:02:03 +00:00");
    expect(factOf("Period", { newest: undefined, oldest: undefined })).toBe("no transactions");
  });

  test("names its filters, or that it has none", () => {
    expect(factOf("Filters", {})).toBe("none");
    expect(factOf("Filters", { filters: ["type RECEIVE", "network base"] })).toBe(
      "type RECEIVE; network base",
    );
  });

  test("says when it holds fewer rows than matched", () => {
    expect(factOf("Transactions", {})).toBe("2");
    expect(factOf("Transactions", { matched: 3 })).toBe("the newest 2 of 3 (an export holds at most 10000)");
  });

  test("says that test networks move no money, and that beside real money they are in no total", () => {
    expect(factOf("Test network", {})).toBeUndefined();
    expect(factOf("Test network", { totals: [TEST] })).toBe("No real money.");
    expect(factOf("Test network", { totals: [TEST, REAL] })).toBe("No real money; not in the total.");
  });

  test("names test networks among what is not in the total only if it has rows of them", () => {
    expect(othersHeading(summaryOf({ totals: [REAL] }))).toEndWith("reorganised transactions");
    expect(othersHeading(summaryOf({ totals: [TEST] }))).toEndWith("reorganised transactions");
    expect(othersHeading(summaryOf({ totals: [REAL, TEST] }))).toEndWith("and those of test networks");
  });
});

test("a row is in the total when it is CONFIRMED, unless it is of a test network beside real money", () => {
  const inTotal = (network: NetworkId, totals: ExportTotal[]) =>
    TRANSACTION_STATUSES.filter((status) => isInTotal({ status, network }, summaryOf({ totals })));
  expect(inTotal("base", [REAL])).toEqual(["CONFIRMED"]);
  expect(inTotal("base", [REAL, TEST])).toEqual(["CONFIRMED"]);
  expect(inTotal("base-sepolia", [TEST])).toEqual(["CONFIRMED"]);
  expect(inTotal("base-sepolia", [REAL, TEST])).toEqual([]);
});
