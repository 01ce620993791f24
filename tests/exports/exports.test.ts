import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Client, openClient } from "../api/http-client.ts";
import { type Merchant, signUp } from "../api/sign-up.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { type GivenRow, insertHistory } from "../transactions/history.ts";
import { parseCsv, pdfPageCount, pdfTexts, sum, unitsOf } from "./read-files.ts";

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

beforeAll(async () => {
  world = await startMerchantWorld({ processes: ["api", "api-2", "worker", "indexer"] });
  [ann, bob] = await Promise.all([signUp(world.baseUrl), signUp(world.baseUrl)]);
  await insertHistory(world.sql, ann.userId, ROWS);
}, 60_000);
afterAll(() => world?.stop());

const PATH = "/v1/transactions/export";
type File = { status: number; headers: Headers; bytes: Uint8Array; text: string };

function cookieOf(client: Client): string {
  return [...client.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
}

async function fetchFile(
  client: Client,
  path: string,
  init: RequestInit & { headers?: Record<string, string> } = {},
): Promise<File> {
  const headers = { cookie: cookieOf(client), ...init.headers };
  const response = await fetch(path.startsWith("http") ? path : `${client.baseUrl}${path}`, {
    ...init,
    headers,
  });
  const bytes = new Uint8Array(await response.arrayBuffer());
  return { status: response.status, headers: response.headers, bytes, text: new TextDecoder().decode(bytes) };
}

function exportAs(
  body: Record<string, unknown>,
  headers: Record<string, string> = {},
  merchant = ann,
): Promise<File> {
  return fetchFile(merchant.client, PATH, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json", ...headers },
  });
}

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

/** What a spreadsheet's user would have to undo. */
const neutral = (text: string) => (/^[=+\-@\t\r\n＝＋－＠]/.test(text) ? `'${text}` : text);

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

  test("csv: no cell begins like a formula", async () => {
    const records = parseCsv((await exportAs({ format: "csv", profile: "accounting" })).text);
    for (const cell of records.flat()) expect(cell).not.toMatch(/^[=+\-@\t\r\n＝＋－＠]/);
    expect(records.flat().filter((cell) => cell === "'=1+1").length).toBeGreaterThan(0);
  });

  test("json: the list's own objects, all of them, in its order", async () => {
    const file = await exportAs({ format: "json" });
    expect(file.headers.get("content-type")).toBe("application/json; charset=utf-8");
    const rows = JSON.parse(file.text);
    expect(rows).toEqual(await listAll());
    expect(sum(rows.map((row: { amount: string }) => unitsOf(row.amount)))).toBe(TOTAL);
  });

  test("pdf is a text report, a line a row, with totals that equal the sum of the rows", async () => {
    const file = await exportAs({ format: "pdf" });
    expect(file.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    expect(file.headers.get("content-disposition")).toEndWith('.txt"');
    const lines = file.text.split("\n");
    const rows = lines.filter((line) => /^\d{4}-\d\d-\d\dT/.test(line));
    expect(rows.length).toBe(340);
    expect(sum(rows.map((line) => unitsOf(line.split(/\s+/)[2])))).toBe(TOTAL);
    expect(unitsOf(/^All\s+340\s+(\S+)$/m.exec(file.text)?.[1])).toBe(TOTAL);
    expect(unitsOf(/^Total of 340 transactions: (\S+) USDC$/m.exec(file.text)?.[1])).toBe(TOTAL);
    const byKind = [...file.text.matchAll(/^(?:RECEIVE|SEND|PAYMENT_LINK)\s+[A-Z]+\s+\d+\s+(\S+)$/gm)];
    expect(byKind.length).toBe(9);
    expect(sum(byKind.map((match) => unitsOf(match[1])))).toBe(TOTAL);
  });

  test("pdf with Accept: application/pdf is a PDF whose amounts are the rows', the totals and their sum", async () => {
    const file = await exportAs({ format: "pdf" }, { accept: "application/pdf" });
    expect(file.headers.get("content-type")).toBe("application/pdf");
    expect(file.headers.get("content-disposition")).toEndWith('.pdf"');
    const texts = pdfTexts(file.bytes);
    const amounts = texts.filter((text) => /^\d+\.\d{6}$/.test(text)).map(unitsOf);
    // rows once, totals by kind once, "All" and "Total" once each
    expect(sum(amounts)).toBe(4n * TOTAL);
    expect(amounts.filter((units) => units === TOTAL).length).toBe(2);
    expect(amounts.length).toBe(340 + 9 + 2);
    const pages = pdfPageCount(file.bytes);
    for (let page = 1; page <= pages; page++) expect(texts).toContain(`Page ${page} of `);
    expect(texts.filter((text) => text === String(pages)).length).toBe(1);
    expect(texts).toContain("Transaction report");
    expect(texts.filter((text) => text === "Amount (USDC)").length).toBe(pages + 1);
  });

  test("an empty history is a file, in every format", async () => {
    expect(parseCsv((await exportAs({ format: "csv" }, {}, bob)).text)).toEqual([HEADER]);
    expect(JSON.parse((await exportAs({ format: "json" }, {}, bob)).text)).toEqual([]);
    expect((await exportAs({ format: "pdf" }, {}, bob)).text).toContain(
      "Total of 0 transactions: 0.000000 USDC",
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
  ])("%j chooses what the list chooses", async (filter, query) => {
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
    [{ format: "xlsx" }, "format"],
    [{ format: "CSV" }, "format"],
    [{ format: "csv", types: ["NOPE"] }, "types"],
    [{ format: "csv", types: 5 }, "types"],
    [{ format: "csv", dateFrom: "x" }, "dateFrom"],
    [{ format: "csv", amountMin: -1 }, "amountMin"],
    [{ format: "csv", timeZone: "Mars/Base" }, "timeZone"],
    [{ format: "csv", profile: "x" }, "profile"],
  ])("error: %j is 400", async (body, field) => {
    const { status, body: answer } = await ann.client.post(PATH, body);
    expect(status).toBe(400);
    expect(answer.error.details.field).toStartWith(field);
  });

  test("error: 401 without a session", async () => {
    const nobody = openClient(world.baseUrl);
    expect((await nobody.post(PATH, { format: "csv" })).status).toBe(401);
    expect((await nobody.get("/v1/transactions/exports")).status).toBe(401);
  });
});

describe("without waiting", () => {
  async function waitReady(id: string, client = ann.client): Promise<void> {
    const deadline = Date.now() + 20_000;
    for (;;) {
      const { body, text } = await client.get(`/v1/transactions/exports/${id}`);
      if (body.data?.export.status === "READY") return;
      if (!body.data || Date.now() > deadline) throw new Error(`export ${id}: ${text}`);
      await Bun.sleep(50);
    }
  }

  test("Prefer: respond-async answers 202, then the file is there, on every instance, and pdf is a PDF", async () => {
    const asked = await exportAs({ format: "pdf" }, { prefer: "respond-async" });
    expect(asked.status).toBe(202);
    expect(asked.headers.get("preference-applied")).toBe("respond-async");
    const { success, data, message } = JSON.parse(asked.text);
    expect(success).toBe(true);
    expect(typeof message).toBe("string");
    expect(data.export.id).toMatch(/^exp_/);
    expect(data.export).toMatchObject({
      format: "pdf",
      truncated: false,
    });
    expect(Date.parse(data.export.expiresAt) - Date.parse(data.export.createdAt)).toBe(7 * 86_400_000);
    await waitReady(data.export.id);
    const { body: one } = await ann.client.get(asked.headers.get("location") ?? "");
    expect(one.data.export).toMatchObject({
      status: "READY",
      progress: { rowsDone: 340, rowsTotal: 340 },
      total: 340,
    });
    const file = await fetchFile(ann.client, data.export.downloadUrl);
    const other = await fetchFile(
      ann.client,
      data.export.downloadUrl.replace(world.baseUrl, world.baseUrlOf("api-2")),
    );
    expect(pdfPageCount(file.bytes)).toBeGreaterThan(1);
    expect(Buffer.from(file.bytes).equals(Buffer.from(other.bytes))).toBe(true);
    expect(file.bytes.length).toBe(one.data.export.byteSize);
    const { body: all } = await ann.client.get("/v1/transactions/exports");
    expect(all.data.exports[0].id).toBe(data.export.id);
  }, 30_000);

  test("error: another user's export is 404 everywhere", async () => {
    const { data } = JSON.parse((await exportAs({ format: "csv" }, { prefer: "respond-async" })).text);
    await waitReady(data.export.id);
    for (const path of [
      `/v1/transactions/exports/${data.export.id}`,
      `/v1/transactions/exports/${data.export.id}/download`,
    ])
      expect((await bob.client.get(path)).status).toBe(404);
    const { body } = await bob.client.get("/v1/transactions/exports");
    expect(body.data.exports.map(({ id }: { id: string }) => id)).not.toContain(data.export.id);
    for (const id of ["exp_AAAAAAAAAAAAAAAAAAAAAA", "x", "%00"])
      expect((await ann.client.get(`/v1/transactions/exports/${id}`)).status).toBe(404);
  });

  test("error: a file that is not ready is 409, one that is over is 404 and then swept", async () => {
    const { data } = JSON.parse((await exportAs({ format: "csv" }, { prefer: "respond-async" })).text);
    const { id } = data.export;
    await waitReady(id);
    await world.sql`update exports set status = 'QUEUED' where id = ${id}`;
    expect((await ann.client.get(`/v1/transactions/exports/${id}/download`)).status).toBe(409);
    await world.sql`update exports set status = 'READY', expires_at = now() where id = ${id}`;
    expect((await ann.client.get(`/v1/transactions/exports/${id}/download`)).status).toBe(404);
    await world.sql`select graphile_worker.add_job('housekeeping')`;
    const deadline = Date.now() + 10_000;
    for (;;) {
      const left = await world.sql`select 1 from export_chunks where export_id = ${id}`;
      if (left.length === 0) break;
      if (Date.now() > deadline) throw new Error("the file is still there");
      await Bun.sleep(50);
    }
  }, 20_000);

  test("a user's exports are made two at a time, and all of them are made", async () => {
    const asked = await Promise.all(
      Array.from({ length: 6 }, () => exportAs({ format: "pdf" }, { prefer: "respond-async" })),
    );
    const ids: string[] = asked.map(({ text }) => JSON.parse(text).data.export.id);
    let most = 0;
    for (let isDone = false; !isDone; ) {
      const rows = await world.sql<{ status: string }[]>`select status from exports where id = any(${ids})`;
      most = Math.max(most, rows.filter(({ status }) => status === "RUNNING").length);
      isDone = rows.every(({ status }) => status === "READY");
    }
    expect(most).toBeLessThanOrEqual(2);
  }, 30_000);

  test("a job delivered five times at once makes one whole file", async () => {
    const asked = await exportAs({ format: "pdf" }, { prefer: "respond-async" });
    const { id } = JSON.parse(asked.text).data.export;
    const payload = JSON.stringify({ exportId: id });
    for (let n = 0; n < 5; n++)
      await world.sql`select graphile_worker.add_job('build_export', payload => ${payload}::text::json)`;
    await waitReady(id);
    await Bun.sleep(500);
    const [row] = await world.sql<{ attempts: number; byteSize: bigint; stored: bigint }[]>`
      select attempts, byte_size, (select sum(length(bytes)) from export_chunks where export_id = exports.id) as stored
      from exports
      where id = ${id}`;
    expect(row?.attempts).toBe(1);
    expect(row?.stored).toBe(row?.byteSize);
  }, 30_000);

  test("eight waiting requests at once all get their file", async () => {
    const files = await Promise.all(
      Array.from({ length: 8 }, (_, n) => exportAs({ format: n % 2 === 0 ? "csv" : "json" })),
    );
    expect(files.map(({ status }) => status)).toEqual(Array(8).fill(200));
  }, 30_000);
});

describe("more than 10,000 rows", () => {
  let rich: Merchant;
  beforeAll(async () => {
    rich = await signUp(world.baseUrl);
    for (let batch = 0; batch < 3; batch++)
      await insertHistory(
        world.sql,
        rich.userId,
        Array.from({ length: batch < 2 ? 5_000 : 1 }, (_, n) => ({
          amountUnits: BigInt(batch * 5_000 + n + 1),
          detectedAt: new Date(Date.UTC(2026, 0, 1) + (batch * 5_000 + n) * 1_000),
        })),
      );
  });

  test("the newest 10,000, and headers that say so", async () => {
    const file = await exportAs({ format: "csv" }, {}, rich);
    expect(file.headers.get("x-export-total")).toBe("10001");
    expect(file.headers.get("x-export-truncated")).toBe("true");
    const [, ...records] = parseCsv(file.text);
    expect(records.length).toBe(10_000);
    expect(unitsOf(records[0]?.[2])).toBe(10_001n);
    expect(unitsOf(records.at(-1)?.[2])).toBe(2n);
    const report = await exportAs({ format: "pdf" }, {}, rich);
    expect(report.text).toContain("the newest 10000 of 10001");
  }, 30_000);

  test("exactly 10,000 is not truncated", async () => {
    const file = await exportAs({ format: "json", amountMin: 0.000002 }, {}, rich);
    expect([file.headers.get("x-export-total"), file.headers.get("x-export-truncated")]).toEqual([
      "10000",
      "false",
    ]);
    expect(JSON.parse(file.text).length).toBe(10_000);
  }, 30_000);

  test("a worker killed in the middle of a file leaves it to be made again, whole", async () => {
    const asked = await exportAs({ format: "pdf" }, { prefer: "respond-async" }, rich);
    const { id } = JSON.parse(asked.text).data.export;
    const statusOf = async () =>
      (
        await world.sql<{ status: string; rowsDone: number; attempts: number }[]>`
        select status, rows_done, attempts from exports where id = ${id}`
      )[0];
    while ((await statusOf())?.status !== "RUNNING") await Bun.sleep(5);
    await Bun.sleep(300);
    await world.kill("worker");
    expect((await statusOf())?.status).toBe("RUNNING");
    await world.start("worker");
    const deadline = Date.now() + 30_000;
    while ((await statusOf())?.status !== "READY") {
      if (Date.now() > deadline) throw new Error(`still ${JSON.stringify(await statusOf())}`);
      await Bun.sleep(50);
    }
    expect((await statusOf())?.attempts).toBe(2);
    const file = await fetchFile(rich.client, `/v1/transactions/exports/${id}/download`);
    const amounts = pdfTexts(file.bytes)
      .filter((text) => /^\d+\.\d{6}$/.test(text))
      .map(unitsOf);
    expect(sum(amounts)).toBe(4n * sum(Array.from({ length: 10_000 }, (_, n) => BigInt(n + 2))));
  }, 60_000);
});
