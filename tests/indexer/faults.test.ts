import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { encodeFunctionData, parseAbi } from "viem";
import type { Hex } from "../../core/domain/networks.ts";
import { type FaultProxy, type Faults, startFaultProxy } from "../support/fault-proxy.ts";
import { assertInvariants } from "../support/invariants.ts";
import { seededRandom } from "../support/seeded-random.ts";
import {
  amounts,
  headOf,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeManyWallets,
  makeMerchant,
  makePayer,
  mine,
  NETWORK,
  openLab,
  pay,
  type RunningIndexer,
  send,
  settled,
  startIndexer,
  USDC,
  until,
} from "./lab.ts";
import { sendBatch } from "./lab-payments.ts";

setDefaultTimeout(300_000);
const MULTICALL: Hex = "0xca11bde05977b3631167028862be2a173976ca11";
const random = seededRandom("faults");
const freshUnits = amounts();
/** Blocks of the long run. */
const LONG_RUN_BLOCKS = Number(process.env.TEST_FAULT_BLOCKS ?? 600);
const LONG_RUN_TIMEOUT_MS = 120_000 + LONG_RUN_BLOCKS * 100;

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

/** The indexer keeps up with the chain only so far: faults must meet the head and, now and then, a range below it. */
async function waitUntilNear(behindBlocks: number): Promise<void> {
  await until(
    `the cursor is within ${behindBlocks} blocks`,
    async () => {
      const [row] = await lab.sql<
        { number: bigint }[]
      >`select number from cursors where network = ${NETWORK}`;
      return (await headOf(lab)).number - Number(row?.number ?? 0n) <= behindBlocks;
    },
    120_000,
  );
}

const SWARM: Faults = {
  ...{ lagBlocks: 2, lagging: 0.3, laggingIsSilent: true, emptiedLogs: 0.1, truncatedLogs: 0.1 },
  ...{
    duplicatedLogs: 0.1,
    rateLimited: 0.02,
    failing: 0.03,
    reset: 0.03,
    brokenJson: 0.02,
    wrongChain: 0.1,
  },
  ...{ hanging: 0.002, hangMs: 1_500 },
};

/** Wallets above this number make the bloom useless: logs are asked for and proven only when they touch a wallet. */
const MANY_WALLETS = 6_000;

test.each([0, MANY_WALLETS])(
  "two nodes with every fault at once over a long chain, %d other wallets: 0 missed, 0 doubled",
  async (others) => {
    await makeManyWallets(lab, others);
    const proxies = await Promise.all(
      [0, 1].map(() => startFaultProxy(lab.chain.rpcUrl, { random, faults: SWARM })),
    );
    const indexer = startIndexer(lab, { urls: proxies.map(({ url }) => url) });
    const links: string[] = [];
    const firstBlock = (await headOf(lab)).number;
    for (let round = 0; (await headOf(lab)).number - firstBlock < LONG_RUN_BLOCKS; round++) {
      for (let burst = 0; burst < 5; burst++) {
        links.push(...(await makeTraffic()));
        await mine(lab, Math.floor(random() * (round % 5 === 0 ? 60 : 10)));
      }
      await waitUntilNear(random() < 0.3 ? 200 : 5);
    }
    for (const proxy of proxies) proxy.heal();
    await settled(lab);
    await until(
      "every block was read a second time",
      async () => {
        const [row] =
          await lab.sql`select number - rechecked_number as behind from cursors where network = ${NETWORK}`;
        return row?.behind < 20n;
      },
      120_000,
    );
    const repaired = await lab.sql`select differences, repaired from reconciliations where differences > 0`;
    console.log(
      `faults: ${JSON.stringify(proxies.map((proxy) => proxy.counts()))}, second readings: ${JSON.stringify(repaired)}`,
    );
    await expectAllPaid(links);
    await indexer.stop();
    for (const proxy of proxies) await proxy.stop();
  },
  LONG_RUN_TIMEOUT_MS,
);
