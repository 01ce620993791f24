/** A database that is connected and does not answer, as after an unnoticed failover: payers are answered in time with what is known. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import type { LocalPostgres } from "../../local/postgres/postgres.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";
import { startMigratedPostgres } from "../support/migrated-cluster.ts";
import { makePayer, shapeA, signPayment } from "../support/payer.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { waitFor } from "../support/relay-lab.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { type Service, startService } from "../support/world.ts";

const AMOUNT = 4_000_000n;
/** Well before the server closes an idle connection. */
const ANSWER_TIMEOUT_MS = 30_000;
let dataDir: string;
let postgres: LocalPostgres;
let chain: TestChain;
let mailbox: TestMailbox;
let service: Service;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  dataDir = makeDatabaseFolder("test-silence-");
  postgres = await startMigratedPostgres({ dataDir, database: "silent", durable: false });
  [chain, mailbox] = await Promise.all([startTestChain(), startTestMailbox()]);
  const env = { PAY_WAIT_MS: "1000", RATE_LIMITS: "1" };
  service = await startService({ db: postgres, chain, smtp: mailbox, env });
  sql = openDatabase(postgres.url, { name: "test", maxConnections: 2 });
  merchant = await seedMerchant(sql);
}, 120_000);

afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await service?.stop();
  await Promise.all([postgres?.stop(), chain?.stop(), mailbox?.stop()]);
  rmSync(dataDir, { recursive: true, force: true });
});

/** Suspends every backend while `work` runs. */
async function inSilence(work: () => Promise<void>): Promise<void> {
  const [postmaster = ""] = readFileSync(join(dataDir, "cluster/data/postmaster.pid"), "utf8").split("\n");
  const pids = [Number(postmaster)];
  try {
    // first, so that from here on none begins, and one that ends keeps its pid
    process.kill(Number(postmaster), "SIGSTOP");
    const rows = await sql<{ pid: number }[]>`select pid from pg_stat_activity where pid <> pg_backend_pid()`;
    pids.push(...rows.map(({ pid }) => pid));
    for (const pid of pids) process.kill(pid, "SIGSTOP");
    await work();
  } finally {
    for (const pid of pids) process.kill(pid, "SIGCONT");
  }
}

async function newPayment() {
  const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
  const payer = makePayer();
  await fundUsdc(chain.rpcUrl, payer.address, AMOUNT);
  const body = shapeA(await signPayment(payer, { to: merchant.address, amountUnits: AMOUNT }));
  return { linkId, body };
}

async function pay({ linkId, body }: Awaited<ReturnType<typeof newPayment>>) {
  const response = await fetch(`${service.baseUrl}/v1/x402/${linkId}/pay`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

test("behavior: an accepted payment is answered 202 when its outcome can't be read, and settles", async () => {
  const order = await newPayment();
  await service.kill("worker");
  const paying = pay(order);
  await waitFor("the payment to be stored", async () => {
    const rows = await sql`select 1 from payments where link_id = ${order.linkId}`;
    return rows.length === 1;
  });
  await inSilence(async () => {
    expect(await paying).toMatchObject({ status: 202, body: { error: "SETTLEMENT_PENDING" } });
  });
  await service.start("worker");
  await waitFor("the link to be paid", async () => (await pay(order)).status === 409);
}, 120_000);

test("error: INTERNAL_ERROR for a payment sent to a silent database; nothing of it is stored, and it pays later", async () => {
  const order = await newPayment();
  await inSilence(async () => {
    const refused = { success: false, error: "INTERNAL_ERROR", retryable: true, txHash: null };
    expect(await pay(order)).toMatchObject({ status: 500, body: refused });
    const asked = await fetch(`${service.baseUrl}/v1/x402/${order.linkId}`, {
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    expect(asked.status).toBe(500);
  });
  expect(await sql`select 1 from payments where link_id = ${order.linkId}`).toHaveLength(0);
  const paid = await waitFor("the payment", async () => {
    const answer = await pay(order);
    return answer.status !== 500 && answer;
  });
  expect([200, 202]).toContain(paid.status);
}, 120_000);
