/** Days and months of a zone as instants, and what a statement says of a period. */
import { describe, expect, test } from "bun:test";
import {
  isDay,
  isMonth,
  monthBefore,
  periodOfDays,
  periodOfMonth,
  startOfDay,
} from "../../core/domain/local-days.ts";
import { totalsOf } from "../../core/domain/proven-export.ts";
import {
  type ChainCheck,
  changeOf,
  checkOf,
  closingCells,
  describeCheck,
  detailsOf,
  isMoneyIn,
  lineCells,
  openingCells,
  periodText,
  STATEMENT_COLUMNS,
  type StatementHead,
  statementName,
} from "../../core/domain/statement.ts";
import { givenRow as row } from "./given-row.ts";

describe("a day", () => {
  test.each([
    ["2026-02-28", true],
    ["2024-02-29", true],
    ["2026-02-29", false],
    ["2026-13-01", false],
    ["2026-00-10", false],
    ["2026-04-31", false],
    ["1969-12-31", false],
    ["1970-01-01", true],
    ["2999-12-31", true],
    ["3000-01-01", false],
    ["2026-1-01", false],
  ])("%s is one of the calendar: %p", (text, expected) => {
    expect(isDay(text)).toBe(expected);
  });

  test.each([
    ["2026-06-15", "UTC", "2026-06-15T00:00:00.000Z"],
    ["2026-06-15", "America/New_York", "2026-06-15T04:00:00.000Z"],
    // clocks change within the day, before and behind it
    ["2026-03-29", "Europe/Berlin", "2026-03-28T23:00:00.000Z"],
    ["2026-03-30", "Europe/Berlin", "2026-03-29T22:00:00.000Z"],
    ["2026-10-25", "Europe/Berlin", "2026-10-24T22:00:00.000Z"],
    ["2026-10-26", "Europe/Berlin", "2026-10-25T23:00:00.000Z"],
    // midnight is skipped: the day begins at one
    ["2018-11-04", "America/Sao_Paulo", "2018-11-04T03:00:00.000Z"],
    // midnight comes twice: the first one counts
    ["2018-02-18", "America/Sao_Paulo", "2018-02-18T03:00:00.000Z"],
    // the whole day is skipped: the next one begins then
    ["2011-12-30", "Pacific/Apia", "2011-12-30T10:00:00.000Z"],
  ])("%s of %s begins at %s", (day, zone, instant) => {
    expect(startOfDay(day, zone).toISOString()).toBe(instant);
  });
});

describe("a month", () => {
  test.each([
    ["2026-01", true],
    ["2026-12", true],
    ["2026-00", false],
    ["2026-13", false],
    ["26-01", false],
  ])("%s is one of the calendar: %p", (text, expected) => {
    expect(isMonth(text)).toBe(expected);
  });

  test("ends where the next one begins, also at the end of a year", () => {
    const december = periodOfMonth("2026-12", "Europe/Berlin");
    expect(december.from.toISOString()).toBe("2026-11-30T23:00:00.000Z");
    expect(december.before.toISOString()).toBe("2026-12-31T23:00:00.000Z");
    expect(periodOfMonth("2026-03", "Europe/Berlin").before.toISOString()).toBe("2026-03-31T22:00:00.000Z");
  });

  test("before an instant is that of the time zone's own calendar", () => {
    const turn = new Date("2026-01-31T23:30:00Z");
    expect(monthBefore(turn, "UTC")).toBe("2025-12");
    expect(monthBefore(turn, "Europe/Berlin")).toBe("2026-01");
    expect(monthBefore(new Date("2026-03-01T00:00:00Z"), "UTC")).toBe("2026-02");
  });
});

test("a period of days includes its last day completely", () => {
  const { from, before } = periodOfDays("2026-10-24", "2026-10-25", "Europe/Berlin");
  expect([from, before].map((one) => one.toISOString())).toEqual([
    ...["2026-10-23T22:00:00.000Z", "2026-10-25T23:00:00.000Z"],
  ]);
  expect(periodText({ from, before, timeZone: "Europe/Berlin" })).toBe("2026-10-24 to 2026-10-25");
});

const TX_HASH = `0x${"5a".repeat(32)}`;
const NOON = new Date("2026-11-20T11:00:00Z");

describe("a statement", () => {
  const sent = row({ type: "SEND", kind: "SEND", description: "", linkId: null, reference: null });
  const titles = STATEMENT_COLUMNS.map(({ title }) => title);
  const named = (cells: readonly unknown[]) =>
    Object.fromEntries(titles.map((title, at) => [title, cells[at]]));
  const block = { number: 71, hash: `0x${"7b".repeat(32)}`, time: NOON } as const;
  const from = new Date("2026-10-31T23:00:00Z");
  const before = new Date("2026-11-30T23:00:00Z");
  const head: Omit<StatementHead, "check"> = {
    ...{ issuer: { name: "Shop", postalAddress: null, taxId: null, email: "shop@example.test" } },
    ...{ network: "base-sepolia", walletId: "wal_1", walletAddress: "0x", timeZone: "Europe/Berlin" },
    ...{ from, before, isFinal: true, generatedAt: NOON, openingUnits: 1n, closingUnits: 2n, movements: 1 },
    ...{ totals: [], valuation: undefined },
  };

  test("counts payments and receipts in, sends, refunds and fees out", () => {
    expect((["PAYMENT", "RECEIVE", "SEND", "REFUND", "FEE"] as const).map(isMoneyIn)).toEqual([
      ...[true, true, false, false, false],
    ]);
    expect(changeOf(row())).toBe(5_000_000n);
    expect(changeOf(row({ type: "RECEIVE" }))).toBe(5_000_000n);
    expect(changeOf(sent)).toBe(-5_000_000n);
  });

  test("has a movement's amount in or out, its position, and the local time of the zone", () => {
    expect(named(lineCells({ row: row(), changeUnits: 5n, balanceUnits: 9n }, head))).toEqual({
      ...{ "Row ID": `base-sepolia:${TX_HASH}:3:in`, Date: "2026-11-20", Time: "12:00:00", Kind: "PAYMENT" },
      ...{ Description: "Order 1", Reference: "A-1", Counterparty: row().counterparty, Block: 70n },
      ...{ "In (USDC)": 5n, "Out (USDC)": null, "Balance (USDC)": 9n, "Transaction Hash": TX_HASH },
      ...{ "Log Index": 3n, "Payment Link ID": "link_1", "Refund Of": "" },
      ...{ "Transaction ID": "tx_1", Network: "base-sepolia", Wallet: "0x", "Time Zone": "Europe/Berlin" },
    });
    const out = { row: { ...sent, txHash: null, logIndex: null }, changeUnits: -5n, balanceUnits: 4n };
    expect(named(lineCells(out, { ...head, timeZone: "UTC" }))).toMatchObject({
      ...{ "Row ID": "tx_1", "In (USDC)": null, "Out (USDC)": 5n, "Log Index": null, "Payment Link ID": "" },
      ...{ Description: "Sent to 0x1111…1111", Reference: "", "Transaction Hash": "" },
    });
    expect(detailsOf(row({ kind: "FEE", description: "x" }))).toBe("Service fee");
  });

  test("begins and ends with its balances, and states how the chain's balance compares", () => {
    const equal = checkOf(2n, { balanceUnits: 2n, block });
    expect(equal).toEqual({ outcome: "equal", balanceUnits: 2n, block });
    expect(checkOf(2n, { balanceUnits: 3n, block })).toMatchObject({ outcome: "different" });
    const skipped: ChainCheck = checkOf(2n, { reason: "no node" });
    expect(skipped).toEqual({ outcome: "not_checked", reason: "no node" });
    const place = `in block 71 (${block.hash}) of Base Sepolia`;
    expect(describeCheck(equal, "base-sepolia")).toBe(`equal to the balance ${place}`);
    expect(describeCheck({ ...equal, outcome: "different" } as ChainCheck, "base-sepolia")).toBe(
      `different: the chain has 0.000002 USDC ${place}`,
    );
    expect(describeCheck(skipped, "base-sepolia")).toBe("not checked: no node");

    expect(named(openingCells({ ...head, check: equal }))).toMatchObject({
      ...{ "Row ID": "opening", Date: "2026-11-01", Time: "00:00:00", "Balance (USDC)": 1n },
    });
    const [closing = [], chain = []] = closingCells({ ...head, check: equal });
    const end = { Date: "2026-11-30", Time: "23:59:59" };
    expect(named(closing)).toMatchObject({ ...end, Description: "Closing balance", "Balance (USDC)": 2n });
    expect(named(chain)).toMatchObject({ ...end, "Balance (USDC)": 2n, Block: 71n });
    const [unfinished = [], unchecked = []] = closingCells({ ...head, isFinal: false, check: skipped });
    expect(named(unfinished).Description).toBe("Balance so far: not all of the period is confirmed yet");
    expect(named(unchecked)).toMatchObject({ "Balance (USDC)": null, Block: null });
    // a table has no header of its own: each record names wallet and zone
    for (const cells of [openingCells({ ...head, check: equal }), closing, chain])
      expect(named(cells)).toMatchObject({
        ...{ "Transaction ID": "", Network: "base-sepolia", Wallet: "0x", "Time Zone": "Europe/Berlin" },
      });
  });

  test("has a file name with its network and period", () => {
    expect(statementName(head)).toBe("statement-base-sepolia-2026-11");
    expect(statementName({ ...head, network: "base", timeZone: "UTC" })).toBe(
      "statement-base-2026-10-31-to-2026-11-30",
    );
    expect(statementName({ ...head, before: new Date("2026-11-01T23:00:00Z") })).toBe(
      "statement-base-sepolia-2026-11-01-to-2026-11-01",
    );
  });
});

test("the totals of an export with proofs are those of confirmed money, incoming and outgoing separately", () => {
  const rows = [
    row(),
    row({ type: "RECEIVE", amountUnits: 2_000_000n }),
    row({ type: "SEND", amountUnits: 1_000_000n }),
    row({ status: "DETECTED" }),
  ];
  expect(totalsOf(rows)).toEqual({ rows: 4, confirmed: 3, moneyIn: "7.000000", moneyOut: "1.000000" });
});
