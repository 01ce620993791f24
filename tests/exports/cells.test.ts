/** What an export writes of a row and about itself: cells, objects, names, and the filter in words. */
import { describe, expect, test } from "bun:test";
import { chosenBooks } from "../../core/domain/bookkeeping-rows.ts";
import {
  cellsOf,
  columnsOf,
  contentTypeOf,
  describeFilter,
  type ExportRow,
  exportedObject,
  fileNameOf,
  rowIdOf,
} from "../../core/domain/export.ts";
import { isColumn, metadataKeysOf } from "../../core/domain/export-profile.ts";
import { totalsByNetworkOf, totalsOf } from "../../core/domain/proven-export.ts";
import { cellText } from "../../core/domain/table.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { givenRow } from "./given-row.ts";

const WALLET = `0x${"22".repeat(20)}`;
const accounting = { profile: "accounting", timeZone: "Europe/Berlin" } as const;
const standard = { ...accounting, profile: "standard" } as const;
const named = (row: ExportRow) => {
  const cells = cellsOf(row, accounting);
  return Object.fromEntries(columnsOf("accounting").map((title, at) => [title, cells[at]]));
};

describe("a row", () => {
  test("is named by its position in the chain, or by its own id without one", () => {
    const { txHash } = givenRow();
    expect(rowIdOf(givenRow())).toBe(`base-sepolia:${txHash}:3:in`);
    expect(rowIdOf(givenRow({ type: "SEND" }))).toBe(`base-sepolia:${txHash}:3:out`);
    expect(rowIdOf(givenRow({ txHash: null }))).toBe("tx_1");
    expect(rowIdOf(givenRow({ logIndex: null }))).toBe("tx_1");
  });

  test("has the eight documented cells in the standard profile, and one a column in the others", () => {
    const { txHash } = givenRow();
    expect(columnsOf("standard").length).toBe(8);
    expect(cellsOf(givenRow(), standard)).toEqual([
      ...["2026-11-20T11:00:00.000Z", "PAYMENT_LINK", "5.000000", "USDC", "CONFIRMED", "base-sepolia"],
      ...["Order 1", txHash ?? ""],
    ]);
    for (const profile of ["accounting", "books"] as const)
      expect(cellsOf(givenRow(), { ...accounting, profile }).length).toBe(columnsOf(profile).length);
  });

  test("has its parties, fees and metadata for accounting; blank where there is none", () => {
    const counterparty = `0x${"11".repeat(20)}`;
    const given = { walletAddress: WALLET, feeWei: 21_000_000_000_000n, feeUnits: 10_000n };
    expect(named(givenRow({ ...given, orderMetadata: { order: "7" } }))).toMatchObject({
      ...{ Payer: counterparty, Payee: WALLET, "Local Time": "2026-11-20T12:00:00+01:00" },
      ...{ "Network Fee (ETH)": "0.000021", fee_usdc: "0.010000", Metadata: '{"order":"7"}' },
      ...{ Finality: "finalized", Block: "70", "Log Index": "3" },
    });
    expect(named(givenRow({ type: "SEND", walletAddress: WALLET, orderMetadata: {} }))).toMatchObject({
      ...{ Payer: WALLET, Payee: counterparty, "Network Fee (ETH)": "", fee_usdc: "", Metadata: "" },
    });
    expect(named(givenRow()).Metadata).toBe("");
    const fee = (feeWei: bigint) => named(givenRow({ feeWei }))["Network Fee (ETH)"];
    expect([fee(0n), fee(1n), fee(10n ** 18n), fee(12n * 10n ** 17n)]).toEqual([
      ...["0", "0.000000000000000001", "1", "1.2"],
    ]);
  });

  test("is as final as its status, and finalized only once its block is", () => {
    const finality = (change: Partial<ExportRow>) => named(givenRow(change)).Finality;
    expect(finality({ isFinalized: false })).toBe("confirmed");
    expect(
      (["DETECTED", "PENDING", "FAILED", "ORPHANED"] as const).map((status) => finality({ status })),
    ).toEqual(["in a block", "pending", "failed", "reorganised away"]);
  });

  test("is the list's object, with one more for accounting", () => {
    expect(exportedObject(givenRow(), standard)).not.toHaveProperty("accounting");
    const row = givenRow({ feeWei: 5n * 10n ** 17n, feeUnits: 0n });
    expect(exportedObject(row, accounting)).toMatchObject({
      ...{ id: "tx_1", amount: "5.000000" },
      accounting: { networkFeeEth: "0.5", feeUsdc: "0.000000", finality: "finalized", metadata: {} },
    });
    expect(exportedObject(givenRow(), accounting)).toMatchObject({
      accounting: { networkFeeEth: null, feeUsdc: null },
    });
  });
});

describe("a cell as plain text", () => {
  test("is empty for no value, unchanged for text, and has the decimal places of its kind for a number", () => {
    expect([cellText(null, "amount"), cellText(undefined, "text"), cellText("", "text")]).toEqual([
      "",
      "",
      "",
    ]);
    expect([cellText("7", "amount"), cellText(7n, "amount"), cellText(7n, "integer")]).toEqual([
      ...["7", "0.000007", "7"],
    ]);
  });
});

describe("a filter in words", () => {
  test("says nothing about what is not filtered", () => {
    expect(describeFilter(NO_FILTER)).toEqual([]);
  });

  test("has a line for each condition, including an amount of zero", () => {
    const from = new Date("2026-03-29T00:00:00Z");
    expect(
      describeFilter({
        ...{ types: ["SEND", "RECEIVE"], statuses: ["CONFIRMED"], networks: ["base"], currencies: [] },
        ...{ from, before: new Date("2026-03-30T00:00:00.5Z"), minUnits: 0n, maxUnits: 5n, search: "a" },
      }),
    ).toEqual([
      ...["type SEND or RECEIVE", "status CONFIRMED", "network base", "from 2026-03-29 00:00:00 UTC"],
      ...["before 2026-03-30 00:00:00.500 UTC", "at least 0.000000 USDC", "at most 0.000005 USDC"],
      'containing "a"',
    ]);
    // in the time zone of the rows, on both sides of a change of the clocks
    const bounds = { from, before: new Date("2026-03-30T22:00:00.5Z") };
    expect(describeFilter({ ...NO_FILTER, ...bounds }, "Europe/Berlin")).toEqual([
      ...["from 2026-03-29 01:00:00 +01:00", "before 2026-03-31 00:00:00.500 +02:00"],
    ]);
    const years = { from: new Date("0001-01-01T00:00:00Z"), before: new Date("9999-12-31T00:00:00Z") };
    expect(describeFilter({ ...NO_FILTER, ...years }, "Europe/Berlin")).toEqual([
      ...["from 0001-01-01 00:00:00 UTC", "before 9999-12-31 00:00:00 UTC"],
    ]);
    expect(describeFilter({ ...NO_FILTER, statuses: ["FAILED"] })).toEqual(["status FAILED"]);
    expect(describeFilter({ ...NO_FILTER, networks: ["base", "base-sepolia"] })).toEqual([
      "network base or base-sepolia",
    ]);
  });
});

test("a file is named by its day and format: EXTF for DATEV, documents for the archive", () => {
  const at = new Date("2026-11-20T23:59:59Z");
  expect(
    (["csv", "text", "datev", "camt053", "zip"] as const).map((format) => fileNameOf(format, at)),
  ).toEqual([
    ...["transactions-2026-11-20.csv", "transactions-2026-11-20.txt", "EXTF_transactions-2026-11-20.csv"],
    ...["transactions-2026-11-20.xml", "documents-2026-11-20.zip"],
  ]);
  expect(contentTypeOf("datev")).toBe("text/csv; charset=windows-1252");
});

test("totals of a file with proofs are those of every network, and of each", () => {
  const [test, real] = [{ network: "base-sepolia" }, { network: "base" }] as const;
  const rows = [
    givenRow({ ...real, amountUnits: 3n }),
    givenRow({ ...real, type: "SEND", amountUnits: 1n }),
    givenRow({ ...real, status: "DETECTED" }),
    givenRow({ ...test, amountUnits: 70n }),
  ];
  const all = { rows: 4, confirmed: 3, moneyIn: "0.000073", moneyOut: "0.000001" };
  expect(totalsOf(rows)).toEqual(all);
  expect(totalsByNetworkOf(rows)).toEqual([
    { ...real, rows: 3, confirmed: 2, moneyIn: "0.000003", moneyOut: "0.000001" },
    { ...test, rows: 1, confirmed: 1, moneyIn: "0.000070", moneyOut: "0.000000" },
  ]);
  expect(totalsByNetworkOf([])).toEqual([]);
});

test("a metadata column has the link's own values, whatever its key is called", () => {
  const keys = ["order", "constructor", "toString", "__proto__"];
  const { columns, cellsOf: booksCells } = chosenBooks(
    { timeZone: "UTC", metadataColumns: keys, valuation: undefined },
    undefined,
  );
  expect(columns.slice(-4).map(({ title }) => title)).toEqual(keys.map((key) => `metadata.${key}`));
  const cells = (orderMetadata: ExportRow["orderMetadata"]) =>
    booksCells(givenRow({ orderMetadata })).slice(-4);
  expect(cells({ order: "7" })).toEqual(["7", "", "", ""]);
  expect(cells({ constructor: "8" } as Record<string, string>)).toEqual(["", "8", "", ""]);
  expect(cells(null)).toEqual(["", "", "", ""]);
});

test("a column is one of the books, or metadata of a key with 1 to 40 characters", () => {
  expect(["net", "fiatValue", "metadata.a", `metadata.${"k".repeat(40)}`].filter(isColumn).length).toBe(4);
  const others = [
    "",
    "nothing",
    "Net",
    "metadata",
    "metadata.",
    `metadata.${"k".repeat(41)}`,
    "somedata.key",
  ];
  expect(others.filter(isColumn)).toEqual([]);
  const columns = ["metadata.a", "net", "metadata.b", "metadata.a"].map((column) => ({ column, title: "x" }));
  expect(metadataKeysOf(columns)).toEqual(["a", "b"]);
  expect(metadataKeysOf(null)).toEqual([]);
});
