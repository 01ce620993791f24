/** Of several workers one monitors a network, until it stops coming back. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { randomUUID } from "node:crypto";
import { Registry } from "prom-client";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { releaseMonitorLease, takeMonitorLease } from "../../db/relays/monitor-leases.ts";
import { openRelayMetrics } from "../../worker/sender/metrics.ts";
import { openMonitorLease } from "../../worker/sender/monitor-lease.ts";
import type { RelayNetwork } from "../../worker/sender/relay-network.ts";
import { openLanes } from "../../worker/sender/relayer-lanes.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const NETWORK = "base-sepolia";
const leaseMs = 60_000;
const first = { network: NETWORK, holder: "first" } as const;
const second = { network: NETWORK, holder: "second" } as const;
let db: TestDatabase;
let sql: Sql;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 8 });
});
beforeEach(async () => {
  await sql`delete from monitor_leases`;
});
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

const take = (asked: typeof first | typeof second) => takeMonitorLease(sql, { ...asked, leaseMs });

test("a worker that extends its lease keeps it, and another waits", async () => {
  expect(await take(first)).toBe(true);
  expect(await take(second)).toBe(false);
  expect(await take(first)).toBe(true);
  expect(await takeMonitorLease(sql, { network: "base", holder: "second", leaseMs })).toBe(true);
});

test("an expired lease is taken by another worker, and is not taken back", async () => {
  await take(first);
  await sql`update monitor_leases set until = now()`;
  expect(await take(second)).toBe(true);
  expect(await take(first)).toBe(false);
});

test("a released lease is available to others immediately; only its holder releases it", async () => {
  await take(first);
  const elsewhere = { network: "base", leaseMs } as const;
  await takeMonitorLease(sql, { ...elsewhere, holder: "first" });
  await releaseMonitorLease(sql, second);
  expect(await take(second)).toBe(false);
  await releaseMonitorLease(sql, first);
  expect(await take(second)).toBe(true);
  expect(await takeMonitorLease(sql, { ...elsewhere, holder: "second" })).toBe(false);
});

test("of workers that request a free lease concurrently, one gets it", async () => {
  for (let round = 0; round < 20; round++) {
    await sql`update monitor_leases set until = now()`;
    const holders = Array.from({ length: 8 }, (_, n) => `${round}:${n}`);
    const taken = await Promise.all(
      holders.map((holder) => takeMonitorLease(sql, { network: NETWORK, holder, leaseMs })),
    );
    expect(taken.filter(Boolean)).toHaveLength(1);
  }
});

describe("a worker whose passes succeed", () => {
  let node: TestChain;
  let chain: Chain;
  let network: RelayNetwork;

  beforeAll(async () => {
    node = await startTestChain({});
    chain = openChain({ network: NETWORK, urls: [node.rpcUrl], timeoutMs: 5_000 });
    const lanes = openLanes(sql, chain, [], { maxFeeWei: 10n ** 12n, dailyFeeMaxWei: undefined });
    // nothing is in flight: a pass reads the market and uses nothing else
    network = {
      ...{ deps: { sql }, chain, lanes, metrics: openRelayMetrics(new Registry()), firstHeads: new Map() },
    } as unknown as RelayNetwork;
  });
  afterAll(async () => {
    chain?.close();
    await node?.stop();
  });

  const report = (id: string) => sql`
    insert into processes (id, kind, version, host, pid, details)
    values (${id}, 'worker', '1', 'here', 1, '{}'::jsonb)`;
  const readHolder = async () =>
    (await sql<{ holder: string }[]>`select holder from monitor_leases where until > now()`)[0]?.holder;

  test("passes the lease to another worker after a while: it may lack a signer, a key or a current node", async () => {
    const [one, other] = [randomUUID(), randomUUID()];
    await Promise.all([report(one), report(other)]);
    const lease = openMonitorLease(network, { holder: one, keptMs: 0 });
    await lease.pass();
    expect(await readHolder()).toBeUndefined();
    await lease.pass();
    expect(await readHolder()).toBeUndefined();
    const next = openMonitorLease(network, { holder: other });
    await next.pass();
    expect(await readHolder()).toBe(other);
    expect([lease.isHeld(), next.isHeld()]).toEqual([false, true]);
    await sql`delete from processes`;
  });

  test("a worker without it reports its view of the chain every few seconds, not at each pass", async () => {
    const { baseFeeWei } = network.metrics;
    const reported = async () => (await baseFeeWei.get()).values.length;
    await take(second);
    const lease = openMonitorLease(network, { holder: "third" });
    baseFeeWei.reset();
    await lease.pass();
    expect(await reported()).toBe(1);
    baseFeeWei.reset();
    await lease.pass();
    expect(await reported()).toBe(0);
  });

  test("keeps it for as long as there is no other", async () => {
    await report(randomUUID());
    const lease = openMonitorLease(network, { holder: "alone", keptMs: 0 });
    await lease.pass();
    await lease.pass();
    expect(await readHolder()).toBe("alone");
    await sql`delete from processes`;
  });
});
