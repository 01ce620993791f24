/** The loop of a network continues while draining a queue takes long. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { Registry } from "prom-client";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { openRelayMetrics } from "../../worker/sender/metrics.ts";
import { startNetworkLoop } from "../../worker/sender/network-loop.ts";
import type { RelayNetwork } from "../../worker/sender/relay-network.ts";
import { openLanes } from "../../worker/sender/relayer-lanes.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { setBackClock } from "../support/set-back-clock.ts";

let db: TestDatabase;
let sql: Sql;
let node: TestChain;
let chain: Chain;

beforeAll(async () => {
  [db, node] = await Promise.all([createTestDatabase(), startTestChain({})]);
  sql = openDatabase(db.url, { name: "test", maxConnections: 4 });
  chain = openChain({ network: "base-sepolia", urls: [node.rpcUrl], timeoutMs: 5_000 });
});
afterAll(async () => {
  chain?.close();
  await sql?.end({ timeout: 5 });
  await Promise.all([db?.drop(), node?.stop()]);
});

function openNetwork(): RelayNetwork {
  const lanes = openLanes(sql, chain, [], { maxFeeWei: 10n ** 12n, dailyFeeMaxWei: undefined });
  // nothing is in flight: a pass reads the market and uses nothing else
  return {
    ...{ deps: { sql, log: console }, chain, lanes, firstHeads: new Map() },
    metrics: openRelayMetrics(new Registry()),
  } as unknown as RelayNetwork;
}

test("a drain in progress is not started twice, and delays neither the monitor nor other queues", async () => {
  const network = openNetwork();
  const [over, thirdDrain] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const drains = { long: 0, short: 0 };
  const stop = await startNetworkLoop(sql, network, [
    {
      name: "long",
      drain: () => {
        drains.long += 1;
        return over.promise;
      },
    },
    {
      name: "short",
      drain: async () => {
        drains.short += 1;
        if (drains.short === 3) thirdDrain.resolve();
      },
    },
  ]);
  await thirdDrain.promise;
  expect(drains.long).toBe(1);
  over.resolve();
  await stop();
});

/** How long five rounds of the worker that monitors took while blocks came one after the other. */
async function measureRounds(isDrainedElsewhere: boolean): Promise<number> {
  const startedMs = performance.now();
  const last = Promise.withResolvers<void>();
  let rounds = 0;
  const drain = async () => {
    rounds += 1;
    if (rounds === 5) last.resolve();
  };
  const stop = await startNetworkLoop(sql, openNetwork(), [
    { name: "queue", drain, isDrainedElsewhere: () => isDrainedElsewhere },
  ]);
  const blocks = setInterval(() => void sql`select pg_notify('block', 'base-sepolia:1')`.execute(), 20);
  await last.promise;
  clearInterval(blocks);
  await stop();
  return performance.now() - startedMs;
}

test("a block does not wake the monitoring worker while another one drains: every half second is enough", async () => {
  expect(await measureRounds(true)).toBeGreaterThan(1_900);
});

test("a clock that is set back stops neither the loop nor its monitor", async () => {
  const [first, later] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let rounds = 0;
  const drain = async () => {
    rounds += 1;
    if (rounds === 1) first.resolve();
    if (rounds === 4) later.resolve();
  };
  const stop = await startNetworkLoop(sql, openNetwork(), [{ name: "queue", drain }]);
  await first.promise;
  const setForward = setBackClock();
  try {
    await later.promise;
  } finally {
    setForward();
    await stop();
  }
});
