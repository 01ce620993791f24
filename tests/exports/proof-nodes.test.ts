/** Exports with proofs and the nodes they are read from: how often, how fast, and what continues while a node does not respond. */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { newExportId } from "../../core/domain/ids.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { openLog } from "../../core/runtime/log.ts";
import { insertExport } from "../../db/exports/exports.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { openReader } from "../../db/postgres/replica.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { buildExport } from "../../worker/exports/build-export.ts";
import { waitFor } from "../links/payer-side.ts";
import { type Fault, type FaultProxy, type ProxiedCall, startFaultProxy } from "../rpc/fault-proxy.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { refundLab } from "../support/refund-lab.ts";
import { type SeededMerchant, seedMerchant } from "../support/seed.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type FaultyWorld, startFaultyWorld } from "../support/world.ts";
import { insertHistory } from "../transactions/history.ts";

setDefaultTimeout(120_000);

const RECEIPTS = "eth_getBlockReceipts";
const tooMany = (retryAfterS: number): Fault => ({
  kind: "status",
  status: 429,
  headers: { "retry-after": String(retryAfterS) },
});

describe("an export with proofs", () => {
  let db: TestDatabase;
  let sql: Sql;
  let node: TestChain;
  let proxy: FaultProxy;
  let chain: Chain;
  let merchant: SeededMerchant;
  beforeAll(async () => {
    [db, node] = await Promise.all([createTestDatabase(), startTestChain()]);
    sql = openDatabase(db.url, { name: "test", maxConnections: 8 });
    await callRpc(node.rpcUrl, "anvil_mine", ["0x100"]);
    proxy = startFaultProxy(node.rpcUrl);
    chain = openChain({ network: "base-sepolia", urls: [proxy.url], timeoutMs: 60_000 });
  });
  beforeEach(async () => {
    proxy.fault = () => undefined;
    proxy.delay = () => undefined;
    proxy.methods.length = 0;
    merchant = await seedMerchant(sql);
  });
  afterAll(async () => {
    chain?.close();
    await proxy?.stop();
    await sql?.end({ timeout: 5 });
    await Promise.all([db?.drop(), node?.stop()]);
  });

  /** Movements that no receipt of their block holds. */
  const unproven = (blocks: readonly number[]) =>
    insertHistory(
      sql,
      merchant.userId,
      blocks.map((block) => ({ blockNumber: BigInt(block), detectedAt: new Date(block * 1_000) })),
    );
  async function order(format: "json" | "csv"): Promise<string> {
    const exportId = newExportId();
    const shared = { filter: NO_FILTER, profile: "accounting", timeZone: "UTC" } as const;
    const request = format === "json" ? { ...shared, proof: true } : shared;
    await insertExport(sql, { id: exportId, userId: merchant.userId, format, requestId: null, request });
    return exportId;
  }
  const build = (exportId: string, stop = new AbortController().signal) =>
    buildExport(
      {
        ...{
          sql,
          reader: openReader(sql, { replica: undefined, waitMs: 0 }),
          log: openLog("test", "silent"),
        },
        // only the nodes for proofs are asked
        ...{ chains: new Map(), proofChains: new Map([["base-sepolia", chain]]), config: { chains: [] } },
        stop,
      },
      { exportId },
    );
  async function stateOf(id: string): Promise<{ status: string; attempts: number }> {
    const [row] = await sql<{ status: string; attempts: number }[]>`
      select status, attempts from exports where id = ${id}`;
    return row ?? { status: "gone", attempts: 0 };
  }
  const asksForReceipts = (calls: readonly ProxiedCall[]) => calls.some(({ method }) => method === RECEIPTS);
  /** Answers wait until it is called. */
  function holdNode(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    proxy.delay = () => promise;
    return resolve;
  }
  const nodeIsAsked = () => waitFor("the node to be asked", async () => proxy.methods.includes(RECEIPTS));

  test("reads a block that proves nothing three times for all of its movements, and pauses between blocks", async () => {
    await unproven([7, 9, 9, 9, 9, 12]);
    const askedAtMs: number[] = [];
    proxy.fault = (calls) => {
      if (asksForReceipts(calls)) askedAtMs.push(performance.now());
      return undefined;
    };
    const id = await order("json");
    await build(id);
    expect(await stateOf(id)).toEqual({ status: "READY", attempts: 1 });
    expect(askedAtMs).toHaveLength(9);
    const pausesMs = askedAtMs.slice(1).map((ms, index) => ms - (askedAtMs[index] ?? 0));
    // a slow machine makes them longer, never shorter
    expect(Math.min(...pausesMs)).toBeGreaterThan(90);
  });

  test("retries a node that answers 429 later, within the same attempt", async () => {
    await unproven([7]);
    let refusals = 0;
    proxy.fault = (calls) => {
      if (!asksForReceipts(calls) || refusals >= 4) return undefined;
      refusals += 1;
      return tooMany(0);
    };
    const id = await order("json");
    await build(id);
    expect([refusals, await stateOf(id)]).toEqual([4, { status: "READY", attempts: 1 }]);
  });

  test("does not hold up other exports while it waits for a node", async () => {
    await unproven([7]);
    const release = holdNode();
    const [slow, quick] = [await order("json"), await order("csv")];
    const proving = build(slow);
    try {
      await nodeIsAsked();
      await build(quick);
      expect([(await stateOf(slow)).status, (await stateOf(quick)).status]).toEqual(["RUNNING", "READY"]);
    } finally {
      release();
      await proving;
    }
    expect((await stateOf(slow)).status).toBe("READY");
  });

  test("of a process that stops begins again elsewhere with all its attempts", async () => {
    await unproven([7, 9, 12]);
    const release = holdNode();
    const stopping = new AbortController();
    const id = await order("json");
    const building = build(id, stopping.signal);
    try {
      await nodeIsAsked();
      stopping.abort("SIGTERM");
    } finally {
      release();
      await building;
    }
    expect(await stateOf(id)).toEqual({ status: "QUEUED", attempts: 0 });
    expect(await sql`select from graphile_worker.jobs where key = ${`build_export:${id}`}`).toHaveLength(1);
    expect(await sql`select from export_chunks where export_id = ${id}`).toHaveLength(0);
    await build(id);
    expect(await stateOf(id)).toEqual({ status: "READY", attempts: 1 });
  });

  test("is retried, and FAILED after three attempts, when its lock's connection is lost", async () => {
    await unproven([7]);
    const id = await order("json");
    for (const attempt of [1, 2, 3]) {
      proxy.methods.length = 0;
      const release = holdNode();
      const building = build(id).then(
        () => "ended",
        () => "to be retried",
      );
      await nodeIsAsked();
      const ended = await sql`
        select pg_terminate_backend(pid)
        from pg_locks
        where locktype = 'advisory'
          and database = (select oid from pg_database where datname = current_database())
          and classid::bigint = hashtext('export')::bigint & 4294967295
          and objid::bigint = hashtext(${id})::bigint & 4294967295`;
      expect(ended).toHaveLength(1);
      release();
      expect([await building, await stateOf(id)]).toEqual([
        attempt < 3 ? "to be retried" : "ended",
        { status: attempt < 3 ? "QUEUED" : "FAILED", attempts: attempt },
      ]);
    }
    expect(await sql`select from export_chunks where export_id = ${id}`).toHaveLength(0);
  });
});

describe("a node that refuses to prove", () => {
  let world: FaultyWorld;
  let merchant: Merchant;
  const { paidByX402 } = refundLab(() => ({ world, sql: world.sql, merchant }));
  beforeAll(async () => {
    world = await startFaultyWorld({ env: { RATE_LIMITS: "0", NODE_ENV: "test", PAY_WAIT_MS: "30000" } });
    merchant = await signUp(world.baseUrl);
  });
  afterAll(() => world?.stop());

  test("for a minute is still used by payments meanwhile", async () => {
    await paidByX402(1);
    const refused = Promise.withResolvers<void>();
    // the indexer names blocks by their hash
    const isProof = ({ method, params }: ProxiedCall) => method === RECEIPTS && String(params[0]).length < 66;
    world.proxy.fault = (calls) => {
      if (!calls.some(isProof)) return undefined;
      refused.resolve();
      return tooMany(60);
    };
    const body = { format: "json", proof: true };
    const asked = await merchant.client.post("/v1/transactions/export", body, { prefer: "respond-async" });
    expect(asked.status).toBe(202);
    await refused.promise;
    await paidByX402(2);
    const { data } = (await merchant.client.get(asked.headers.get("location") ?? "")).body;
    expect(data.export.status).toBe("RUNNING");
  });
});
