/** A node of another chain: every process reports it soon after its start, once, whatever keeps failing because of it. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openChain } from "../../core/rpc/chain-client.ts";
import { waitFor } from "../links/payer-side.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { type ProcessName, type Service, startService } from "../support/world.ts";

const PROCESSES = ["api", "worker", "indexer", "indexer-2"] as const;
const FAILURES = /"msg":"(?:no node available yet|monitoring relays failed|the leader's term ended)/g;

let chainId = "0x1";
let asked = 0;
const node = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  async fetch(request) {
    if (request.method !== "POST") return new Response("", { status: 404 });
    const message: unknown = await request.json();
    asked += 1;
    const answer = ({ id, method }: { id: number; method: string }) => ({
      ...{ jsonrpc: "2.0", id },
      result: method === "eth_chainId" ? chainId : "0x10",
    });
    return Response.json(Array.isArray(message) ? message.map(answer) : answer(message as never));
  },
});
const rpcUrl = `http://127.0.0.1:${node.port}`;
let db: TestDatabase;
let mailbox: TestMailbox;
let service: Service | undefined;

beforeAll(async () => {
  [db, mailbox] = await Promise.all([createTestDatabase(), startTestMailbox()]);
}, 120_000);
afterAll(async () => {
  await service?.stop();
  await Promise.all([db?.drop(), mailbox?.stop(), node.stop(true)]);
});

const linesOf = (name: ProcessName, pattern: RegExp) => service?.logOf(name).match(pattern) ?? [];

test("is reported once by each process, also by one that asks no node yet, and what it makes fail does not flood the log", async () => {
  const started = await startService({
    ...{ db, chain: { rpcUrl, chainId: 84_532 }, smtp: mailbox, processes: PROCESSES },
    isStarted: () => false,
  });
  service = started;
  for (const name of PROCESSES) void started.start(name).catch(() => undefined);
  const report = `RPC_URL_BASE_SEPOLIA: base-sepolia#1 (127.0.0.1:${node.port}) serves chain 1, expected 84532`;
  const reported = (name: ProcessName) => started.logOf(name).split(report).length - 1;
  await waitFor("every process to report it", async () => PROCESSES.every((name) => reported(name) > 0));
  const askedBefore = asked;
  await waitFor("the indexer and the worker to try again", async () => asked > askedBefore + 12);
  expect(PROCESSES.map(reported)).toEqual([1, 1, 1, 1]);
  for (const name of PROCESSES) expect(linesOf(name, FAILURES).length).toBeLessThanOrEqual(1);
}, 120_000);

test("is reported again after it has served the right chain", async () => {
  const reports: string[] = [];
  const chain = openChain({
    ...{ network: "base-sepolia", urls: [rpcUrl], timeoutMs: 5_000 },
    onWrongChain: (message) => reports.push(message),
  });
  const [only] = chain.nodes;
  for (const [id, count] of [
    ["0x1", 1],
    ["0x1", 1],
    ["0x14a34", 1],
    ["0x1", 2],
  ] as const) {
    chainId = id;
    // as after a lost connection, behind which another node may answer
    if (only) only.health.chainIdProof = undefined;
    await chain.refreshHeads();
    expect(reports.length).toBe(count);
  }
  chain.close();
});
