import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { formatUnits } from "../../core/domain/money.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { openClient } from "../support/http-client.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type GivenRow, insertHistory } from "../transactions/history.ts";
import { exportAs as askExport, EXPORT_PATH } from "./ask.ts";
import { parseCsv, pdfPageCount, pdfTexts, pdfWideWords, sum, unitsOf } from "./read-files.ts";

let world: MerchantWorld;
let ann: Merchant;
let bob: Merchant;

const HEADER = ["Date", "Type", "Amount", "Currency", "Status", "Network", "Description", "Transaction Hash"];
const AWKWARD = [
  "plain",
  'has "quotes" and, commas',
  "line\nbreak",
  "carriage\rreturn",
  "both\r\nof them",
  "=1+1",
  "+1",
  "-1",
  "@SUM(A1)",
  "\tTab",
  "\rReturn",
  "＝1+1",
  " =2+2",
  "日本語の説明 Ünïcödé",
  "trailing space ",
  "",
  "x".repeat(500),
  "a;b|c",
];
const ROWS = Array.from(
  { length: 340 },
  (_, n): GivenRow => ({
    type: (["RECEIVE", "SEND", "PAYMENT_LINK"] as const)[n % 3] ?? "RECEIVE",
    status: (["CONFIRMED", "CONFIRMED", "CONFIRMED", "FAILED", "DETECTED"] as const)[n % 5] ?? "CONFIRMED",
    network: n % 4 === 0 ? "base" : "base-sepolia",
    amountUnits: n === 0 ? 1n : BigInt(n) * 987_654_321n,
    description: AWKWARD[n % AWKWARD.length] ?? "",
    ...(n % 50 === 49 ? { txHash: null } : {}),
    detectedAt: new Date(Date.UTC(2026, 2, 28, 12) + n * 300_000),
  }),
);
const TOTAL = sum(ROWS.map((row) => row.amountUnits ?? 0n));

/** A report sums the rows of real money alone, beside which those of the test network are only counted. */
const REAL = ROWS.filter((row) => row.network === "base");
const TESTS = ROWS.filter((row) => row.network === "base-sepolia");
const CONFIRMED = REAL.filter((row) => row.status === "CONFIRMED");
/** Rows by kind, in the order of the alphabet. */
const byKind = (rows: readonly GivenRow[], kindOf: (row: GivenRow) => string) =>
  [...Map.groupBy(rows, kindOf)].sort(([one], [other]) => (one < other ? -1 : 1));
const KINDS = byKind(REAL, (row) => `${row.type} ${row.status}`);
const TEST_KINDS = byKind(TESTS, (row) => row.type ?? "");

/** Count, in, out and net of rows, as a report writes them. */
function sumsOf(rows: readonly GivenRow[]): string[] {
  const units = (isSent: boolean) =>
    sum(rows.filter((row) => (row.type === "SEND") === isSent).map((row) => row.amountUnits ?? 0n));
  const [moneyIn, moneyOut] = [units(false), units(true)];
  return [String(rows.length), ...[moneyIn, moneyOut, moneyIn - moneyOut].map(formatUnits)];
}

beforeAll(async () => {
  world = await startMerchantWorld({ processes: ["api", "worker"] });
  [ann, bob] = await Promise.all([signUp(world.baseUrl), signUp(world.baseUrl)]);
  await insertHistory(world.sql, ann.userId, ROWS);
}, 120_000);
afterAll(() => world?.stop());

const exportAs = (body: Record<string, unknown>, headers?: Record<string, string>, merchant = ann) =>
  askExport(merchant.client, body, headers);

type Listed = {
  id: string;
  amount: string;
  description: string;
  transactionHash: string | null;
  detectedAt: string;
  type: string;
  status: string;
  network: string;
};

async function listAll(query = ""): Promise<Listed[]> {
  const rows: Listed[] = [];
  for (let offset = 0; ; offset += 100) {
    const { body } = await ann.client.get(`/v1/transactions?limit=100&offset=${offset}&${query}`);
    rows.push(...body.data.transactions);
    if (!body.data.pagination.hasMore) return rows;
  }
}

/** Removes the protection that a spreadsheet's user would have to undo. */
const neutral = (text: string) => (/^ ?[=+\-@\t\r\n＝＋－＠]/.test(text) ? `'${text}` : text);

describe("the documented download", () => {
  test("csv: eight columns, strict RFC 4180, equal to the list to the micro-USDC", async () => {
    const file = await exportAs({ format: "csv" });
    expect(file.status).toBe(200);
    expect(file.headers.get("content-type")).toBe("text/csv; charset=utf-8");
    expect(file.headers.get("content-disposition")).toMatch(
      /^attachment; filename="transactions-\d{4}-\d\d-\d\d\.csv"$/,
    );
    expect(file.headers.get("x-content-type-options")).toBe("nosniff");
    expect(file.headers.get("x-export-total")).toBe("340");
    expect(file.headers.get("x-export-truncated")).toBe("false");
    const [header, ...records] = parseCsv(file.text);
    expect(header).toEqual(HEADER);
    const listed = await listAll();
    expect(records).toEqual(
      listed.map((row) => [
        row.detectedAt,
        row.type,
        row.amount,
        "USDC",
        row.status,
        row.network,
        neutral(row.description),
        row.transactionHash ?? "",
      ]),
    );
    expect(sum(records.map((record) => unitsOf(record[2])))).toBe(TOTAL);
  });

  test("csv: no cell starts a formula", async () => {
    const records = parseCsv((await exportAs({ format: "csv", profile: "accounting" })).text);
    for (const cell of records.flat()) expect(cell).not.toMatch(/^[=+\-@\t\r\n＝＋－＠]/);
    for (const shown of ["'=1+1", "' =2+2"])
      expect(records.flat().filter((cell) => cell === shown).length).toBeGreaterThan(0);
  });

  test("json: the list's own objects, all of them, in its order", async () => {
    const file = await exportAs({ format: "json" });
    expect(file.headers.get("content-type")).toBe("application/json; charset=utf-8");
    const rows = JSON.parse(file.text);
    expect(rows).toEqual(await listAll());
    expect(sum(rows.map((row: { amount: string }) => unitsOf(row.amount)))).toBe(TOTAL);
  });

  test("pdf is a text report, one line per row, with totals that equal the sum of the rows", async () => {
    const file = await exportAs({ format: "pdf" });
    expect(file.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    expect(file.headers.get("content-disposition")).toEndWith('.txt"');
    const lines = file.text.split("\n");
    const rows = lines.filter((line) => /^\d{4}-\d\d-\d\dT/.test(line));
    expect(rows.length).toBe(340);
    expect(sum(rows.map((line) => unitsOf(line.split(/\s+/)[2])))).toBe(TOTAL);
    const total = (name: string) =>
      new RegExp(`^${name}\\s+(\\d+)\\s+(\\S+)\\s+(\\S+)\\s+(\\S+)$`, "m").exec(file.text)?.slice(1);
    for (const [kind, rows] of KINDS)
      if (kind.endsWith(" CONFIRMED")) expect(total(kind.replace(" ", "\\s+"))).toEqual(sumsOf(rows));
      // only how many there are: it is no money
      else expect(file.text).toMatch(new RegExp(`^${kind.replace(" ", "\\s+")}\\s+${rows.length}$`, "m"));
    for (const [type, rows] of TEST_KINDS)
      expect(file.text).toMatch(new RegExp(`^${type}\\s+test network\\s+${rows.length}$`, "m"));
    expect(file.text).toMatch(/^Test network:\s+No real money; not in the total\.$/m);
    expect(total("Total\\s+CONFIRMED")).toEqual(sumsOf(CONFIRMED));
    const [count, moneyIn, moneyOut, net] = sumsOf(CONFIRMED);
    const [confirmed = "", others = ""] = file.text.split(
      `\nTotal of ${count} confirmed transactions: in ${moneyIn}, out ${moneyOut}, net ${net} USDC\n`,
    );
    const kindsOf = (text: string) =>
      new Set(
        [...text.matchAll(/^\d{4}-\d\d-\d\dT\S+\s+\S+\s+\S+\s+USDC\s+(\S+)\s+(\S+)/gm)].map(
          ([, status, network]) => `${status} ${network}`,
        ),
      );
    expect(kindsOf(confirmed)).toEqual(new Set(["CONFIRMED base"]));
    const tests = ["CONFIRMED", "FAILED", "DETECTED"].map((status) => `${status} base-sepolia`);
    expect(kindsOf(others)).toEqual(new Set(["FAILED base", "DETECTED base", ...tests]));
    expect(others).not.toContain("Total");
  });

  test("pdf with Accept: application/pdf is a PDF with the amounts of the rows, the totals and their sum", async () => {
    const file = await exportAs({ format: "pdf" }, { accept: "application/pdf" });
    expect(file.headers.get("content-type")).toBe("application/pdf");
    expect(file.headers.get("content-disposition")).toEndWith('.pdf"');
    const texts = pdfTexts(file.bytes);
    const after = (title: string) => texts.slice(texts.indexOf(title) + 1);
    // by type and status: count, in, out and net; then all of them, then the confirmed ones
    const totals = after("Net (USDC)").map((text) => text.replaceAll(",", ""));
    for (const [kind, rows] of KINDS)
      if (kind.endsWith(" CONFIRMED"))
        expect(totals.splice(0, 6)).toEqual([...kind.split(" "), ...sumsOf(rows)]);
    expect(totals.splice(0, 6)).toEqual(["Total", "CONFIRMED", ...sumsOf(CONFIRMED)]);
    for (const [kind, rows] of KINDS)
      if (!kind.endsWith(" CONFIRMED"))
        expect(totals.splice(0, 3)).toEqual([...kind.split(" "), String(rows.length)]);
    for (const [type, rows] of TEST_KINDS)
      expect(totals.splice(0, 3)).toEqual([type, "test network", String(rows.length)]);
    // confirmed rows, their net, and the other rows without a sum
    const amounts = after("Amount (USDC)").filter((text) => /^-?\d{1,3}(,\d{3})*\.\d{6}$/.test(text));
    expect(amounts.length).toBe(340 + 1);
    const [count, moneyIn, moneyOut, net] = sumsOf(CONFIRMED);
    const signedUnits = (text: string) => BigInt(text.replaceAll(/[,.]/g, ""));
    const changes = (rows: readonly GivenRow[]) =>
      sum(rows.map(({ type, amountUnits = 0n }) => (type === "SEND" ? -amountUnits : amountUnits)));
    // the column adds up to the net that stands below it
    const confirmedUnits = sum(amounts.slice(0, CONFIRMED.length).map(signedUnits));
    expect(formatUnits(confirmedUnits)).toBe(net ?? "");
    expect(signedUnits(amounts[CONFIRMED.length] ?? "")).toBe(confirmedUnits);
    expect(sum(amounts.slice(CONFIRMED.length + 1).map(signedUnits))).toBe(changes(ROWS) - confirmedUnits);
    expect(texts.map((text) => text.replaceAll(/(?<=\d),(?=\d)/g, ""))).toContain(
      `in ${moneyIn}, out ${moneyOut}, net`,
    );
    expect(texts).toContain(`${count} transactions`);
    const pages = pdfPageCount(file.bytes);
    for (let page = 1; page <= pages; page++) expect(texts).toContain(`Page ${page} of `);
    const alike = [...KINDS, ...TEST_KINDS].filter(([, rows]) => rows.length === pages).length;
    expect(texts.filter((text) => text === String(pages)).length).toBe(alike + 1);
    expect(texts).toContain("Transaction report");
    // on each page, and once more where the other rows begin further down
    expect([pages, pages + 1]).toContain(texts.filter((text) => text === "Amount (USDC)").length);
    // a hash is one text, so that it can be searched, copied and compared as a whole
    expect(texts.filter((text) => /^0x[0-9a-f]{64}$/.test(text)).length).toBe(
      ROWS.filter((row) => row.txHash !== null).length,
    );
  });

  const REMARK = /is the code point of a character that this report has no font for \((\d+) in total\)/;

  async function pdfOf(description: string) {
    const merchant = await signUp(world.baseUrl);
    await insertHistory(world.sql, merchant.userId, [{ description }]);
    const { bytes } = await exportAs({ format: "pdf" }, { accept: "application/pdf" }, merchant);
    const remarks = pdfTexts(bytes).map((text) => REMARK.exec(text)?.[1]);
    const missing = Number(remarks.find((count) => count !== undefined) ?? 0);
    return { missing, texts: pdfTexts(bytes), words: pdfWideWords(bytes) };
  }

  test.each([
    ["Chinese, Japanese and Korean", "付款 北京 注文の한국어 주문"],
    ["Arabic, Persian and Hebrew", "فاتورة رقم ١٢٣ می‌خواهم חשבונית"],
    ["Greek, Cyrillic, Georgian and Armenian", "Ελλ Кир საქართველო ₾ Հայաստան ֏"],
    ["pictures of one and of several parts", "🎉 🍕 👩‍🍳 🇮🇳"],
    ["Hindi and Bengali", "किताब क़ीमत धन्यवाद। श्री ज्ञान ₹ পেমেন্ট র‍্যাব স্ত্রী ৳"],
    ["Tamil, Telugu, Kannada and Malayalam", "கௌரவம் ஸ்ரீ శ్రీ స్త్రీ ಜ್ಞಾನ ರಾಷ್ಟ್ರ പണമടയ്ക്കൽ സ്ത്രീ"],
    ["Gujarati, Punjabi, Odia and Sinhala", "ચુકવણી શ્રી ਪੰਜਾਬੀ ਅੰਮ੍ਰਿਤਸਰ ପ୍ରଦାନ ශ්‍රී"],
    ["Thai, Lao, Khmer and Burmese", "น้ำ ที่ ปั๊ม ນ້ຳ ខ្ញុំ ဥက္ကဋ္ဌ"],
    ["Amharic", "አማርኛ ክፍያ"],
  ])("pdf shows %s, and its text can be copied", async (_, description) => {
    const { missing, words } = await pdfOf(description);
    expect(missing).toBe(0);
    // a word with letters in several fonts is drawn in several parts
    expect([...words.join("")].toSorted()).toEqual([...description.replaceAll(" ", "")].toSorted());
  });

  test("pdf writes a character that no font has as its code point, and says so", async () => {
    const { missing, texts } = await pdfOf("\u{13080}\u{13080} eyes");
    expect(missing).toBe(2);
    expect(texts).toContain("[U+13080][U+13080] eyes");
  });

  test("a report of a test network alone has its total, and says that it is not real money", async () => {
    const file = await exportAs({ format: "pdf", networks: ["base-sepolia"] });
    const [count, moneyIn, moneyOut, net] = sumsOf(TESTS.filter((row) => row.status === "CONFIRMED"));
    expect(file.text).toContain(
      `Total of ${count} confirmed transactions: in ${moneyIn}, out ${moneyOut}, net ${net} USDC\n`,
    );
    expect(file.text).toMatch(/^Test network:\s+No real money\.$/m);
    expect(file.text).not.toContain("of test networks");
  });

  test("an empty history gives a valid file in every format", async () => {
    expect(parseCsv((await exportAs({ format: "csv" }, {}, bob)).text)).toEqual([HEADER]);
    expect(JSON.parse((await exportAs({ format: "json" }, {}, bob)).text)).toEqual([]);
    expect((await exportAs({ format: "pdf" }, {}, bob)).text).toContain(
      "Total of 0 confirmed transactions: in 0.000000, out 0.000000, net 0.000000 USDC",
    );
    expect(pdfPageCount((await exportAs({ format: "pdf" }, { accept: "application/pdf" }, bob)).bytes)).toBe(
      1,
    );
  });
});

describe("filters and profile", () => {
  test.each([
    [{ types: ["SEND"] }, "types=SEND"],
    [{ types: ["SEND", "RECEIVE"], statuses: "CONFIRMED" }, "types=SEND,RECEIVE&statuses=CONFIRMED"],
    [
      { networks: ["base"], amountMin: 100, amountMax: "200000.5" },
      "networks=base&amountMin=100&amountMax=200000.5",
    ],
    [{ dateFrom: "2026-03-29", dateTo: "2026-03-29" }, "dateFrom=2026-03-29&dateTo=2026-03-29"],
    [{ search: "QUOTES" }, "search=quotes"],
    [{ types: [] }, ""],
  ])("%j selects the same rows as the list", async (filter, query) => {
    const rows: Listed[] = JSON.parse((await exportAs({ format: "json", ...filter })).text);
    const listed = await listAll(query);
    expect(rows.map(({ id }) => id)).toEqual(listed.map(({ id }) => id));
    expect(rows.length).toBeGreaterThan(0);
  });

  test("accounting adds parties, place, finality and the local time of the zone, summer time included", async () => {
    const file = await exportAs({ format: "csv", profile: "accounting", timeZone: "Europe/Berlin" });
    const [header = [], ...records] = parseCsv(file.text);
    expect(header.slice(0, 8)).toEqual(HEADER);
    const cell = (record: string[], name: string) => record[header.indexOf(name)];
    for (const record of records) {
      const date = cell(record, "Date") ?? "";
      const local = cell(record, "Local Time") ?? "";
      expect(Date.parse(local)).toBe(Math.floor(Date.parse(date) / 1000) * 1000);
      // clocks went forward on 2026-03-29 at 01:00 UTC
      expect(local).toEndWith(date < "2026-03-29T01:00" ? "+01:00" : "+02:00");
      const [payer, payee] = [cell(record, "Payer"), cell(record, "Payee")];
      if (cell(record, "Network") === "base-sepolia")
        expect(cell(record, "Type") === "SEND" ? payer : payee).toBe(ann.walletAddress);
    }
    expect(new Set(records.map((record) => cell(record, "Finality")))).toEqual(
      new Set(["confirmed", "failed", "in a block"]),
    );
    expect(sum(records.map((record) => unitsOf(record[2])))).toBe(TOTAL);
  });

  test.each([
    [{}, "format"],
    [{ format: "docx" }, "format"],
    [{ format: "xlsx", profile: "standard" }, "profile"],
    [{ format: "pdf", profile: "books" }, "format"],
    [{ format: "csv", profile: "books", statuses: ["FAILED"] }, "statuses"],
    [{ format: "csv", metadataColumns: ["order"] }, "metadataColumns"],
    [{ format: "csv", profile: "books", metadataColumns: ["a", "a"] }, "metadataColumns"],
    [{ format: "CSV" }, "format"],
    [{ format: "csv", types: ["NOPE"] }, "types"],
    [{ format: "csv", types: 5 }, "types"],
    [{ format: "csv", dateFrom: "x" }, "dateFrom"],
    [{ format: "csv", amountMin: -1 }, "amountMin"],
    [{ format: "csv", timeZone: "Mars/Base" }, "timeZone"],
    [{ format: "csv", profile: "x" }, "profile"],
  ])("error: %j is 400", async (body, field) => {
    const { status, body: answer } = await ann.client.post(EXPORT_PATH, body);
    expect(status).toBe(400);
    expect(answer.error.details.field).toStartWith(field);
  });

  test("error: 401 without a session", async () => {
    const nobody = openClient(world.baseUrl);
    expect((await nobody.post(EXPORT_PATH, { format: "csv" })).status).toBe(401);
    expect((await nobody.get("/v1/transactions/exports")).status).toBe(401);
  });
});
