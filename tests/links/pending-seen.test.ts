/** "Payment seen" on a link's stream: from the logs of the block being built, and nothing else depends on them. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { topicOfAddress } from "../../core/chain/bloom.ts";
import { TRANSFER_TOPIC } from "../../core/chain/usdc.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { fieldOf } from "../../core/rpc/parse-answers.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { type FaultProxy, startFaultProxy } from "../rpc/fault-proxy.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { randomAddress, type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { type Service, startService } from "../support/world.ts";
import { waitFor } from "./payer-side.ts";

setDefaultTimeout(120_000);

let [db, chain, smtp]: [TestDatabase?, TestChain?, TestMailbox?] = [];
let sql: Sql;
let node: FaultProxy;
let service: Service;
let merchant: SeededMerchant;
let units = 4_000_000n;
/** What the node answers for the block being built, and how often it was asked. */
let pending: object[] = [];
let asked = 0;

beforeAll(async () => {
  [db, chain, smtp] = await Promise.all([createTestDatabase(), startTestChain(), startTestMailbox()]);
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  node = startFaultProxy(chain.rpcUrl);
  node.fault = ([call]) => {
    if (call?.method !== "eth_getLogs" || fieldOf(call.params[0], "fromBlock") !== "pending")
      return undefined;
    asked += 1;
    return { kind: "reply", reply: () => pending };
  };
  service = await startService({
    ...{ db, chain: { ...chain, rpcUrl: node.url }, smtp, processes: ["api", "worker", "indexer"] },
    env: { RATE_LIMITS: "0", NODE_ENV: "test" },
  });
  merchant = await seedMerchant(sql);
});
afterAll(async () => {
  await service?.stop();
  await node?.stop();
  await sql?.end();
  await Promise.all([db?.drop(), chain?.stop(), smtp?.stop()]);
});

function transferTo(to: Hex, amountUnits: bigint, block = "0x7fffffff"): object {
  return {
    address: NETWORKS["base-sepolia"].usdc.address,
    topics: [TRANSFER_TOPIC, topicOfAddress(randomAddress()), topicOfAddress(to)],
    data: `0x${amountUnits.toString(16).padStart(64, "0")}`,
    ...{ blockNumber: block, blockHash: `0x${"0".repeat(64)}`, logIndex: "0x0" },
    ...{ transactionHash: `0x${"ab".repeat(32)}`, transactionIndex: "0x0", removed: false },
  };
}

type Page = { events: () => Record<string, unknown>[]; close: () => void };

async function openPage(linkId: string): Promise<Page> {
  const leaving = new AbortController();
  const url = `${service.baseUrl}/api/v1/public/payment-links/${linkId}/events`;
  const response = await fetch(url, { signal: leaving.signal });
  let text = "";
  void (async () => {
    const decoder = new TextDecoder();
    for await (const piece of response.body ?? [])
      text += decoder.decode(piece as Uint8Array, { stream: true });
  })().catch(() => undefined);
  const events = () =>
    [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? "") as Record<string, unknown>);
  await waitFor("the first event", async () => events().length > 0);
  return { events, close: () => leaving.abort() };
}

async function makeLink(): Promise<{ id: string; amountUnits: bigint }> {
  units += 1n;
  return { id: await seedLink(sql, merchant, { amountUnits: units }), amountUnits: units };
}

test("a transfer in the block being built is seen immediately, changes no state, and is dropped if it is never mined", async () => {
  const link = await makeLink();
  // the node shows that it has pending logs
  pending = [transferTo(randomAddress(), 1n)];
  const page = await openPage(link.id);
  await waitFor("several polls", async () => asked > 4);
  expect(page.events().at(-1)?.seen).toBeUndefined();

  const startedMs = performance.now();
  pending = [transferTo(merchant.address, link.amountUnits)];
  await waitFor("the payment being seen", async () => page.events().at(-1)?.seen === true);
  const tookMs = performance.now() - startedMs;
  // no block ever has it: only the pending logs can have shown it
  console.log(`seen after ${Math.round(tookMs)} ms`);
  expect(page.events().at(-1)).toMatchObject({ status: "ACTIVE", seen: true, transactionHash: null });
  const [row] = await sql`select status, settled_by from payment_links where id = ${link.id}`;
  expect(row).toEqual({ status: "ACTIVE", settledBy: null });
  const [watch] = await sql`select watched_until > now() as is_watched from link_watches`;
  expect(watch).toEqual({ isWatched: true });

  pending = [];
  await waitFor("it being forgotten", async () => page.events().at(-1)?.seen === undefined);
  page.close();
});

test("another amount, or another recipient, is not seen", async () => {
  const link = await makeLink();
  pending = [
    transferTo(merchant.address, link.amountUnits + 1n),
    transferTo(randomAddress(), link.amountUnits),
  ];
  const page = await openPage(link.id);
  const before = asked;
  await waitFor("several polls", async () => asked > before + 4);
  expect(page.events().filter(({ seen }) => seen !== undefined)).toEqual([]);
  page.close();
});

test("a transfer of a block that the ledger has read is not seen; one of the next block is", async () => {
  const link = await makeLink();
  const read = await waitFor("the ledger", async () => {
    const [cursor] = await sql<{ number: bigint }[]>`select number from cursors`;
    return cursor?.number;
  });
  const numbered = (number: bigint) =>
    transferTo(merchant.address, link.amountUnits, `0x${number.toString(16)}`);
  pending = [numbered(read)];
  const page = await openPage(link.id);
  const before = asked;
  await waitFor("several polls", async () => asked > before + 4);
  expect(page.events().filter(({ seen }) => seen !== undefined)).toEqual([]);
  pending = [numbered(read + 1n)];
  await waitFor("the payment being seen", async () => page.events().at(-1)?.seen === true);
  pending = [];
  page.close();
});

test("without an open page no pending logs are requested", async () => {
  const link = await makeLink();
  const page = await openPage(link.id);
  const before = asked;
  await waitFor("a poll", async () => asked > before);
  page.close();
  // the server may learn of it a moment later
  let [last, sinceMs] = [asked, performance.now()];
  await waitFor("a second without a poll", async () => {
    if (asked !== last) [last, sinceMs] = [asked, performance.now()];
    return performance.now() - sinceMs > 1_000;
  });
});
