import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { failExport, finishExport, insertChunk } from "../../db/exports/exports.ts";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { insertHistory } from "../transactions/history.ts";
import { exportAs as askExport, fetchFile } from "./ask.ts";
import { parseCsv, pdfPageCount, pdfTexts, sum, unitsOf } from "./read-files.ts";

let world: MerchantWorld;
let ann: Merchant;
let bob: Merchant;
const ROWS = 340;

beforeAll(async () => {
  // a file that a busy machine makes slowly is waited for, and not answered 202
  const env = { EXPORT_WAIT_MS: "60000" };
  world = await startMerchantWorld({ processes: ["api", "api-2", "worker"], env });
  [ann, bob] = await Promise.all([signUp(world.baseUrl), signUp(world.baseUrl)]);
  await insertHistory(
    world.sql,
    ann.userId,
    Array.from({ length: ROWS }, (_, n) => ({ amountUnits: BigInt(n + 1), description: `Order ${n}` })),
  );
}, 120_000);
afterEach(() => world?.startMissing());
afterAll(() => world?.stop());

const exportAs = (body: Record<string, unknown>, headers?: Record<string, string>, merchant = ann) =>
  askExport(merchant.client, body, headers);

describe("an asynchronous export", () => {
  async function waitReady(id: string, client = ann.client): Promise<void> {
    const deadline = Date.now() + 90_000;
    for (;;) {
      const { body, text } = await client.get(`/v1/transactions/exports/${id}`);
      if (body.data?.export.status === "READY") return;
      if (!body.data || Date.now() > deadline) throw new Error(`export ${id}: ${text}`);
      await Bun.sleep(50);
    }
  }

  test("answers 202 to Prefer: respond-async, then serves the file on every instance; pdf is a PDF", async () => {
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
  }, 120_000);

  test("describes its contents: the requested period and filters, and whether it is documents or a statement", async () => {
    const body = {
      ...{ format: "csv", profile: "accounting", timeZone: "America/New_York", types: ["SEND"] },
      ...{ networks: ["base-sepolia"], dateFrom: "2026-10-01", dateTo: "2026-10-31" },
      ...{ amountMin: 0.5, search: "a café" },
    };
    const { text } = await exportAs(body, { prefer: "respond-async" });
    const contents = {
      ...{ kind: "transactions", profile: "accounting", types: ["SEND"], statuses: [] },
      ...{ networks: ["base-sepolia"], timeZone: "UTC" },
      ...{ from: "2026-10-01T00:00:00.000Z", before: "2026-11-01T00:00:00.000Z" },
      ...{ amountMin: "0.500000", amountMax: null, search: "a café" },
    };
    expect(JSON.parse(text).data.export.contents).toEqual(contents);
    const statement = { network: "base-sepolia", format: "pdf", month: "2026-10", timeZone: "Europe/Berlin" };
    const asked = await ann.client.post("/v1/statements", statement, { prefer: "respond-async" });
    expect(asked.body.data.export.contents).toMatchObject({
      ...{ kind: "statement", networks: ["base-sepolia"], timeZone: "Europe/Berlin" },
      ...{ from: "2026-09-30T22:00:00.000Z", before: "2026-10-31T23:00:00.000Z" },
    });
  });

  test("has as readyAt the time its file was complete", async () => {
    const asked = await exportAs({ format: "csv" }, { prefer: "respond-async" });
    const { id } = JSON.parse(asked.text).data.export;
    await waitReady(id);
    const made = await world.sql.begin(async (tx) => {
      // a busy machine's first attempt may have been given up; locked, no worker begins another one
      const [{ attempts = 0 } = {}] = await tx<{ attempts: number }[]>`
        update exports set status = 'RUNNING', ready_at = null where id = ${id} returning attempts`;
      await tx`select pg_sleep(0.05)`;
      const [row] = await tx<{ at: Date }[]>`select clock_timestamp() as at`;
      await finishExport(tx, { id, attempts }, { byteSize: 1, rowsDone: 1 });
      return row?.at.getTime() ?? Number.NaN;
    });
    const { body } = await ann.client.get(`/v1/transactions/exports/${id}`);
    expect(Date.parse(body.data.export.readyAt)).toBeGreaterThanOrEqual(made);
  });

  test("an abandoned attempt adds nothing to the file of the next attempt", async () => {
    const asked = await exportAs({ format: "csv" }, { prefer: "respond-async" });
    const { id } = JSON.parse(asked.text).data.export;
    await waitReady(id);
    const whole = await fetchFile(ann.client, `/v1/transactions/exports/${id}/download`);
    // a busy machine's first attempt may have been given up
    const [{ attempts = 0 } = {}] = await world.sql<{ attempts: number }[]>`
      select attempts from exports where id = ${id}`;
    const earlier = { id, attempts: attempts - 1 };
    const bytes = Buffer.from("of another try");
    for (const position of [0, 1, 1_000]) await insertChunk(world.sql, earlier, { position, bytes });
    await world.sql`update exports set status = 'RUNNING' where id = ${id}`;
    await finishExport(world.sql, earlier, { byteSize: 1, rowsDone: 1 });
    expect(await failExport(world.sql, earlier, { error: "late", attemptsMax: 1 })).toBeUndefined();
    await finishExport(world.sql, { id, attempts }, { byteSize: whole.bytes.length, rowsDone: 1 });
    const again = await fetchFile(ann.client, `/v1/transactions/exports/${id}/download`);
    expect(Buffer.from(again.bytes).equals(Buffer.from(whole.bytes))).toBe(true);
  }, 120_000);

  test("error: the connection is cut where a chunk is damaged, and the API reports it and keeps serving", async () => {
    const asked = await exportAs({ format: "json" }, { prefer: "respond-async" });
    const { id } = JSON.parse(asked.text).data.export;
    await waitReady(id);
    const download = () => fetchFile(ann.client, `/v1/transactions/exports/${id}/download`);
    const whole = await download();
    const chunks = await world.sql<{ position: number; isZstd: boolean }[]>`
      select position, is_zstd from export_chunks where export_id = ${id} order by position`;
    expect(chunks.length).toBeGreaterThan(2);
    expect(chunks.every(({ isZstd }) => isZstd)).toBe(true);
    const flipBit = (position: number) => world.sql`
      update export_chunks
      set bytes = set_bit(bytes, 4000, 1 - get_bit(bytes, 4000))
      where export_id = ${id} and position = ${position}`;
    for (const { position } of chunks) {
      await flipBit(position);
      await expect(download()).rejects.toThrow("ECONNRESET");
      await flipBit(position);
    }
    // a client may repeat a request that got no answer at all
    const reports = () =>
      world
        .logOf("api")
        .split("\n")
        .filter((line) => line.includes("download failed") && line.includes(id));
    await waitFor("the API to report each", async () => reports().length >= chunks.length);
    expect((await download()).text).toBe(whole.text);
  }, 120_000);

  test("error: is 404 on every route for another user", async () => {
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

  test("error: is 409 before it is ready, 404 after its expiry, and then deleted", async () => {
    const { data } = JSON.parse((await exportAs({ format: "csv" }, { prefer: "respond-async" })).text);
    const { id } = data.export;
    await waitReady(id);
    await world.sql`update exports set status = 'QUEUED' where id = ${id}`;
    expect((await ann.client.get(`/v1/transactions/exports/${id}/download`)).status).toBe(409);
    await world.sql`update exports set status = 'READY', expires_at = now() where id = ${id}`;
    expect((await ann.client.get(`/v1/transactions/exports/${id}/download`)).status).toBe(404);
    await world.sql`select graphile_worker.add_job('housekeeping')`;
    const deadline = Date.now() + 90_000;
    for (;;) {
      const left = await world.sql`select 1 from export_chunks where export_id = ${id}`;
      if (left.length === 0) break;
      if (Date.now() > deadline) throw new Error("the file is still there");
      await Bun.sleep(50);
    }
  }, 120_000);

  test("is one of at most two concurrent exports of a user; all are made", async () => {
    const asked = await Promise.all(
      Array.from({ length: 6 }, () => exportAs({ format: "pdf" }, { prefer: "respond-async" })),
    );
    const ids: string[] = asked.map(({ text }) => JSON.parse(text).data.export.id);
    let most = 0;
    for (let isDone = false; !isDone; ) {
      const rows = await world.sql<{ status: string }[]>`select status from exports where id = any(${ids})`;
      most = Math.max(most, rows.filter(({ status }) => status === "RUNNING").length);
      isDone = rows.every(({ status }) => status === "READY");
      await Bun.sleep(3);
    }
    expect(most).toBeLessThanOrEqual(2);
  }, 120_000);

  test("is made once by a job that is delivered five times concurrently", async () => {
    const asked = await exportAs({ format: "pdf" }, { prefer: "respond-async" });
    const { id } = JSON.parse(asked.text).data.export;
    const payload = JSON.stringify({ exportId: id });
    for (let n = 0; n < 5; n++)
      await world.sql`select graphile_worker.add_job('build_export', payload => ${payload}::text::json)`;
    await waitReady(id);
    await waitFor("all deliveries to have ended", async () => {
      const [jobs] = await world.sql<{ count: number }[]>`
        select count(*)::int as count from graphile_worker.jobs where task_identifier = 'build_export'`;
      return jobs?.count === 0;
    });
    const [row] = await world.sql<{ attempts: number; byteSize: bigint; positions: number[] }[]>`
      select attempts, byte_size, (select array_agg(position order by position) from export_chunks where export_id = exports.id) as positions
      from exports
      where id = ${id}`;
    expect(row?.attempts).toBe(1);
    expect(row?.positions).toEqual(row?.positions.map((_, n) => n));
    const { bytes } = await fetchFile(ann.client, `/v1/transactions/exports/${id}/download`);
    expect(BigInt(bytes.length)).toBe(row?.byteSize ?? 0n);
  }, 120_000);

  test("is returned to each of eight concurrent waiting requests", async () => {
    const files = await Promise.all(
      Array.from({ length: 8 }, (_, n) => exportAs({ format: n % 2 === 0 ? "csv" : "json" })),
    );
    expect(files.map(({ status }) => status)).toEqual(Array(8).fill(200));
  }, 120_000);
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

  test("exports the newest 10,000, as its headers state", async () => {
    const file = await exportAs({ format: "csv" }, {}, rich);
    expect(file.headers.get("x-export-total")).toBe("10001");
    expect(file.headers.get("x-export-truncated")).toBe("true");
    const [, ...records] = parseCsv(file.text);
    expect(records.length).toBe(10_000);
    expect(unitsOf(records[0]?.[2])).toBe(10_001n);
    expect(unitsOf(records.at(-1)?.[2])).toBe(2n);
    const report = await exportAs({ format: "pdf" }, {}, rich);
    expect(report.text).toContain("the newest 10000 of 10001");
  }, 120_000);

  test("exactly 10,000 is not truncated", async () => {
    const file = await exportAs({ format: "json", amountMin: 0.000002 }, {}, rich);
    expect([file.headers.get("x-export-total"), file.headers.get("x-export-truncated")]).toEqual([
      "10000",
      "false",
    ]);
    expect(JSON.parse(file.text).length).toBe(10_000);
  }, 120_000);

  test("a file whose worker is killed is made again completely", async () => {
    let id = "";
    const statusOf = async () =>
      (
        await world.sql<{ status: string; rowsDone: number; attempts: number }[]>`
        select status, rows_done, attempts from exports where id = ${id}`
      )[0];
    const piecesOf = () =>
      world.sql<{ attempt: number }[]>`select attempt from export_chunks where export_id = ${id}`;
    await waitFor("a worker killed before the end of a file", async () => {
      const asked = await exportAs({ format: "pdf" }, { prefer: "respond-async" }, rich);
      id = JSON.parse(asked.text).data.export.id;
      // chunks are committed one by one, otherwise the event log would wait for the end of the file
      await waitFor("its first piece", async () => (await piecesOf()).length > 0);
      await world.kill("worker");
      const isHalfMade = (await statusOf())?.status === "RUNNING";
      await world.start("worker");
      return isHalfMade;
    });
    const deadline = Date.now() + 90_000;
    while ((await statusOf())?.status !== "READY") {
      if (Date.now() > deadline) throw new Error(`still ${JSON.stringify(await statusOf())}`);
      await Bun.sleep(50);
    }
    expect((await statusOf())?.attempts).toBe(2);
    expect(new Set((await piecesOf()).map(({ attempt }) => attempt))).toEqual(new Set([2]));
    const file = await fetchFile(rich.client, `/v1/transactions/exports/${id}/download`);
    const texts = pdfTexts(file.bytes);
    const amounts = texts
      .slice(texts.indexOf("Amount (USDC)"))
      .filter((text) => /^\d+\.\d{6}$/.test(text))
      .map(unitsOf);
    // the rows, and their total: all are confirmed
    const total = sum(Array.from({ length: 10_000 }, (_, n) => BigInt(n + 2)));
    expect(amounts.length).toBe(10_001);
    expect([sum(amounts.slice(0, 10_000)), ...amounts.slice(10_000)]).toEqual([total, total]);
  }, 120_000);
});
