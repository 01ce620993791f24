/** Movements as importers take them: each rounded, the file's sum exact, every field at its place and of its length. */
import { describe, expect, test } from "bun:test";
import {
  formatMinor,
  type ImportRow,
  importRow,
  newRounding,
  placesOf,
  roundingRow,
} from "../../core/domain/bank-import-rows.ts";
import { chosenBooks } from "../../core/domain/bookkeeping-rows.ts";
import {
  CAMT_END,
  type CamtHead,
  camtBalances,
  camtDifference,
  camtEntry,
  camtStart,
} from "../../core/domain/camt053.ts";
import { type DatevHead, datevHead, datevRecord, toWindows1252 } from "../../core/domain/datev.ts";
import type { ExportRow } from "../../core/domain/export.ts";
import type { Valuation } from "../../core/domain/fiat.ts";
import { checkCamt } from "./camt-checker.ts";
import { checkDatev } from "./datev-checker.ts";
import { givenRow } from "./given-row.ts";

/** A USDC is half a unit of the currency; 2026-01-01 has no rate. */
function halves(currency: string): Valuation {
  return {
    currency,
    valueOf: (units, day) =>
      day === "2026-01-01" ? undefined : { units: units / 2n, rate: "0.5", rateDay: day, source: "ecb" },
  };
}
const EUR = { valuation: halves("EUR"), timeZone: "Europe/Berlin" };
const sent = (change: Partial<ExportRow> = {}) => givenRow({ type: "SEND", kind: "SEND", ...change });

describe("a movement for an importer", () => {
  test("is the rounded value of what it changed, on the day of the file's zone", () => {
    const rounding = newRounding();
    const late = sent({ amountUnits: 10_010_000n, detectedAt: new Date("2026-11-20T23:30:00Z") });
    expect(importRow(late, EUR, { rounding, places: 2 })).toEqual({
      ...{ day: "2026-11-21", minorUnits: -501n, kind: "SEND", description: "Order 1", reference: "A-1" },
      ...{ counterparty: late.counterparty, usdc: "-10.010000", rate: "0.5 (2026-11-21, ecb)" },
      place: `base-sepolia:${late.txHash}:3:out`,
    });
    expect(rounding).toEqual({ minorUnits: -501n, units: -5_005_000n, lastDay: "2026-11-21" });
  });

  test("that rounds to zero is in the rounding row alone", () => {
    const rounding = newRounding();
    const few = givenRow({ amountUnits: 9_998n });
    const made = Array.from({ length: 3 }, () => importRow(few, EUR, { rounding, places: 2 }));
    expect(made).toEqual([undefined, undefined, undefined]);
    // three times 0.004999 are 0.014997
    expect(roundingRow(rounding, 2)).toEqual({
      ...{ day: "2026-11-20", minorUnits: 1n, kind: "ROUNDING", description: "Rounding difference" },
      ...{ reference: "", counterparty: "", usdc: "", rate: "", place: "" },
    });
    expect(roundingRow({ ...rounding, minorUnits: 1n }, 2)).toBeUndefined();
  });

  test("is refused without a currency, and on a day without a rate", () => {
    const into = { rounding: newRounding(), places: 2 };
    expect(() => importRow(givenRow(), { ...EUR, valuation: undefined }, into)).toThrow("needs a currency");
    const first = givenRow({ detectedAt: new Date("2026-01-01T12:00:00Z") });
    expect(() => importRow(first, EUR, into)).toThrow("there is no EUR rate for 2026-01-01");
  });

  test("has the places of its currency, up to those of the format", () => {
    const placesFor = (currency: string, max: number) => placesOf({ valuation: halves(currency) }, max);
    expect([placesFor("JPY", 2), placesFor("EUR", 5), placesFor("KWD", 2), placesFor("KWD", 5)]).toEqual([
      ...[0, 2, 2, 3],
    ]);
    expect(placesOf({ valuation: undefined }, 2)).toBe(2);
    expect([0n, 5n, -5n, 1234n, -1234n].map((minor) => formatMinor(minor, 2))).toEqual([
      ...["0.00", "0.05", "-0.05", "12.34", "-12.34"],
    ]);
    expect([0n, 1234n, -1234n].map((minor) => formatMinor(minor, 0))).toEqual(["0", "1234", "-1234"]);
  });
});

const imported: ImportRow = {
  ...{ day: "2026-02-03", minorUnits: 501n, kind: "PAYMENT", description: "Chair", reference: "A-1" },
  ...{ counterparty: "0x11", usdc: "10.02", rate: "0.5 (2026-02-03, ecb)", place: "base:0x5a:3:in" },
};

describe("a camt.053 file", () => {
  const given = (change: Partial<CamtHead["head"]> = {}): CamtHead => ({
    head: {
      ...{ issuer: { name: "Köln & Söhne", postalAddress: null, taxId: null, email: "shop@example.test" } },
      ...{ network: "base-sepolia", walletId: "wal_1", walletAddress: `0x${"5c".repeat(20)}` },
      ...{ timeZone: "Europe/Berlin", isFinal: true, movements: 1, totals: [] },
      ...{ from: new Date("2026-01-31T23:00:00Z"), before: new Date("2026-02-28T23:00:00Z") },
      ...{ generatedAt: new Date("2026-03-01T08:00:00Z"), openingUnits: -20_000_000n, closingUnits: 40n },
      ...{ check: { outcome: "not_checked", reason: "no node" }, valuation: undefined },
      ...change,
    },
    ...{ valuation: halves("EUR"), places: 2, id: "stm_1" },
  });
  /** Of these entries and what they leave. */
  function fileOf(entries: readonly ImportRow[], from = given()): string {
    const balances = camtBalances(from);
    const entered = entries.reduce((sum, { minorUnits }) => sum + minorUnits, 0n);
    const last = camtDifference(balances, entered);
    const all = [...entries, ...(last ? [last] : [])];
    const written = all.map((row, n) => camtEntry(row, from, `txn_${n}`));
    return camtStart(from, balances) + written.join("") + CAMT_END;
  }

  test("leads from its opening to its closing balance, in debits and credits", () => {
    const spent = { ...imported, minorUnits: -2n, kind: "SEND" } as const;
    const text = fileOf([imported, spent]);
    const file = checkCamt(text, 2);
    expect([file.opening, file.closing]).toEqual([-1_000n, 0n]);
    expect(file.entries.map(({ minor, kind, day }) => [minor, kind, day])).toEqual([
      [501n, "PAYMENT", "2026-02-03"],
      [-2n, "SEND", "2026-02-03"],
      [501n, "ROUNDING", "2026-02-28"],
    ]);
    expect(file.entries.map(({ about }) => about)).toEqual([
      ...Array.from({ length: 2 }, () => "10.02 USDC at 0.5 (2026-02-03, ecb); base:0x5a:3:in"),
      "",
    ]);
    // money came from a debtor, and went to a creditor
    expect([...text.matchAll(/<(Dbtr|Cdtr)>/g)].map(([, name]) => name)).toEqual(["Dbtr", "Cdtr"]);
    expect([...text.matchAll(/<EndToEndId>([^<]*)/g)].map(([, id]) => id)).toEqual([
      ...["A-1", "A-1", "NOTPROVIDED"],
    ]);
    // ISO 20022: a zero balance is considered to be a credit balance
    expect(text).toContain('<Amt Ccy="EUR">0.00</Amt><CdtDbtInd>CRDT</CdtDbtInd>');
    expect(text).toContain(
      "<FrDtTm>2026-01-31T23:00:00.000Z</FrDtTm><ToDtTm>2026-02-28T22:59:59.999Z</ToDtTm>",
    );
  });

  test("opens with the balance by the rate of the day before, and closes by that of its last day", () => {
    const days: string[] = [];
    const noting: Valuation = {
      currency: "EUR",
      valueOf(units, day) {
        days.push(day);
        return halves("EUR").valueOf(units, day);
      },
    };
    expect(camtBalances({ ...given(), valuation: noting })).toEqual({
      ...{ firstDay: "2026-02-01", lastDay: "2026-02-28", openingMinor: -1_000n, closingMinor: 0n },
    });
    expect(days).toEqual(["2026-01-31", "2026-02-28"]);
  });

  test("needs no difference when its entries lead to the balance, and no rate for a zero balance", () => {
    expect(checkCamt(fileOf([{ ...imported, minorUnits: 1_000n }]), 2).entries.length).toBe(1);
    const year = { from: new Date("2026-01-01T23:00:00Z"), closingUnits: 20_000_000n };
    expect(camtBalances(given({ ...year, openingUnits: 0n })).openingMinor).toBe(0n);
    expect(() => camtBalances(given(year))).toThrow("there is no EUR rate for 2026-01-01");
  });

  test("has texts in one line, escaped, cut at whole letters and never empty", () => {
    const odd = { ...imported, description: ` a\r\n<b> & "c"\ufffe`, counterparty: "\ud800", reference: "" };
    const text = fileOf([odd, { ...imported, description: "\u{1f600}".repeat(141), counterparty: "" }]);
    const [first, second] = checkCamt(text, 2).entries;
    expect(first?.text).toBe('a <b> & "c"');
    expect(second?.text).toBe("\u{1f600}".repeat(140));
    expect([...text.matchAll(/<RltdPties>(.*?)<\/RltdPties>/g)].map(([, parties]) => parties)).toEqual([
      "<Dbtr><Pty><Nm>\ufffd</Nm></Pty></Dbtr>",
    ]);
    expect(checkCamt(fileOf([{ ...imported, description: "\n" }]), 2).entries[0]?.text).toBe("-");
  });
});

describe("a DATEV file", () => {
  const head = (change: Partial<DatevHead> = {}, fiscalYearStart = "07-01"): DatevHead => ({
    settings: {
      ...{ consultantNumber: 29_098, clientNumber: 55_003, fiscalYearStart, accountLength: 4 },
      accounts: {
        ...{ wallet: "1360", payments: "8400", received: "1590", sent: "1591", refunds: "8700" },
        ...{ fees: "4970", rounding: "2709" },
      },
    },
    ...{ currency: "EUR", generatedAt: new Date("2026-07-01T08:09:10.011Z") },
    ...{ firstDay: "2026-01-31", lastDay: "2026-06-30", ...change },
  });
  const fileOf = (rows: readonly ImportRow[], given = head(), places = 2) => {
    const records = [...datevHead(given), ...rows.map((row) => datevRecord(row, given, places))];
    return checkDatev(toWindows1252(records.map((record) => `${record}\r\n`).join("")));
  };

  test("is of the fiscal year of its first day, and ends within it", () => {
    const yearOf = (given: DatevHead) => fileOf([], given).head[12];
    expect(yearOf(head())).toBe("20250701");
    expect(yearOf(head({ firstDay: "2025-07-01" }))).toBe("20250701");
    expect(yearOf(head({ firstDay: "2026-07-01", lastDay: "2027-06-30" }))).toBe("20260701");
    expect(() => fileOf([], head({ lastDay: "2026-07-01" }))).toThrow(
      "which ends before 2026-07-01; these continue to 2026-07-01",
    );
    expect(fileOf([]).head[5]).toBe("20260701080910011");
  });

  test("debits the wallet's account with money in, credits money out, each against its kind's account", () => {
    const kinds = ["PAYMENT", "RECEIVE", "SEND", "REFUND", "FEE", "ROUNDING"] as const;
    const rows = kinds.map((kind, n): ImportRow => ({ ...imported, kind, minorUnits: n < 2 ? 501n : -7n }));
    const { postings } = fileOf(rows);
    expect(postings.map(({ cents }) => cents)).toEqual([501n, 501n, -7n, -7n, -7n, -7n]);
    expect(postings.map(({ contra }) => contra)).toEqual(["8400", "1590", "1591", "8700", "4970", "2709"]);
    expect(postings[0]).toMatchObject({
      ...{ account: "1360", currency: "EUR", day: "0302", reference: "A-1", text: "Chair" },
      facts: {
        USDC: "10.02",
        Kurs: "0.5 (2026-02-03, ecb)",
        Transaktion: imported.place,
        Gegenpartei: "0x11",
      },
    });
  });

  test("writes amounts of a currency without smaller units as whole units with two places", () => {
    const { postings } = fileOf([{ ...imported, minorUnits: 501n }], head({ currency: "JPY" }), 0);
    expect(postings.map(({ cents }) => cents)).toEqual([50_100n]);
  });

  test("omits facts that are not known, without leaving a gap", () => {
    const { postings } = fileOf([{ ...imported, usdc: "", rate: "", place: "" }]);
    expect(postings[0]?.facts).toEqual({ Gegenpartei: "0x11" });
    const [record = ""] = [datevRecord({ ...imported, usdc: "" }, head(), 2)];
    expect(record.split(";")[20]).toBe('"Kurs"');
  });

  test("has every letter of Windows-1252, and a question mark for any other", () => {
    // 0x20 to 0x7e, 0xa0 to 0xff, and the letters at 0x80 to 0x9f; the decoder is the standard's
    const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte).filter(
      (byte) => (byte >= 0x20 && byte !== 0x7f && byte < 0x80) || byte >= 0xa0,
    );
    const high = [
      ...new TextDecoder("windows-1252").decode(Uint8Array.from({ length: 32 }, (_, n) => 0x80 + n)),
    ]
      .filter((letter) => letter > "\u009f")
      .join("");
    const letters = new TextDecoder("windows-1252").decode(bytes) + high;
    expect(high.length).toBe(27);
    expect(new TextDecoder("windows-1252").decode(toWindows1252(letters))).toBe(letters);
    for (const none of ["\u0100", "北", "\u{1f600}", "\u0080", "\u0081", "\u009d"])
      expect(toWindows1252(none)).toEqual(Uint8Array.of(0x3f));
    expect(toWindows1252("\u007f\u00a0ÿ")).toEqual(Uint8Array.of(0x7f, 0xa0, 0xff));
    const [posting] = fileOf([
      { ...imported, description: `a\r\nu\u0308 "b"; 北${"x".repeat(60)}` },
    ]).postings;
    expect(posting?.text).toBe(`a ü "b"; ?${"x".repeat(50)}`);
    const [long] = fileOf([
      { ...imported, reference: `Ä 1/2_${"7".repeat(40)}`, counterparty: "n".repeat(300) },
    ]).postings;
    expect([long?.reference, long?.facts.Gegenpartei]).toEqual([`1/2${"7".repeat(33)}`, "n".repeat(210)]);
  });
});

describe("a row of the books", () => {
  const choice = { timeZone: "Europe/Berlin", metadataColumns: ["order", "shop"], valuation: halves("EUR") };
  const named = (row: ExportRow, given: Parameters<typeof chosenBooks>[0] = choice) => {
    const { columns, cellsOf } = chosenBooks(given, undefined);
    return Object.fromEntries(columns.map(({ key }, at) => [key, cellsOf(row)[at]]));
  };

  test("counts a fee as fee, and everything else as gross: net is what the wallet gained", () => {
    const amounts = (row: ExportRow) => [named(row).gross, named(row).fee, named(row).net];
    expect(amounts(givenRow())).toEqual([5_000_000n, 0n, 5_000_000n]);
    expect(amounts(sent())).toEqual([-5_000_000n, 0n, -5_000_000n]);
    expect(amounts(sent({ kind: "FEE" }))).toEqual([0n, 5_000_000n, -5_000_000n]);
  });

  test("has its position, its metadata and its value; blank where there is none", () => {
    expect(named(givenRow({ orderMetadata: { order: "7" } }))).toMatchObject({
      ...{ logIndex: 3n, block: 70n, "metadata.order": "7", "metadata.shop": "", fiatValue: 2_500_000n },
      ...{ fiatRate: "0.5", fiatRateDate: "2026-11-20", fiatRateSource: "ecb", fiatCurrency: "EUR" },
    });
    const early = { detectedAt: new Date("2026-01-01T11:00:00Z"), logIndex: null, blockNumber: null };
    expect(named(givenRow(early))).toMatchObject({
      ...{ logIndex: null, block: null, fiatCurrency: "EUR", fiatValue: null, fiatRate: null },
      ...{ fiatRateDate: null, fiatRateSource: "", "metadata.order": "" },
    });
    expect(Object.keys(named(givenRow(), { ...choice, valuation: undefined }))).not.toContain("fiatValue");
  });

  test("has the chosen columns in their order; a column that this export lacks is blank text", () => {
    const chosen = ["net", "fiatValue", "rowId"].map((column) => ({ column, title: `My ${column}` }));
    const { columns, cellsOf } = chosenBooks({ ...choice, valuation: undefined }, chosen);
    expect(columns.map(({ title, kind }) => [title, kind])).toEqual([
      ["My net", "amount"],
      ["My fiatValue", "text"],
      ["My rowId", "text"],
    ]);
    const row = givenRow();
    expect(cellsOf(row)).toEqual([5_000_000n, null, `base-sepolia:${row.txHash}:3:in`]);
  });
});
