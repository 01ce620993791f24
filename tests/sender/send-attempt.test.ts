/** Bytes go from node to node only while the head that they were checked against is valid. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import pino from "pino";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import { insertRelay } from "../../db/relays/relays.ts";
import { HEAD_VALID_MS, sendAttempt } from "../../worker/sender/send-relay.ts";
import { type BooksLab, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";
import { randomAddress } from "../support/seed.ts";

const CHAIN_ID = "0x14a34";
/** Two nodes: the first that gets the bytes never answers. */
let nodes: ReturnType<typeof startNode>[];
let lab: BooksLab;
let chain: Chain;
let sends = 0;

type Call = { id: number; method: string };

function startNode() {
  return Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const given = (await request.json()) as Call | Call[];
      const answers = await Promise.all([given].flat().map(answer));
      return Response.json(Array.isArray(given) ? answers : answers[0]);
    },
  });
}

async function answer({ id, method }: Call) {
  if (method === "eth_sendRawTransaction") {
    sends += 1;
    if (sends === 1) await new Promise(() => {});
    return { jsonrpc: "2.0", id, result: randomHash() };
  }
  return { jsonrpc: "2.0", id, result: CHAIN_ID };
}

beforeAll(async () => {
  lab = await openBooks();
  nodes = [startNode(), startNode()];
});
beforeEach(() => {
  sends = 0;
  chain?.close();
  const urls = nodes.map(({ port }) => `http://127.0.0.1:${port}`);
  chain = openChain({ network: NETWORK, urls, timeoutMs: 10_000 });
});
afterAll(async () => {
  chain?.close();
  await Promise.all(nodes.map((node) => node.stop(true)));
  await lab?.stop();
});

/** The state of a new relay after its bytes were checked against a head that was requested this long ago, and sent. */
async function sendChecked(agoMs: number): Promise<string | undefined> {
  const [relayer, txHash] = [randomAddress(), randomHash()];
  const relayId = await lab.sql.begin(async (tx) => {
    await ensureLane(tx, { network: NETWORK, relayer }, 0n);
    return insertRelay(tx, {
      ...{ network: NETWORK, relayer, nonce: 0n, kind: "PAYMENTS", callTo: relayer, callData: "0x" },
      ...{ gasLimit: 1n, attempt: { txHash, raw: "0x01", maxFeePerGas: 1n, maxPriorityFeePerGas: 1n } },
    });
  });
  const deps = { asyncCommitSql: lab.sql, log: pino({ level: "silent" }) };
  const judgedAtMs = performance.now() - agoMs;
  await sendAttempt(deps, chain, { relayId, txHash, raw: "0x01", judgedAtMs });
  const [row] = await lab.sql<{ state: string }[]>`select state from relays where id = ${relayId}`;
  return row?.state;
}

test("behavior: a node that does not answer within a second is followed by the next one", async () => {
  expect(await sendChecked(0)).toBe("BROADCAST");
  expect(sends).toBe(2);
}, 30_000);

test("behavior: the next node does not get the bytes once the head is too old", async () => {
  expect(await sendChecked(HEAD_VALID_MS - 900)).toBe("SIGNED");
  expect(sends).toBe(1);
}, 30_000);

test("behavior: no node gets bytes that were checked against a head that is too old", async () => {
  expect(await sendChecked(HEAD_VALID_MS + 1)).toBe("SIGNED");
  expect(sends).toBe(0);
}, 30_000);
