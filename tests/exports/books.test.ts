/** One seeded year for bookkeeping: every format holds the same rows and adds up to the same micro-USDC. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { formatUnits } from "../../core/domain/money.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type GivenRow, insertHistory } from "../transactions/history.ts";
import { exportAs, fetchFile } from "./ask.ts";
import { parseCsv, pdfTexts, sum } from "./read-files.ts";
import { dayOfSerial, readXlsx } from "./read-xlsx.ts";

setDefaultTimeout(120_000);

const ROWS = 700;
const ZONE = "Europe/Berlin";
/** 50 payments that one transaction relayed. */
const BATCH_HASH = `0x${"b5".repeat(32)}` as const;

let world: MerchantWorld;
let ann: Merchant;
let linkId: string;
let rows: GivenRow[];

beforeAll(async () => {
  // a file that a busy machine makes slowly is waited for, and not answered 202
  world = await startMerchantWorld({ env: { EXPORT_WAIT_MS: "60000" } });
  ann = await signUp(world.baseUrl);
  const { body } = await ann.client.post("/v1/payment-links", {
    ...{ amount: 5, description: "Chair", reference: "INV-7", customerEmail: "kim@example.com" },
    metadata: { order: "=A1+1", shop: "Köln; Süd" },
  });
  linkId = body.id;
  rows = yearOf();
  await insertHistory(world.sql, ann.userId, rows);
  // a history row a log: those of the batch stand at different places of one block
  await world.sql`
    update transactions
    set log_index = numbered.place
    from (
      select id, row_number() over (order by id) - 1 as place
      from transactions
      where owner = owner_key(${ann.userId}) and tx_hash = bytes_of(${BATCH_HASH})
    ) numbered
    where transactions.id = numbered.id`;
});
afterAll(() => world?.stop());

/** Payments, plain receipts, sends, and what is no money: failed, pending, detected and reorganised rows. */
function yearOf(): GivenRow[] {
  const random = seededRandom("books of a year");
  // before the last day: its last hour is another year in Berlin, and belongs to the edges below
  const at = () => new Date(Date.UTC(2025, 0, 1) + Math.floor(random() * 364 * 86_400) * 1_000);
  const made = Array.from({ length: ROWS }, (_, n): GivenRow => {
    const dice = random();
    return {
      type: dice < 0.5 ? "PAYMENT_LINK" : dice < 0.75 ? "RECEIVE" : "SEND",
      status:
        n % 9 === 0 ? ((["FAILED", "DETECTED", "ORPHANED"] as const)[(n / 9) % 3] ?? "FAILED") : "CONFIRMED",
      amountUnits: BigInt(Math.floor(random() * 2_000_000_000)) + 1n,
      description: n % 7 === 0 ? "=1+1; „Größe“" : `Order ${n}`,
      detectedAt: at(),
      linkId: dice < 0.5 ? linkId : null,
      blockNumber: BigInt(n),
    };
  });
  const batch = Array.from({ length: 50 }, (): GivenRow => {
    const detectedAt = "2025-06-15T12:00:00.000Z";
    return { type: "PAYMENT_LINK", amountUnits: 1_000_001n, txHash: BATCH_HASH, detectedAt, linkId };
  });
  // the last moments of the year: 2026 in Berlin, and still 2025
  const edges: GivenRow[] = [
    { amountUnits: 3n, detectedAt: "2025-12-31T22:59:59.000Z" },
    { amountUnits: 4n, detectedAt: "2025-12-31T23:00:00.000Z" },
  ];
  return [...made, ...batch, ...edges];
}

const confirmed = () => rows.filter(({ status }) => (status ?? "CONFIRMED") === "CONFIRMED");
const net = (given: readonly GivenRow[]) =>
  sum(given.map(({ type, amountUnits = 0n }) => (type === "SEND" ? -amountUnits : amountUnits)));
const units = (text: string) => BigInt(text.replace(".", "").replace(",", ""));
const YEAR = { profile: "books", timeZone: ZONE, metadataColumns: ["order", "shop", "none"] };

type Read = {
  header: string[];
  cell: (row: number, name: string) => string;
  count: number;
  columnSum: (name: string) => bigint;
};

function readTable([header = [], ...records]: string[][]): Read {
  const cell = (row: number, name: string) => records[row]?.[header.indexOf(name)] ?? "";
  const columnSum = (name: string) => sum(records.map((_, row) => units(cell(row, name))));
  return { header, cell, count: records.length, columnSum };
}

/** A semicolon file as a spreadsheet reads it; strict in the same way as the plain one. */
function parseExcelCsv(bytes: Uint8Array): string[][] {
  expect([...bytes.subarray(0, 3)]).toEqual([0xef, 0xbb, 0xbf]);
  const text = new TextDecoder().decode(bytes);
  const swapped = text.replace(/[;,]/g, (sign) => (sign === ";" ? "," : ";"));
  return parseCsv(swapped).map((record) =>
    record.map((value) => value.replace(/[;,]/g, (sign) => (sign === ";" ? "," : ";"))),
  );
}

describe("the books of a year", () => {
  test("csv: gross, fee and net of every confirmed movement, oldest first, each with an id of its own", async () => {
    const books = readTable(parseCsv((await exportAs(ann.client, { format: "csv", ...YEAR })).text));
    const expected = confirmed();
    expect(books.count).toBe(expected.length);
    expect(books.columnSum("Net")).toBe(net(expected));
    expect(books.columnSum("Gross") - books.columnSum("Fee")).toBe(net(expected));
    const ids = Array.from({ length: books.count }, (_, row) => books.cell(row, "Row ID"));
    expect(new Set(ids).size).toBe(expected.length);
    expect(ids.filter((id) => id.includes(BATCH_HASH)).length).toBe(50);
    expect(ids.filter((id) => /^base-sepolia:0x[0-9a-f]{64}:\d+:(in|out)$/.test(id)).length).toBe(ids.length);
    const dates = Array.from(
      { length: books.count },
      (_, row) => `${books.cell(row, "Date")} ${books.cell(row, "Time")}`,
    );
    expect(dates).toEqual(dates.toSorted());
    // local days: the last row is in the next year
    expect([books.cell(books.count - 2, "Date"), books.cell(books.count - 1, "Date")]).toEqual([
      "2025-12-31",
      "2026-01-01",
    ]);
    const paid = ids.findIndex((id) => id.includes(BATCH_HASH));
    expect(books.cell(paid, "Date")).toBe("2025-06-15");
    for (const [name, value] of Object.entries({
      ...{ Kind: "PAYMENT", Gross: "1.000001", Fee: "0.000000", Net: "1.000001", Reference: "INV-7" },
      ...{
        Customer: "kim@example.com",
        "Payment Link ID": linkId,
        Wallet: ann.walletAddress,
        "Time Zone": ZONE,
      },
      ...{ "metadata.order": "'=A1+1", "metadata.shop": "Köln; Süd", "metadata.none": "" },
    }))
      expect([name, books.cell(paid, name)]).toEqual([name, value]);
  });

  test("excel_csv, xlsx and json contain the same cells", async () => {
    const plain = parseCsv((await exportAs(ann.client, { format: "csv", ...YEAR })).text);
    const [header = []] = plain;
    const excel = parseExcelCsv((await exportAs(ann.client, { format: "excel_csv", ...YEAR })).bytes);
    const isAmount = header.map((name) => ["Gross", "Fee", "Net"].includes(name));
    const withPoint = (record: string[]) =>
      record.map((value, index) => (isAmount[index] ? value.replace(",", ".") : value));
    expect(excel.map(withPoint)).toEqual(plain);
    for (const record of excel.slice(1)) expect(record[header.indexOf("Net")]).toMatch(/^-?\d+,\d{6}$/);

    const file = await exportAs(ann.client, { format: "xlsx", ...YEAR });
    expect(file.headers.get("content-disposition")).toEndWith('.xlsx"');
    const [titles = [], ...cells] = readXlsx(file.bytes);
    expect(titles.map((title) => title && "text" in title && title.text)).toEqual(header);
    expect(cells.length).toBe(plain.length - 1);
    for (const [row, record] of plain.slice(1).entries())
      for (const [index, value] of record.entries()) {
        const found = cells[row]?.[index];
        const name = header[index];
        if (found === undefined) expect([name, value]).toEqual([name, ""]);
        else if ("text" in found) expect(found.text).toBe(value.replace(/^'/, ""));
        else if (name === "Date")
          expect([dayOfSerial(found.number), found.format]).toEqual([value, "yyyy-mm-dd"]);
        else expect(found.number).toBe(Number(value));
      }
    const netCells = cells.map((row) => row[header.indexOf("Net")]);
    const micro = netCells.map((one) => (one && "number" in one ? BigInt(Math.round(one.number * 1e6)) : 0n));
    expect(sum(micro)).toBe(net(confirmed()));

    const objects: Record<string, string>[] = JSON.parse(
      (await exportAs(ann.client, { format: "json", ...YEAR })).text,
    );
    expect(objects.length).toBe(plain.length - 1);
    expect(sum(objects.map((one) => units(one.net ?? "")))).toBe(net(confirmed()));
    expect(objects.map(({ rowId }) => rowId)).toEqual(plain.slice(1).map(([id]) => id));
  });

  test("the year's statement ends with the sum of the books, as PDF, CSV and spreadsheet", async () => {
    const period = { network: "base-sepolia", dateFrom: "2025-01-01", dateTo: "2025-12-31", timeZone: ZONE };
    const statement = async (format: string) =>
      fetchFile(ann.client, "/v1/statements", {
        method: "POST",
        body: JSON.stringify({ ...period, format }),
        headers: { "content-type": "application/json" },
      });
    const inYear = confirmed().filter(({ detectedAt }) => detectedAt !== "2025-12-31T23:00:00.000Z");
    const start = new Date("2024-12-31T23:00:00.000Z");
    expect(inYear.every(({ detectedAt }) => new Date(detectedAt ?? 0) >= start)).toBe(true);
    const closing = formatUnits(net(inYear));
    // the period is not closed while a transfer of it is unconfirmed
    expect(JSON.parse((await statement("json")).text).isFinal).toBe(false);
    await world.sql`update transactions set status = 'ORPHANED' where owner = owner_key(${ann.userId}) and status = 'DETECTED'`;
    const json = JSON.parse((await statement("json")).text);
    expect(json.isFinal).toBe(true);
    expect([json.closingBalance, json.movements.length]).toEqual([closing, inYear.length]);
    const csv = parseCsv((await statement("csv")).text);
    expect(csv.at(-2)?.[9]).toBe(closing);
    const sheet = readXlsx((await statement("xlsx")).bytes);
    expect(sheet.length).toBe(csv.length);
    expect(sheet.at(-2)?.[9]).toMatchObject({ number: Number(closing) });
    expect(parseExcelCsv((await statement("excel_csv")).bytes).at(-2)?.[9]).toBe(closing.replace(".", ","));
  });
});

test("the report for accounting names each payment's reference", async () => {
  const asked = { format: "pdf", profile: "accounting", types: ["PAYMENT_LINK"], dateFrom: "2025-06-15" };
  const { bytes } = await exportAs(
    ann.client,
    { ...asked, dateTo: "2025-06-15" },
    { accept: "application/pdf" },
  );
  const notes = pdfTexts(bytes).filter((text) => text.includes("reference INV-7"));
  expect(notes.length).toBeGreaterThanOrEqual(50);
});

describe("an export profile", () => {
  const save = (given: Record<string, unknown>) => ann.client.post("/v1/export-profiles", given);
  const run = async (id: string, asked: Record<string, unknown> = {}) =>
    fetchFile(ann.client, `/v1/export-profiles/${id}/export`, {
      method: "POST",
      body: JSON.stringify(asked),
      headers: { "content-type": "application/json" },
    });

  test("exports its columns in order, under their titles, for its period, and adds up", async () => {
    const columns = [
      { column: "net", title: "Betrag" },
      { column: "date", title: "Tag" },
      { column: "metadata.shop", title: "=Laden" },
      { column: "fiatValue", title: "Wert" },
    ];
    const made = await save({ name: "Monat", format: "csv", columns, timeZone: ZONE });
    expect([made.status, made.body.data.columns]).toEqual([201, columns]);
    const { id } = made.body.data;
    const [header, ...records] = parseCsv((await run(id)).text);
    expect(header).toEqual(["Betrag", "Tag", "'=Laden", "Wert"]);
    expect(sum(records.map(([amount = ""]) => units(amount)))).toBe(net(confirmed()));
    expect(records.some(([, , shop]) => shop === "Köln; Süd")).toBe(true);
    const inJune = parseCsv((await run(id, { dateFrom: "2025-06-01", dateTo: "2025-06-30" })).text).slice(1);
    expect(inJune.length).toBe(records.filter(([, day = ""]) => day.startsWith("2025-06")).length);
    // its days are those of its zone
    const last = parseCsv((await run(id, { dateFrom: "2026-01-01" })).text).slice(1);
    expect(last.map(([amount, day]) => [amount, day])).toEqual([["0.000004", "2026-01-01"]]);
    const changed = await ann.client.patch(`/v1/export-profiles/${id}`, { format: "json", name: "Jahr" });
    expect(changed.body.data).toMatchObject({ id, name: "Jahr", format: "json", columns });
    const objects = JSON.parse((await run(id)).text);
    expect(Object.keys(objects[0])).toEqual(columns.map(({ title }) => title));
    expect(sum(objects.map((one: Record<string, string>) => units(one.Betrag ?? "")))).toBe(net(confirmed()));
    await ann.client.patch(`/v1/export-profiles/${id}`, { format: "xlsx" });
    const [titles = [], ...cells] = readXlsx((await run(id)).bytes);
    expect(titles.map((title) => title && "text" in title && title.text)).toEqual(
      columns.map(({ title }) => title),
    );
    expect(cells.length).toBe(records.length);
    expect((await ann.client.delete(`/v1/export-profiles/${id}`)).status).toBe(200);
    expect((await run(id)).status).toBe(404);
  });

  test("is refused with columns that do not exist, a title twice, a name twice, and for another merchant", async () => {
    const column = { column: "net", title: "Amount" };
    for (const [given, field] of [
      [{ columns: [{ column: "nothing", title: "X" }] }, "columns.0.column"],
      [{ columns: [column, { column: "gross", title: "Amount" }] }, "columns"],
      [{ columns: [column], format: "datev" }, "columns"],
      [{ format: "pdf" }, "format"],
      [{ name: "Refused\u202e" }, "name"],
      [{ columns: [{ column: "net", title: "\u2067Amount" }] }, "columns.0.title"],
    ] as const) {
      const { status, body } = await save({ name: "Refused", format: "csv", ...given });
      expect([status, body.error.details.field]).toEqual([400, field]);
    }
    const made = await save({ name: "Taken", format: "csv" });
    expect((await save({ name: "Taken", format: "json" })).status).toBe(409);
    const other = await save({ name: "Other", format: "csv" });
    expect(
      (await ann.client.patch(`/v1/export-profiles/${other.body.data.id}`, { name: "Taken" })).status,
    ).toBe(409);
    const kim = await signUp(world.baseUrl);
    expect((await kim.client.get(`/v1/export-profiles/${made.body.data.id}`)).status).toBe(404);
    expect((await kim.client.delete(`/v1/export-profiles/${made.body.data.id}`)).status).toBe(404);
    expect((await kim.client.post("/v1/export-profiles", { name: "Taken", format: "csv" })).status).toBe(201);
    expect((await run(made.body.data.id)).status).toBe(200);
    for (const asked of [{ dateTo: "9999-12-31" }, { dateFrom: "0000-01-01" }])
      expect([asked, (await run(made.body.data.id, asked)).status]).toEqual([asked, 400]);
  });

  test("race: two changes of different fields are both kept", async () => {
    const { body } = await save({ name: "Shared", format: "csv" });
    const { id } = body.data;
    const columns = [{ column: "net", title: "Amount" }];
    const change = (fields: Record<string, unknown>) => ann.client.patch(`/v1/export-profiles/${id}`, fields);
    const waiting = async () =>
      (
        await world.sql`
          select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      ).length;
    const changes = await world.sql.begin(async (tx) => {
      await tx`select from export_profiles where id = ${id} for update`;
      const made = Promise.all([change({ name: "Renamed" }), change({ columns })]);
      await waitFor("both changes to wait", async () => (await waiting()) >= 2);
      return { made };
    });
    expect((await changes.made).map(({ status }) => status)).toEqual([200, 200]);
    const kept = await ann.client.get(`/v1/export-profiles/${id}`);
    expect(kept.body.data).toMatchObject({ name: "Renamed", columns });
  });

  test("saved with a title that is refused now is still listed", async () => {
    const columns = [{ column: "net", title: "Amount" }];
    const { body } = await save({ name: "Old", format: "csv", columns });
    const title = "Amount\u202e";
    await world.sql`
      update export_profiles
      set definition = jsonb_set(definition, '{columns,0,title}', ${JSON.stringify(title)}::text::jsonb)
      where id = ${body.data.id}`;
    const listed = await ann.client.get("/v1/export-profiles");
    expect(listed.status).toBe(200);
    expect(listed.body.data.profiles).toContainEqual(
      expect.objectContaining({ name: "Old", columns: [{ column: "net", title }] }),
    );
  });

  test("is limited to 50 per merchant, even with 51 concurrent requests, and to 60 columns", async () => {
    const kim = await signUp(world.baseUrl);
    const saveAll = (count: number) =>
      Promise.all(
        Array.from({ length: count }, async (_, n) => {
          const { status, body } = await kim.client.post("/v1/export-profiles", {
            name: `P${n}`,
            format: "csv",
          });
          return status === 201 ? "saved" : [status, body.error.details];
        }),
      );
    const outcomes = await saveAll(51);
    expect(outcomes.filter((one) => one === "saved").length).toBe(50);
    expect(outcomes.filter((one) => one !== "saved")).toEqual([[409, { field: "name", issue: "too_many" }]]);
    const columns = Array.from({ length: 61 }, (_, n) => ({ column: `metadata.k${n}`, title: `Key ${n}` }));
    const wide = await save({ name: "Too wide", format: "csv", columns });
    expect([wide.status, wide.body.error.details.field]).toEqual([400, "columns"]);
    expect((await save({ name: "Wide", format: "csv", columns: columns.slice(1) })).status).toBe(201);
  });
});
