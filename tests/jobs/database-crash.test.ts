/** Postgres crashes and comes back: no process ends, and payments and jobs go on as before. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type LocalPostgres, startPostgres } from "../../local/postgres/postgres.ts";
import { insist } from "../payments/campaign-load.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { assertInvariants } from "../support/invariants.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";
import { startMigratedPostgres } from "../support/migrated-cluster.ts";
import { makePayer, shapeA, signPayment } from "../support/payer.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { waitFor } from "../support/relay-lab.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { crashDatabase } from "../support/service-faults.ts";
import { type Service, startService } from "../support/world.ts";

const NAMES = ["api", "worker", "indexer"] as const;
const CRASHES = 2;
const CHANNELS = ["outcome", "block", "jobs:insert"];
const JOBS_WAITING = 16;
const AWAY_MS = 6_000;
const LOG_TAIL_CHARS = 10_000;
let dataDir: string;
let postgres: LocalPostgres;
let chain: TestChain;
let mailbox: TestMailbox;
let service: Service;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  dataDir = makeDatabaseFolder("test-crash-");
  postgres = await startMigratedPostgres({ dataDir, database: "crash" });
  [chain, mailbox] = await Promise.all([startTestChain(), startTestMailbox()]);
  service = await startService({ db: postgres, chain, smtp: mailbox });
  sql = openDatabase(postgres.url, { name: "test", maxConnections: 2 });
  merchant = await seedMerchant(sql);
}, 120_000);

afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await service?.stop();
  await Promise.all([postgres?.stop(), chain?.stop(), mailbox?.stop()]);
  rmSync(dataDir, { recursive: true, force: true });
});

/** Jobs run all the time, and not so many that they would be the load. */
async function keepJobsRunning(isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    await sql`
      select graphile_worker.add_job('housekeeping', payload => '{}'::json)
      from generate_series(1, ${JOBS_WAITING} - (select count(*)::int from graphile_worker._private_jobs))`.catch(
      () => undefined,
    );
    await Bun.sleep(50);
  }
}

async function pay(amountUnits: bigint): Promise<{ status: number; linkId: string }> {
  const linkId = await insist(() => seedLink(sql, merchant, { amountUnits }));
  const payer = makePayer();
  await fundUsdc(chain.rpcUrl, payer.address, amountUnits);
  const payment = await signPayment(payer, { to: merchant.address, amountUnits });
  return waitFor("a payment's answer", async () => {
    const response = await fetch(`${service.baseUrl}/v1/x402/${linkId}/pay`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(shapeA(payment)),
    });
    await response.text();
    return response.status !== 500 && { status: response.status, linkId };
  });
}

/** A payment from end to end, and every job done. */
async function expectService(pids: readonly number[], amountUnits: bigint): Promise<void> {
  const { status, linkId } = await pay(amountUnits);
  expect([200, 202, 409]).toContain(status);
  await waitFor(`${linkId} to be paid`, async () => {
    const [row] = await insist(() => sql`select status from payment_links where id = ${linkId}`);
    return row?.status === "PAID";
  });
  expect(NAMES.map((name) => service.pidOf(name))).toEqual([...pids]);
  expect(service.logOf("worker")).not.toContain('"fatal"');
  await waitFor("everybody to listen again", async () => {
    const rows = await insist(
      () => sql<{ query: string }[]>`
        select query from pg_stat_activity where query ilike 'listen %' and state = 'idle'`,
    );
    return CHANNELS.every((channel) => rows.some(({ query }) => query.includes(`"${channel}"`)));
  });
}

async function waitForJobs(): Promise<void> {
  const due = () =>
    insist(
      () => sql`
    select task.identifier, job.attempts, job.run_at, job.locked_at, job.locked_by, job.last_error
    from graphile_worker._private_jobs job
    join graphile_worker._private_tasks task on task.id = job.task_id
    where job.run_at <= now()`,
    );
  try {
    await waitFor("all jobs to be done", async () => (await due()).length === 0);
  } catch (error) {
    const left = JSON.stringify(await due());
    throw new Error(`${left}\n${service.logOf("worker").slice(-LOG_TAIL_CHARS)}`, { cause: error });
  }
}

test(`behavior: the same processes serve payments and jobs after ${CRASHES} crashes of Postgres`, async () => {
  const pids = NAMES.map((name) => service.pidOf(name));
  let isOver = false;
  const jobs = keepJobsRunning(() => isOver);
  for (let count = 0; count < CRASHES; count++) {
    await crashDatabase(sql);
    await expectService(pids, 1_000_000n + BigInt(count));
  }
  isOver = true;
  await jobs;
  await waitForJobs();
  await assertInvariants(sql, chain);
}, 120_000);

test(`behavior: the same processes go on after Postgres was unavailable for ${AWAY_MS / 1000} s`, async () => {
  const pids = NAMES.map((name) => service.pidOf(name));
  let isOver = false;
  const jobs = keepJobsRunning(() => isOver);
  const [indexerBefore, workerBefore] = [service.logOf("indexer"), service.logOf("worker")];
  await postgres.stop();
  await Bun.sleep(AWAY_MS);
  const { port } = postgres;
  postgres = await startPostgres({ dataDir, database: "crash" });
  expect(postgres.port).toBe(port);
  await expectService(pids, 2_000_000n);
  // one line for each kind of error: closed, refused, starting up
  const repeats = (log: string, before: string, line: string) =>
    log.slice(before.length).split(line).length - 1;
  expect(
    repeats(service.logOf("indexer"), indexerBefore, "could not determine the leader"),
  ).toBeLessThanOrEqual(4);
  expect(
    repeats(service.logOf("worker"), workerBefore, "job queue failed to start; retrying"),
  ).toBeLessThanOrEqual(4);
  isOver = true;
  await jobs;
  await waitForJobs();
  await assertInvariants(sql, chain);
}, 120_000);

test("behavior: processes started while Postgres is unavailable retry until it answers", async () => {
  await Promise.all([service.kill("worker"), service.kill("api")]);
  await postgres.stop();
  const starting = Promise.all([service.start("worker"), service.start("api")]);
  for (const name of ["worker", "api"] as const) {
    await waitFor(`${name} to notice`, async () =>
      service.logOf(name).includes("is unavailable, waiting for"),
    );
  }
  postgres = await startPostgres({ dataDir, database: "crash" });
  await starting;
  const pids = NAMES.map((name) => service.pidOf(name));
  await expectService(pids, 3_000_000n);
  expect(service.logOf("api")).not.toContain('"fatal"');
}, 120_000);
