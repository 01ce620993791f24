/** Lists and exports on a streaming standby: never older than the caller's own writes, and answered by the primary when it is behind or away. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { inspectDatabase } from "../../db/postgres/inspect-database.ts";
import { openReader, type ReadSource } from "../../db/postgres/replica.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { exportAs } from "../exports/ask.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { waitFor } from "../support/relay-lab.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type ReplicatedPostgres, startReplicatedPostgres } from "../support/standby.ts";
import { startTcpRelay, type TcpRelay } from "../support/tcp-relay.ts";
import { type Service, startService } from "../support/world.ts";
import { insertHistory } from "../transactions/history.ts";

const LINKS = 20;
const EXPORTS = 3;

let folder: string;
let pair: ReplicatedPostgres;
let chain: TestChain;
let service: Service;
/** The way to the standby, which can be cut. */
let way: TcpRelay;
let sql: Sql;
let standby: Sql;
let merchant: Merchant;

beforeAll(async () => {
  folder = makeDatabaseFolder("test-replica-");
  pair = await startReplicatedPostgres({ folder, database: "replica" });
  way = await startTcpRelay({ targetPort: Number(new URL(pair.standbyUrl).port) });
  const readUrl = new URL(pair.standbyUrl);
  readUrl.port = String(way.port);
  chain = await startTestChain();
  sql = openDatabase(pair.url, { name: "test", maxConnections: 4 });
  standby = openDatabase(pair.standbyUrl, { name: "test standby", maxConnections: 2 });
  const relayer = localAccount(0).address.toLowerCase();
  await sql`insert into relayers (network, address, next_nonce) values ('base-sepolia', ${relayer}, 0)`;
  service = await startService({
    ...{ db: pair, chain, smtp: { smtpUrl: "smtp://127.0.0.1:1" }, processes: ["api", "worker"] },
    hasMetrics: true,
    env: {
      ...{ NODE_ENV: "test", RATE_LIMITS: "0", EXPORT_WAIT_MS: "60000" },
      DATABASE_READ_URL: readUrl.href,
    },
  });
  merchant = await signUp(service.baseUrl);
}, 180_000);

afterAll(async () => {
  await Promise.all([sql?.end({ timeout: 1 }), standby?.end({ timeout: 1 })]);
  await service?.stop();
  await way?.stop();
  await Promise.all([pair?.stop(), chain?.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

async function readsBy(source: ReadSource, process: "api" | "worker" = "api"): Promise<number> {
  const text = await (await fetch(`http://${service.metricsOf(process)}/metrics`)).text();
  return Number(text.match(new RegExp(`database_reads_total\\{source="${source}".*\\} (\\d+)`))?.[1] ?? 0);
}

async function newLink(): Promise<string> {
  const { status, body } = await merchant.client.post("/v1/payment-links", { amount: 1, description: "d" });
  expect(status).toBe(201);
  return body.id;
}

async function newestLink(): Promise<string> {
  const { status, body } = await merchant.client.get("/v1/payment-links?limit=1");
  expect(status).toBe(200);
  return body.links[0].id;
}

/** The standby receives, and does not apply. */
const pauseReplay = () => standby`select pg_wal_replay_pause()`;
const resumeReplay = () => standby`select pg_wal_replay_resume()`;

test("a list is read from the replica, and contains what its caller has just written", async () => {
  await pair.waitForStandby();
  const before = await readsBy("replica");
  await waitFor("a list from the replica", async () => {
    await merchant.client.get("/v1/transactions");
    return (await readsBy("replica")) > before;
  });
  for (let n = 0; n < LINKS; n++) {
    const link = await newLink();
    expect(await newestLink()).toBe(link);
  }
});

test("while the replica is behind the primary answers, and what was written is in the list", async () => {
  await pauseReplay();
  try {
    const before = await readsBy("behind");
    const links: string[] = [];
    for (let n = 0; n < 3; n++) {
      links.push(await newLink());
      expect(await newestLink()).toBe(links[n] ?? "");
    }
    expect((await readsBy("behind")) - before).toBe(3);
  } finally {
    await resumeReplay();
  }
  await pair.waitForStandby();
  const before = await readsBy("replica");
  await waitFor("the replica to answer again", async () => {
    await newestLink();
    return (await readsBy("replica")) > before;
  });
});

test("an unavailable replica fails no list, and answers again when it is back", async () => {
  way.cut();
  const before = await readsBy("unavailable");
  for (let n = 0; n < 5; n++) expect(await newestLink()).toBeString();
  expect((await readsBy("unavailable")) - before).toBe(5);
  way.open(Number(new URL(pair.standbyUrl).port));
  const answered = await readsBy("replica");
  await waitFor("the replica to answer again", async () => {
    await newestLink();
    return (await readsBy("replica")) > answered;
  });
});

describe("an export", () => {
  /** Adds a row to the history, requests an export of all of it, and expects the row in the file. */
  async function expectExportWithNewRow(): Promise<void> {
    const txHash: Hex = `0x${randomBytes(32).toString("hex")}`;
    await insertHistory(sql, merchant.userId, [{ txHash }]);
    const file = await exportAs(merchant.client, { format: "csv" });
    expect(file.status).toBe(200);
    expect(file.text).toContain(txHash);
  }

  /** When the worker's connections to the standby last did something. */
  async function usedAt(): Promise<number> {
    const [row] = await standby<{ usedAt: Date | null }[]>`
      select max(state_change) as used_at from pg_stat_activity where application_name = 'worker reads'`;
    return row?.usedAt?.getTime() ?? 0;
  }

  test("is read by the worker from the replica, and contains what was written just before", async () => {
    await pair.waitForStandby();
    const [reads, before] = [await readsBy("replica", "worker"), await usedAt()];
    for (let n = 0; n < EXPORTS; n++) await expectExportWithNewRow();
    await waitFor("an export from the replica", async () => {
      await expectExportWithNewRow();
      return (await readsBy("replica", "worker")) > reads;
    });
    expect(await usedAt()).toBeGreaterThan(before);
  });

  test("is read from the primary while the replica is behind", async () => {
    await pauseReplay();
    try {
      const before = await readsBy("behind", "worker");
      await expectExportWithNewRow();
      expect((await readsBy("behind", "worker")) - before).toBe(1);
    } finally {
      await resumeReplay();
    }
    await pair.waitForStandby();
  });

  test("is read from the primary while the replica is unavailable", async () => {
    way.cut();
    try {
      const before = await readsBy("unavailable", "worker");
      await expectExportWithNewRow();
      expect((await readsBy("unavailable", "worker")) - before).toBe(1);
    } finally {
      way.open(Number(new URL(pair.standbyUrl).port));
    }
  });
});

describe("a read that the replica's replay cancels", () => {
  test("is retried once on the primary, from the start", async () => {
    const sources: ReadSource[] = [];
    const reader = openReader(sql, {
      replica: standby,
      waitMs: 30_000,
      onRead: (source) => sources.push(source),
    });
    await standby`alter system set max_standby_streaming_delay = 0`;
    await standby`select pg_reload_conf()`;
    await sql`create table conflicts (id int primary key)`;
    await sql`insert into conflicts select generate_series(1, 100)`;
    await pair.waitForStandby();
    const servers: boolean[] = [];
    const running = async () => {
      const [row] = await standby<{ count: number }[]>`
        select count(*)::int as count from pg_stat_activity where query = 'select pg_sleep(40)' and state = 'active'`;
      return row?.count;
    };
    const found = await reader.read(async (tx) => {
      const [server] = await tx<{ isStandby: boolean }[]>`select pg_is_in_recovery() as is_standby`;
      servers.push(server?.isStandby ?? false);
      const [first] = await tx<{ count: number }[]>`select count(*)::int as count from conflicts`;
      if (server?.isStandby) {
        const sleeping = tx`select pg_sleep(40)`.execute();
        sleeping.catch(() => undefined);
        await waitFor("the query to run", async () => (await running()) === 1);
        // its replay has to take a lock that this transaction holds
        await sql`truncate conflicts`;
        await sql`insert into conflicts select generate_series(1, 7)`;
        await sleeping;
      }
      return first?.count;
    });
    expect(servers).toEqual([true, false]);
    expect(sources).toEqual(["conflict"]);
    expect(found).toBe(7);
  }, 120_000);

  test("is not retried after an error that is not the replica's fault", async () => {
    const reader = openReader(sql, { replica: standby, waitMs: 30_000 });
    await pair.waitForStandby();
    let runs = 0;
    const failing = reader.read(async (tx) => {
      runs += 1;
      await tx`select 1 / 0`;
    });
    await expect(failing).rejects.toThrow("division by zero");
    expect(runs).toBe(1);
  });
});

test("a standby without a synchronous one causes a warning at startup, a synchronous one none", async () => {
  expect((await inspectDatabase(sql, pair.url)).risks).toEqual([
    expect.stringContaining("there are standbys but none is synchronous"),
  ]);
  expect(service.logOf("api")).toContain("there are standbys but none is synchronous");
  await sql`alter system set synchronous_standby_names = '*'`;
  await sql`select pg_reload_conf()`;
  await waitFor("the setting", async () => (await inspectDatabase(sql, pair.url)).risks.length === 0);
  await sql`alter system reset synchronous_standby_names`;
  await sql`select pg_reload_conf()`;
});
