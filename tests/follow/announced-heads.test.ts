/** While a websocket announces blocks, they are read from the announcements; when it goes silent, polling continues. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type CountingProxy, startCountingProxy } from "../support/counting-proxy.ts";
import {
  amounts,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeMerchant,
  makePayer,
  mine,
  openLab,
  pay,
  settled,
  startIndexer,
  until,
} from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { startProviderProxy } from "../support/provider-proxy.ts";

setDefaultTimeout(120_000);
const BLOCKS = 12;
const freshUnits = amounts();

let lab: Lab;
let merchant: Merchant;
let payer: `0x${string}`;
beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  payer = await makePayer(lab);
});
afterAll(() => lab.stop());

/** Blocks one after another, each read before the next one, every fourth with a payment. */
async function followBlocks(proxy: CountingProxy): Promise<Readonly<Record<string, number>>> {
  const indexer = startIndexer(lab, { urls: [proxy.url] });
  try {
    await mine(lab);
    await settled(lab);
    proxy.reset();
    for (let block = 0; block < BLOCKS; block++) {
      if (block % 4 === 0) await pay(lab, payer, merchant.address, freshUnits());
      else await mine(lab);
      await settled(lab);
    }
    return proxy.calls();
  } finally {
    await indexer.stop();
    await proxy.stop();
  }
}

test("announced blocks are read without requesting the head", async () => {
  const announced = await followBlocks(startCountingProxy(lab.chain.rpcUrl, { hasWebSocket: true }));
  expect(announced.head ?? 0).toBeLessThan(BLOCKS / 2);
  // their hashes prove their blooms, so that only the payments' blocks are asked for
  expect(announced.eth_getLogs ?? 0).toBeLessThan(BLOCKS / 2);
  const polled = await followBlocks(startCountingProxy(lab.chain.rpcUrl, { hasWebSocket: false }));
  expect(polled.head).toBeGreaterThanOrEqual(BLOCKS);
  await assertInvariants(lab.sql, lab.chain);
});

test("announcements without a header or a field of it, or of another branch, are checked with a node", async () => {
  const spoiled = [{ parentHash: undefined }, { gasUsed: undefined }, { parentHash: `0x${"ab".repeat(32)}` }];
  for (const spoil of spoiled) {
    const proxy = startCountingProxy(lab.chain.rpcUrl, {
      hasWebSocket: true,
      edit: ({ method }, answer) => (method === "newHeads" ? { ...(answer as object), ...spoil } : answer),
    });
    const calls = await followBlocks(proxy);
    expect(calls.head).toBeGreaterThan(BLOCKS / 2);
    expect(calls.eth_getLogs ?? 0).toBeLessThan(BLOCKS / 2);
  }
  await assertInvariants(lab.sql, lab.chain);
});

test("a websocket that accepts the subscription but stays silent delays a payment no longer than polling does", async () => {
  const proxy = startProviderProxy(lab.chain.rpcUrl, { socket: "silent" });
  const indexer = startIndexer(lab, { urls: [proxy.url] });
  await mine(lab);
  await settled(lab);
  for (let count = 0; count < 5; count++) {
    const units = freshUnits();
    const linkId = await makeLink(lab, merchant, { units });
    await pay(lab, payer, merchant.address, units);
    await until("it is paid", async () => (await linkOf(lab, linkId)).status === "PAID");
  }
  await indexer.stop();
  await proxy.stop();
});
