/** Health checks: each component is broken once and recovers. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { randomUUID } from "node:crypto";
import { CONTRACTS } from "../../core/domain/networks.ts";
import { holdLiveness } from "../../db/jobs/dead-workers.ts";
import { openDatabase } from "../../db/postgres/client.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";

let world: ApiWorld;
let client: Client;

beforeAll(async () => {
  world = await startApiWorld();
  client = openClient(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

const ISO = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

/** Asks again until the answer is as wanted; answers are remembered for a second. */
async function until(path: string, isWanted: (answer: Answer) => boolean): Promise<Answer> {
  const deadline = Date.now() + 45_000;
  for (;;) {
    const answer = await client.get(path);
    if (isWanted(answer) || Date.now() > deadline) return answer;
    await Bun.sleep(100);
  }
}
const untilCheck = (name: string, status: string) =>
  until("/health", ({ body }) => body?.checks?.[name]?.status === status);

test("GET /health reports every component in the documented shape", async () => {
  const { status, body } = await client.get("/health");
  expect(status).toBe(200);
  expect(body).toMatchObject({
    status: "healthy",
    timestamp: expect.stringMatching(ISO),
    service: "usdc-payment-service",
    version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    checks: {
      database: { status: "healthy" },
      "network-base-sepolia": { status: "healthy" },
      "smart-contract-base-sepolia": { status: "healthy" },
      "x402-relayer": { status: expect.any(String) },
    },
  });
});

test("GET /health/live answers with the uptime", async () => {
  const { status, body } = await client.get("/health/live");
  expect(status).toBe(200);
  expect(body).toEqual({
    status: "alive",
    timestamp: expect.stringMatching(ISO),
    uptime: expect.any(Number),
  });
  expect(body.uptime).toBeWithin(0, 600);
});

test("GET /health/ready answers ready", async () => {
  const { status, body } = await client.get("/health/ready");
  expect(status).toBe(200);
  expect(body).toEqual({ status: "ready", timestamp: expect.stringMatching(ISO) });
});

describe("x402-relayer", () => {
  test("is unhealthy without a running worker, without affecting other components", async () => {
    const { body } = await client.get("/health");
    expect(body.checks["x402-relayer"]).toMatchObject({ status: "unhealthy", error: "no worker is running" });
    expect(body.status).toBe("healthy");
  });

  test("is healthy while a worker holds its lock, unhealthy when low on gas, not ready without a key", async () => {
    const workerSql = openDatabase(world.databaseUrl, { name: "worker", maxConnections: 1 });
    const liveness = await holdLiveness(workerSql, "pool-of-this-test");
    const { rpcUrl } = world.chainOf("base-sepolia");
    const relayer = localAccount(0).address;
    expect((await untilCheck("x402-relayer", "healthy")).body.checks["x402-relayer"].details).toEqual({
      workers: 1,
      "keys-base-sepolia": 1,
      "funded-base-sepolia": 1,
    });
    await callRpc(rpcUrl, "anvil_setBalance", [relayer, "0x1"]);
    const low = await untilCheck("x402-relayer", "unhealthy");
    expect(low.body.checks["x402-relayer"].error).toContain("low on gas");
    expect(low.body.checks["x402-relayer"].details["funded-base-sepolia"]).toBe(0);
    expect((await client.get("/health/ready")).status).toBe(200);
    await callRpc(rpcUrl, "anvil_setBalance", [relayer, "0x56bc75e2d63100000"]);
    await untilCheck("x402-relayer", "healthy");

    // a worker whose NETWORKS lacks this network: its relayers are known from before, and nothing would be relayed
    const report = (network: string) => world.sql`
      insert into processes (id, kind, version, host, pid, details)
      values (${randomUUID()}, 'worker', '0.1.0', 'a', 1, ${world.sql.json({ relayers: [`${network} ${relayer}`] })})`;
    await report("base");
    const elsewhere = await untilCheck("x402-relayer", "unhealthy");
    expect(elsewhere.body.checks["x402-relayer"].error).toBe(
      "no worker relays on base-sepolia: its NETWORKS or relayer keys lack it",
    );
    await report("base-sepolia");
    await untilCheck("x402-relayer", "healthy");
    await world.sql`delete from processes`;

    const rows = await world.sql<{ address: string }[]>`delete from relayers returning address`;
    const missing = await until("/health/ready", ({ status }) => status === 500);
    expect(missing.status).toBe(500);
    expect(missing.body.error.details.unhealthy).toContain("x402-relayer");
    await world.sql`
      insert into relayers (network, address, next_nonce) values ('base-sepolia', ${rows[0]?.address ?? ""}, 0)`;
    expect((await until("/health/ready", ({ status }) => status === 200)).status).toBe(200);
    await liveness?.release();
    await workerSql.end({ timeout: 1 });
  }, 120_000);
});

test("the indexer is unhealthy before its start and if the oldest unread block is over 10 s old, whatever their number", async () => {
  expect((await client.get("/health")).body.checks["indexer-base-sepolia"].status).toBe("unhealthy");
  const { rpcUrl } = world.chainOf("base-sepolia");
  const head = Number(await callRpc(rpcUrl, "eth_blockNumber", []));
  await world.sql`
    insert into cursors (network, number, hash, head_number)
    values ('base-sepolia', ${head}, '0x00', ${head})`;
  const inStep = await untilCheck("indexer-base-sepolia", "healthy");
  expect(inStep.body.checks["indexer-base-sepolia"].details).toEqual({ lagBlocks: 0, indexedBlock: head });
  await callRpc(rpcUrl, "evm_mine", []);
  const header = await callRpc(rpcUrl, "eth_getBlockByNumber", ["latest", false]);
  const madeAtMs = Number((header as { timestamp: string }).timestamp) * 1000;
  await callRpc(rpcUrl, "anvil_mine", ["0x4f"]);
  const isBehind = ({ body }: Answer) => body?.checks?.["indexer-base-sepolia"]?.details?.lagBlocks === 80;
  expect((await until("/health", isBehind)).body.checks["indexer-base-sepolia"]).toMatchObject({
    status: "healthy",
    details: { lagBlocks: 80 },
  });
  const behind = await untilCheck("indexer-base-sepolia", "unhealthy");
  expect(Date.now() - madeAtMs).toBeGreaterThan(11_000);
  expect(behind.body.checks["indexer-base-sepolia"].error).toMatch(
    /80 blocks behind, the oldest is \d+ s old/,
  );
  expect(behind.body.checks["indexer-base-sepolia"].details.oldestUnreadSeconds).toBeGreaterThanOrEqual(11);
  expect(behind.body.status).toBe("healthy");
}, 120_000);

test("a contract without code is reported by name", async () => {
  const { rpcUrl } = world.chainOf("base-sepolia");
  const code = await callRpc(rpcUrl, "eth_getCode", [CONTRACTS.entryPointV06, "latest"]);
  await callRpc(rpcUrl, "anvil_setCode", [CONTRACTS.entryPointV06, "0x"]);
  const { body } = await untilCheck("smart-contract-base-sepolia", "unhealthy");
  expect(body.status).toBe("unhealthy");
  expect(body.checks["smart-contract-base-sepolia"].error).toContain("entryPoint");
  await callRpc(rpcUrl, "anvil_setCode", [CONTRACTS.entryPointV06, code]);
  expect((await untilCheck("smart-contract-base-sepolia", "healthy")).body.status).toBe("healthy");
});

test("a stopped chain is unhealthy and not ready, and recovers automatically", async () => {
  const { pid } = world.chainOf("base-sepolia");
  process.kill(pid, "SIGSTOP");
  try {
    // an answer that waited for the chain would not come before it goes on
    const down = await untilCheck("network-base-sepolia", "unhealthy");
    expect(down.status).toBe(200);
    expect(down.body.status).toBe("unhealthy");
    expect(down.body.checks["network-base-sepolia"]).toMatchObject({
      status: "unhealthy",
      error: expect.any(String),
    });
    expect(down.body.checks.database.status).toBe("healthy");
    expect(down.text).not.toMatch(/127\.0\.0\.1|localhost|http/);
    const notReady = await client.get("/health/ready");
    expect(notReady.status).toBe(500);
    expect(notReady.body.error).toMatchObject({
      code: "INTERNAL_ERROR",
      details: { unhealthy: expect.any(Array) },
    });
    expect((await client.get("/health/live")).status).toBe(200);
  } finally {
    process.kill(pid, "SIGCONT");
  }
  expect((await until("/health/ready", ({ status }) => status === 200)).status).toBe(200);
}, 120_000);

test("an unavailable database is unhealthy and not ready without naming it, and it recovers automatically", async () => {
  const name = new URL(world.databaseUrl).pathname.slice(1);
  const admin = openDatabase(new URL("/postgres", world.databaseUrl).href, {
    name: "admin",
    maxConnections: 1,
  });
  await admin`alter database ${admin(name)} allow_connections false`;
  await admin`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}`;
  try {
    const down = await untilCheck("database", "unhealthy");
    expect(down.status).toBe(200);
    expect(down.body).toMatchObject({ status: "unhealthy", checks: { database: { status: "unhealthy" } } });
    expect(down.text).not.toContain(name);
    expect((await client.get("/health/ready")).status).toBe(500);
    expect((await client.get("/health/live")).status).toBe(200);
  } finally {
    await admin`alter database ${admin(name)} allow_connections true`;
    await admin.end({ timeout: 1 });
  }
  expect((await until("/health/ready", ({ status }) => status === 200)).status).toBe(200);
  expect((await client.post("/v1/identity/register", { email: "back@example.com" })).status).toBe(201);
}, 120_000);

test("a database that accepts no writes, such as a demoted primary or one with a full disk, is unhealthy and not ready", async () => {
  const name = new URL(world.databaseUrl).pathname.slice(1);
  const admin = openDatabase(new URL("/postgres", world.databaseUrl).href, {
    name: "admin",
    maxConnections: 1,
  });
  const reconnect = () =>
    admin`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}`;
  await admin`alter database ${admin(name)} set default_transaction_read_only = on`;
  await reconnect();
  try {
    // the connections it just lost are an error of their own
    const down = await until(
      "/health",
      ({ body }) => body?.checks?.database?.error === "the database does not accept writes",
    );
    expect(down.body.checks.database).toMatchObject({
      status: "unhealthy",
      error: "the database does not accept writes",
    });
    expect(down.body.status).toBe("unhealthy");
    expect((await client.get("/health/ready")).status).toBe(500);
  } finally {
    await admin`alter database ${admin(name)} reset default_transaction_read_only`;
    await reconnect();
    await admin.end({ timeout: 1 });
  }
  expect((await until("/health/ready", ({ status }) => status === 200)).status).toBe(200);
}, 120_000);
