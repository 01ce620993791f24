/** Values of a year's movements in three currencies, by rates that a source published, in every format. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { enqueue } from "../../db/jobs/queue.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../support/relay-lab.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type GivenRow, insertHistory } from "../transactions/history.ts";
import { exportAs, fetchFile } from "./ask.ts";
import { checkCamt } from "./camt-checker.ts";
import { checkDatev } from "./datev-checker.ts";
import { testOwnRates } from "./own-rates.ts";
import { half, type RateSourceServer, rateOf, startRateSource, toXml } from "./rate-source.ts";
import { parseCsv, sum } from "./read-files.ts";
import { dayOfSerial, readXlsx } from "./read-xlsx.ts";
import { yearOfMovements } from "./year-of-movements.ts";

setDefaultTimeout(120_000);

/** The source begins with 2 January 2025: the first day of the year is without a rate. */
const FIRST_RATE = "2025-01-02";

let source: RateSourceServer;
let world: MerchantWorld;
let ann: Merchant;
let rows: GivenRow[];

beforeAll(async () => {
  source = startRateSource(FIRST_RATE, "2026-01-09", "rates of a year");
  world = await startMerchantWorld({
    processes: ["api", "worker"],
    bothNetworks: true,
    env: { RATE_SOURCE: `ecb=${source.url}`, WEBHOOK_PRIVATE_TARGETS: "1" },
  });
  ann = await signUp(world.baseUrl);
  rows = yearOfMovements();
  await insertHistory(world.sql, ann.userId, rows);
  await readSource();
});
afterAll(async () => {
  await world?.stop();
  source?.stop();
});

/** The worker reads the source now; ends when the attempt has an outcome. */
async function readSource() {
  await world.sql`update exchange_rate_sources set attempted_at = now() - interval '2 hours', fetched_at = null, error = null`;
  await enqueue(world.sql, "fetch_rates", {});
  return waitFor("the source to be read", async () => {
    const { body } = await ann.client.get("/v1/exchange-rates/sources");
    const [found] = body.data.sources;
    return found && (found.fetchedAt ?? found.error) ? found : undefined;
  });
}

const books = { profile: "books", timeZone: "UTC" };
const micro = (text: string) => BigInt(text.replace(".", ""));
type Row = Record<string, string>;

async function readBooks(asked: Record<string, unknown>): Promise<Row[]> {
  const { status, text } = await exportAs(ann.client, { format: "csv", ...books, ...asked });
  if (status !== 200) throw new Error(text);
  const [header = [], ...records] = parseCsv(text);
  return records.map((record) =>
    Object.fromEntries(header.map((name, index) => [name, record[index] ?? ""])),
  );
}

describe("values of movements", () => {
  test("have each day's rate, of the day before on weekends, and are blank before the first one", async () => {
    for (const fiatCurrency of ["EUR", "CHF"] as const) {
      const read = await readBooks({ fiatCurrency });
      const expected = rows.filter(({ status }) => (status ?? "CONFIRMED") === "CONFIRMED");
      expect(read.length).toBe(expected.length);
      const days = new Set<string>();
      for (const row of read) {
        const rate = rateOf(source, fiatCurrency, row.Date ?? "");
        if (!rate) {
          expect([row.Date, row["Fiat Value"], row["Fiat Rate"]]).toEqual(["2025-01-01", "", ""]);
          continue;
        }
        days.add(rate.day === row.Date ? "own" : "before");
        expect([row["Fiat Currency"], row["Fiat Rate Date"], row["Fiat Rate Source"]]).toEqual([
          ...[fiatCurrency, rate.day, "ecb"],
        ]);
        const value = half(micro(row.Net ?? "") * rate.rate, 10n ** 10n);
        expect([row.Date, micro(row["Fiat Value"] ?? "")]).toEqual([row.Date, value]);
      }
      expect(days).toEqual(new Set(["own", "before"]));
    }
  });

  test("in dollars at par are the amounts themselves", async () => {
    for (const row of await readBooks({ fiatCurrency: "USD" }))
      expect([row["Fiat Value"], row["Fiat Rate"], row["Fiat Rate Source"]]).toEqual([row.Net, "1", "par"]);
  });

  test("are the same numbers in CSV, JSON and XLSX, and add up to the same", async () => {
    const csv = await readBooks({ fiatCurrency: "EUR" });
    const total = sum(csv.map((row) => micro(row["Fiat Value"] || "0.000000")));
    const json = JSON.parse(
      (await exportAs(ann.client, { format: "json", ...books, fiatCurrency: "EUR" })).text,
    );
    expect(json.map((row: Row) => row.fiatValue)).toEqual(csv.map((row) => row["Fiat Value"]));
    const sheet = await exportAs(ann.client, { format: "xlsx", ...books, fiatCurrency: "EUR" });
    const [titles = [], ...cells] = readXlsx(sheet.bytes);
    const at = titles.findIndex((title) => title && "text" in title && title.text === "Fiat Value");
    const numbers = cells.map((row) => row[at]);
    expect(
      sum(numbers.map((cell) => (cell && "number" in cell ? BigInt(Math.round(cell.number * 1e6)) : 0n))),
    ).toBe(total);
    const dated = cells.map((row) => row[at + 2]);
    expect(dated.map((cell) => (cell && "number" in cell ? dayOfSerial(cell.number) : ""))).toEqual(
      csv.map((row) => row["Fiat Rate Date"] ?? ""),
    );
  });

  test("come with the settings' currency, and not at all without one", async () => {
    const plain = await readBooks({});
    expect(Object.keys(plain[0] ?? {}).filter((name) => name.startsWith("Fiat"))).toEqual([]);
    const changed = await ann.client.patch("/v1/settings/books", { fiatCurrency: "GBP" });
    expect([changed.status, changed.body.fiatCurrency, changed.body.rateSource]).toEqual([200, "GBP", "ecb"]);
    const valued = await readBooks({});
    expect(valued.every((row) => row["Fiat Currency"] === "GBP")).toBe(true);
    const standard = await exportAs(ann.client, { format: "csv" });
    expect(standard.text.split("\r\n")[0]).toBe(
      "Date,Type,Amount,Currency,Status,Network,Description,Transaction Hash",
    );
    await ann.client.patch("/v1/settings/books", { fiatCurrency: null });
  });
});

const DATEV = {
  ...{ consultantNumber: 29_098, clientNumber: 55_003, fiscalYearStart: "01-01", accountLength: 4 },
  accounts: {
    ...{ wallet: "1360", payments: "8400", received: "1590", sent: "1590", refunds: "8700", fees: "4970" },
    rounding: "2709",
  },
};
/** From the first rate on. */
const valued = { profile: "books", timeZone: "UTC", fiatCurrency: "EUR", dateFrom: FIRST_RATE };
const cents = (text: string) => BigInt(text.replace(/[.,]/, ""));

describe("a file for another program", () => {
  let exact: Row[];
  let total: bigint;
  beforeAll(async () => {
    exact = await readBooks({ fiatCurrency: "EUR", dateFrom: FIRST_RATE });
    // whole cents of the exact sum
    total = half(sum(exact.map((row) => micro(row["Fiat Value"] ?? ""))), 10_000n);
  });

  const roundedRows = () =>
    exact.map((row) => half(micro(row["Fiat Value"] ?? ""), 10_000n)).filter((value) => value !== 0n);
  /** Rounded values, and what rounding left. */
  const expectedRows = () => {
    const left = total - sum(roundedRows());
    return left === 0n ? roundedRows() : [...roundedRows(), left];
  };

  test("for Xero and QuickBooks adds up to the rounded sum of the exact values", async () => {
    const xero = parseCsv((await exportAs(ann.client, { format: "xero_csv", ...valued })).text);
    expect(xero[0]).toEqual(["*Date", "*Amount", "Payee", "Description", "Reference", "Check Number"]);
    const amounts = xero.slice(1).map(([, amount = ""]) => amount);
    for (const amount of amounts) expect(amount).toMatch(/^-?\d+\.\d{2}$/);
    expect(amounts.map(cents)).toEqual(expectedRows());
    expect(sum(amounts.map(cents))).toBe(total);
    const [first] = exact;
    const [year, month, day] = (first?.Date ?? "").split("-");
    expect(xero[1]?.[0]).toBe(`${day}/${month}/${year}`);
    expect(xero[1]?.[3]).toContain(
      `${first?.Net} USDC at ${first?.["Fiat Rate"]} (${first?.["Fiat Rate Date"]}, ecb)`,
    );
    expect(xero[1]?.[3]).toEndWith(first?.["Row ID"] ?? "no row");
    const quickBooks = parseCsv((await exportAs(ann.client, { format: "quickbooks_csv", ...valued })).text);
    expect(quickBooks[0]).toEqual(["Date", "Description", "Amount"]);
    expect(quickBooks[1]?.[0]).toBe(`${month}/${day}/${year}`);
    expect(quickBooks.slice(1).map(([, , amount = ""]) => cents(amount))).toEqual(expectedRows());
  });

  test("for DATEV passes the format's checker, posts each kind against its account, and adds up", async () => {
    const before = await exportAs(ann.client, { format: "datev", ...valued });
    expect([before.status, JSON.parse(before.text).error.details.field]).toEqual([400, "format"]);
    const wrong = { ...DATEV, accounts: { ...DATEV.accounts, wallet: "136000" } };
    expect((await ann.client.patch("/v1/settings/books", { datev: wrong })).status).toBe(400);
    expect((await ann.client.patch("/v1/settings/books", { datev: DATEV })).body.datev).toEqual(DATEV);
    const answer = await exportAs(ann.client, { format: "datev", ...valued });
    expect(answer.headers.get("content-disposition")).toContain('filename="EXTF_');
    const file = checkDatev(answer.bytes);
    expect([file.currency, ...[10, 11, 12, 13].map((at) => file.head[at])]).toEqual([
      ...["EUR", "29098", "55003", "20250101", "4"],
    ]);
    expect(file.postings.map((posting) => posting.cents)).toEqual(expectedRows());
    const moved = exact.filter((row) => half(micro(row["Fiat Value"] ?? ""), 10_000n) !== 0n);
    for (const [n, row] of moved.entries()) {
      const posting = file.postings[n];
      expect([posting?.account, posting?.contra, posting?.day]).toEqual([
        ...["1360", "1590", `${row.Date?.slice(8)}${row.Date?.slice(5, 7)}`],
      ]);
      expect([posting?.facts.USDC, posting?.facts.Transaktion]).toEqual([row.Net, row["Row ID"]]);
    }
    expect(file.postings.map(({ text }) => text)).toContain('Größe "L"; ??');
    expect(file.postings.slice(moved.length).map(({ contra }) => contra)).toEqual(
      expectedRows().length > moved.length ? ["2709"] : [],
    );
  });

  test("is refused where a day has no rate, without a currency, and over the end of a fiscal year", async () => {
    const whole = await exportAs(ann.client, { format: "xero_csv", ...valued, dateFrom: "2025-01-01" });
    expect([whole.status, whole.text]).toEqual([409, expect.stringContaining("no EUR rate for 2025-01-01")]);
    const listed = (await ann.client.get("/v1/transactions/exports")).body.data.exports[0];
    expect([listed.status, listed.refusal]).toEqual(["FAILED", expect.stringContaining("2025-01-01")]);
    const unset = await exportAs(ann.client, { format: "xero_csv", ...valued, fiatCurrency: undefined });
    expect([unset.status, JSON.parse(unset.text).error.details.field]).toEqual([400, "fiatCurrency"]);
    await ann.client.patch("/v1/settings/books", { datev: { ...DATEV, fiscalYearStart: "07-01" } });
    const over = await exportAs(ann.client, { format: "datev", ...valued });
    expect([over.status, over.text]).toEqual([409, expect.stringContaining("ends before 2025-07-01")]);
    const half = await exportAs(ann.client, { format: "datev", ...valued, dateTo: "2025-06-30" });
    expect(checkDatev(half.bytes).head[12]).toBe("20240701");
  });

  test("is refused when it would leave movements out", async () => {
    const kim = await signUp(world.baseUrl);
    const many = (count: number) =>
      Array.from({ length: count }, (): GivenRow => ({ detectedAt: "2025-03-03T03:03:03.000Z" }));
    await insertHistory(world.sql, kim.userId, many(10_000));
    const asked = { ...valued, format: "quickbooks_csv" };
    expect(parseCsv((await exportAs(kim.client, asked)).text).length).toBeGreaterThanOrEqual(10_001);
    await insertHistory(world.sql, kim.userId, many(1));
    const refused = await exportAs(kim.client, asked);
    expect([refused.status, refused.text]).toEqual([409, expect.stringContaining("10001 match")]);
  });
});

describe("a statement as camt.053", () => {
  const statement = (asked: Record<string, unknown>) =>
    fetchFile(ann.client, "/v1/statements", {
      method: "POST",
      body: JSON.stringify({ format: "camt053", network: "base-sepolia", timeZone: "UTC", ...asked }),
      headers: { "content-type": "application/json" },
    });
  const closingOf = async (dateFrom: string, dateTo: string) => {
    const { text } = await statement({ format: "json", dateFrom, dateTo });
    return JSON.parse(text).closingBalance as string;
  };

  test("leads from balance to balance, month by month, each valued by the rate of its day", async () => {
    const exact = (await readBooks({ fiatCurrency: "EUR", networks: ["base-sepolia"] })).filter(
      (row) => (row.Date ?? "") >= "2025-02-01",
    );
    let opening: bigint | undefined;
    for (const [from, to] of [
      ["2025-02-01", "2025-02-28"],
      ["2025-03-01", "2025-06-30"],
    ] as const) {
      const { text, headers } = await statement({ fiatCurrency: "EUR", dateFrom: from, dateTo: to });
      expect(headers.get("content-type")).toContain("application/xml");
      const file = checkCamt(text, 2);
      expect(file.currency).toBe("EUR");
      if (opening !== undefined) expect(file.opening).toBe(opening);
      opening = file.closing;
      const rate = rateOf(source, "EUR", to)?.rate ?? 0n;
      const closing = half(half(micro(await closingOf(from, to)) * rate, 10n ** 10n), 10_000n);
      expect(file.closing).toBe(closing);
      const moved = exact.filter((row) => from <= (row.Date ?? "") && (row.Date ?? "") <= to);
      const rounded = moved.map((row) => half(micro(row["Fiat Value"] ?? ""), 10_000n));
      expect(file.entries.filter(({ kind }) => kind !== "ROUNDING").map(({ minor }) => minor)).toEqual(
        rounded.filter((value) => value !== 0n),
      );
      expect(file.entries[0]?.about).toBe(
        `${moved[0]?.Net} USDC at ${moved[0]?.["Fiat Rate"]} (${moved[0]?.["Fiat Rate Date"]}, ecb); ${moved[0]?.["Row ID"]}`,
      );
      expect(file.entries.filter(({ kind }) => kind !== "ROUNDING").map(({ text: words }) => words)).toEqual(
        moved.filter((_, n) => rounded[n] !== 0n).map((row) => row.Description ?? ""),
      );
    }
  });

  test("has an id of its period and currency, so that no importer takes it for a shorter one it knows", async () => {
    const idOf = async (dateTo: string, fiatCurrency = "EUR") =>
      checkCamt((await statement({ fiatCurrency, dateFrom: "2025-02-01", dateTo })).text, 2).id;
    const month = await idOf("2025-02-28");
    expect(await idOf("2025-02-28")).toBe(month);
    expect(new Set([month, await idOf("2025-03-31"), await idOf("2025-02-28", "CHF")]).size).toBe(3);
  });

  test("needs a currency, and a rate on the days of its balances", async () => {
    const unset = await statement({ month: "2025-02" });
    expect([unset.status, JSON.parse(unset.text).error.details.field]).toEqual([400, "fiatCurrency"]);
    // 1 January opens with nothing, and has a movement without a rate
    const first = await statement({ fiatCurrency: "EUR", month: "2025-01" });
    expect([first.status, first.text]).toEqual([409, expect.stringContaining("no EUR rate for 2025-01-01")]);
    const second = await statement({ fiatCurrency: "EUR", dateFrom: "2025-01-02", dateTo: "2025-01-31" });
    expect([second.status, second.text]).toEqual([
      409,
      expect.stringContaining("no EUR rate for 2025-01-01"),
    ]);
  });
});

describe("a source", () => {
  test("whose file has one fault stores nothing, and reports why", async () => {
    const count = () => world.sql`select count(*)::int as count from exchange_rates`;
    const before = await count();
    source.serve(toXml(new Map([...source.days, ["2026-01-12", { USD: 10_000n, GBP: 0n, CHF: 1n }]])));
    expect((await readSource()).error).toContain("is not a rate of GBP on 2026-01-12");
    source.serve("<html>Bad gateway</html>");
    expect((await readSource()).error).toContain("does not end with its envelope");
    expect(await count()).toEqual(before);
    source.serve(undefined);
    expect(await readSource()).toMatchObject({ name: "ecb", newestDate: "2026-01-09", error: null });
    expect(await count()).toEqual(before);
  });

  test("that corrects a rate changes no value until corrections are asked for", async () => {
    const before = await readBooks({ fiatCurrency: "EUR" });
    const day = before.find((row) => row["Fiat Rate Date"] === row.Date)?.Date ?? "";
    const numbers = source.days.get(day);
    if (!numbers) throw new Error(`no numbers on ${day}`);
    source.serve(toXml(new Map([...source.days, [day, { ...numbers, USD: 2n * numbers.USD }]])));
    expect((await readSource()).error).toBeNull();
    expect(await readBooks({ fiatCurrency: "EUR" })).toEqual(before);
    const corrected = await readBooks({ fiatCurrency: "EUR", correctedRates: true });
    const changed = corrected.filter((row, n) => row["Fiat Value"] !== before[n]?.["Fiat Value"]);
    expect(new Set(changed.map((row) => row["Fiat Rate Date"]))).toEqual(new Set([day]));
    for (const row of changed)
      expect(micro(row["Fiat Rate"]?.padEnd(12, "0") ?? "")).toBe(
        half(10_000n * 10n ** 10n, 2n * numbers.USD),
      );
  });

  test("that adds a day later changes no value made with the rate of the day before", async () => {
    const days = new Map([...source.days].filter(([day]) => day <= "2026-01-09"));
    // a Saturday, valued by Friday
    const before = (await readBooks({ fiatCurrency: "EUR" })).filter(({ Date: day }) => day === "2025-06-14");
    source.serve(toXml(new Map([...days, ["2025-06-14", { USD: 20_000n, GBP: 1n, CHF: 1n }]])));
    expect((await readSource()).error).toBeNull();
    const find = async (correctedRates?: string) => {
      const more = correctedRates ? `&correctedRates=${correctedRates}` : "";
      const path = `/v1/exchange-rates?currency=EUR&dateFrom=2025-06-13&dateTo=2025-06-14${more}`;
      return (await ann.client.get(path)).body.data.rates;
    };
    expect((await find())[1]).toMatchObject({ date: "2025-06-14", rateDate: "2025-06-13" });
    expect((await find("true"))[1]).toEqual({ date: "2025-06-14", rate: "0.5", rateDate: "2025-06-14" });
    const after = (await readBooks({ fiatCurrency: "EUR" })).filter(({ Date: day }) => day === "2025-06-14");
    expect(after).toEqual(before);
  });

  test("of a merchant's own rates does not apply to other merchants, and own rates can be removed", async () => {
    const kim = await signUp(world.baseUrl);
    await insertHistory(world.sql, kim.userId, [
      { amountUnits: 2_000_001n, detectedAt: "2025-05-06T10:00:00.000Z" },
    ]);
    const year = { currency: "EUR", dateFrom: "2025-05-01", dateTo: "2025-05-06" };
    expect((await kim.client.post("/v1/exchange-rates", { ...year, rate: "0.5" })).status).toBe(200);
    await kim.client.patch("/v1/settings/books", { fiatCurrency: "EUR", rateSource: "own" });
    const value = async () => {
      const { text } = await exportAs(kim.client, { format: "json", ...books });
      const [row] = JSON.parse(text);
      return [row.fiatValue, row.fiatRate, row.fiatRateDate, row.fiatRateSource];
    };
    // 2.000001 / 2 = 1.0000005, half away from zero
    expect(await value()).toEqual(["1.000001", "0.5", "2025-05-06", "own"]);
    await kim.client.post("/v1/exchange-rates", { ...year, dateFrom: "2025-05-02", rate: null });
    expect(await value()).toEqual(["1.000001", "0.5", "2025-05-01", "own"]);
    await kim.client.post("/v1/exchange-rates", { ...year, rate: null });
    expect(await value()).toEqual(["", "", "", ""]);
    const others = await ann.client.get(
      "/v1/exchange-rates?currency=EUR&dateFrom=2025-05-06&dateTo=2025-05-06",
    );
    expect(others.body.data).toMatchObject({ source: "ecb" });
    const refused = await kim.client.patch("/v1/settings/books", { rateSource: "nowhere" });
    expect([refused.status, refused.body.error.details.field]).toEqual([400, "rateSource"]);
    const long = await kim.client.post("/v1/exchange-rates", { ...year, dateTo: "2026-05-02", rate: "1" });
    expect([long.status, long.body.error.details.field]).toEqual([400, "dateTo"]);
    expect(
      (await kim.client.post("/v1/exchange-rates", { ...year, dateTo: "2026-05-01", rate: "1" })).status,
    ).toBe(200);
    // days that Postgres or the calendar does not have
    for (const day of ["0000-01-01", "9999-12-31"]) {
      const days = { currency: "EUR", dateFrom: day, dateTo: day };
      expect((await kim.client.get(`/v1/exchange-rates?${new URLSearchParams(days)}`)).status).toBe(400);
      expect((await kim.client.post("/v1/exchange-rates", { ...days, rate: "1" })).status).toBe(400);
    }
  });
});

describe("a merchant's own rates", () => testOwnRates(() => world));
