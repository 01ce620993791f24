import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { encodeFunctionData, parseAbi } from "viem";
import type { Hex } from "../../core/domain/networks.ts";
import { type FaultProxy, type Faults, startFaultProxy } from "../support/fault-proxy.ts";
import { assertInvariants } from "../support/invariants.ts";
import { seededRandom } from "../support/seeded-random.ts";
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
  type RunningIndexer,
  send,
  settled,
  startIndexer,
  USDC,
} from "./lab.ts";
import { sendBatch } from "./lab-payments.ts";

setDefaultTimeout(300_000);
const MULTICALL: Hex = "0xca11bde05977b3631167028862be2a173976ca11";
const random = seededRandom("faults");
const freshUnits = amounts();
/** Blocks of the long run. */
const LONG_RUN_BLOCKS = Number(process.env.TEST_FAULT_BLOCKS ?? 10_000);

let lab: Lab;
let merchants: Merchant[];
let payer: Hex;
beforeAll(async () => {
  lab = await openLab();
  merchants = await Promise.all(Array.from({ length: 5 }, () => makeMerchant(lab)));
  payer = await makePayer(lab);
  const abi = parseAbi(["function approve(address,uint256)"]);
  await send(lab, payer, USDC, encodeFunctionData({ abi, args: [MULTICALL, 2n ** 200n] }));
});
afterAll(() => lab.stop());

const anyMerchant = () => merchants[Math.floor(random() * merchants.length)] ?? { userId: "", address: USDC };

/** A few blocks with payments of every shape: alone, and several in one block and transaction, also of equal parties. */
async function makeTraffic(): Promise<string[]> {
  const merchant = anyMerchant();
  const [a, b] = [freshUnits(), freshUnits()];
  const links = [await makeLink(lab, merchant, { units: a }), await makeLink(lab, merchant, { units: b })];
  if (random() < 0.5) {
    await pay(lab, payer, merchant.address, a);
    await pay(lab, payer, merchant.address, b);
    return links;
  }
  const abi = parseAbi(["function transferFrom(address,address,uint256)"]);
  const calls = [a, b, 1n].map((units) => ({
    target: USDC,
    callData: encodeFunctionData({ abi, args: [payer, merchant.address, units] }),
  }));
  await sendBatch(lab, payer, calls);
  return links;
}

async function expectAllPaid(links: readonly string[]): Promise<void> {
  await assertInvariants(lab.sql, lab.chain);
  const rows = await Promise.all(links.map((id) => linkOf(lab, id)));
  expect(rows.filter((link) => link.status !== "PAID")).toEqual([]);
}

const KINDS: Record<string, Faults> = {
  "a lagging head": { lagBlocks: 3, lagging: 1 },
  "flapping heads behind a balancer": { lagBlocks: 3, lagging: 0.5 },
  "flapping heads that answer [] for blocks they do not have": {
    ...{ lagBlocks: 3, lagging: 0.5, laggingIsSilent: true },
  },
  "emptied logs": { emptiedLogs: 0.3 },
  "truncated logs": { truncatedLogs: 0.3 },
  "duplicated logs": { duplicatedLogs: 0.5 },
  "429, 500 and broken bodies": { rateLimited: 0.1, failing: 0.1, brokenJson: 0.1 },
  "hanging requests": { hanging: 0.05, hangMs: 1_500 },
  "cut connections": { reset: 0.2 },
  "a node that is of another chain now and then": { wrongChain: 0.5, failing: 0.2 },
};

describe.each(Object.keys(KINDS))("%s", (name) => {
  let proxy: FaultProxy;
  let indexer: RunningIndexer;
  beforeAll(async () => {
    proxy = await startFaultProxy(lab.chain.rpcUrl, { random });
    indexer = startIndexer(lab, { urls: [proxy.url] });
    await settled(lab);
    proxy.set(KINDS[name] ?? {});
  });
  afterAll(async () => {
    await indexer.stop();
    await proxy.stop();
  });

  test("misses nothing and counts nothing twice", async () => {
    const links: string[] = [];
    for (let round = 0; round < 40; round++) {
      links.push(...(await makeTraffic()));
      await Bun.sleep(random() * 20);
    }
    // a lagging node tells of the last blocks only when further ones come
    await mine(lab, 4);
    await Bun.sleep(200);
    proxy.heal();
    await settled(lab);
    await expectAllPaid(links);
  });
});

test("two nodes with every fault at once, over a long chain: 0 missed, 0 doubled", async () => {
  const swarm: Faults = {
    ...{ lagBlocks: 2, lagging: 0.3, laggingIsSilent: true, emptiedLogs: 0.1, truncatedLogs: 0.1 },
    ...{
      duplicatedLogs: 0.1,
      rateLimited: 0.02,
      failing: 0.03,
      reset: 0.03,
      brokenJson: 0.02,
      wrongChain: 0.1,
    },
    ...{ hanging: 0.003, hangMs: 1_500 },
  };
  const proxies = await Promise.all(
    [0, 1].map(() => startFaultProxy(lab.chain.rpcUrl, { random, faults: swarm })),
  );
  const indexer = startIndexer(lab, { urls: proxies.map(({ url }) => url) });
  const links: string[] = [];
  for (let blocks = 0; blocks < LONG_RUN_BLOCKS; ) {
    links.push(...(await makeTraffic()));
    const empty = Math.floor(random() * 30);
    await mine(lab, empty);
    blocks += empty + 2;
  }
  for (const proxy of proxies) proxy.heal();
  await settled(lab);
  console.log(`faults of the long run: ${JSON.stringify(proxies.map((proxy) => proxy.counts()))}`);
  await expectAllPaid(links);
  await indexer.stop();
  for (const proxy of proxies) await proxy.stop();
});
