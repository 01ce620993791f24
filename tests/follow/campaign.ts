/**
 * A long chain read through two nodes that lag, lie and fail in every way at once: nothing may be missed, nothing counted twice.
 * By hand: `bun tests/follow/campaign.ts 10000 6000 7` (blocks, other wallets, seed).
 */
import { encodeFunctionData, parseAbi } from "viem";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import { type FaultProxy, type Faults, startFaultProxy } from "../support/fault-proxy.ts";
import {
  amounts,
  headOf,
  type Lab,
  type Merchant,
  makeLink,
  makeManyWallets,
  makeMerchant,
  makePayer,
  mine,
  NETWORK,
  openLab,
  pay,
  send,
  settled,
  startIndexer,
  USDC,
  until,
} from "../support/indexer-lab.ts";
import { sendBatch } from "../support/indexer-lab-payments.ts";
import { assertInvariants } from "../support/invariants.ts";
import { seededRandom } from "../support/seeded-random.ts";

/** Shorter than a node hangs. */
const RPC_TIMEOUT_MS = 1_000;
const MERCHANTS = 5;
const BURSTS_A_ROUND = 5;
/** Every so many rounds gaps are long. */
const LONG_GAPS_EVERY = 5;
const NEAR_WITHIN_MS = 120_000;
const RECHECKED_WITHIN_MS = 120_000;
/** Blocks after the last payment: so many are read a second time without waiting for the pause between two such readings. */
const QUIET_BLOCKS = 80;

export const SWARM: Faults = {
  ...{ lagBlocks: 2, lagging: 0.3, laggingIsSilent: true, emptiedLogs: 0.1, truncatedLogs: 0.1 },
  ...{ duplicatedLogs: 0.1, rateLimited: 0.02, failing: 0.03, reset: 0.03, brokenJson: 0.02 },
  ...{ wrongChain: 0.1, hanging: 0.002, hangMs: 1_500 },
};

/** Payers' and merchants' side of a campaign. */
export type Traffic = {
  lab: Lab;
  random: () => number;
  merchants: readonly Merchant[];
  payer: Hex;
  freshUnits: () => bigint;
};

export async function openTraffic(lab: Lab, random: () => number): Promise<Traffic> {
  const merchants = await Promise.all(Array.from({ length: MERCHANTS }, () => makeMerchant(lab)));
  const payer = await makePayer(lab);
  const abi = parseAbi(["function approve(address,uint256)"]);
  await send(lab, payer, USDC, encodeFunctionData({ abi, args: [CONTRACTS.multicall3, 2n ** 200n] }));
  return { lab, random, merchants, payer, freshUnits: amounts() };
}

/** A few blocks with payments of every shape: alone, and several in one block and transaction, also of equal parties. */
export async function makeTraffic(traffic: Traffic): Promise<string[]> {
  const { lab, random, payer, freshUnits, merchants } = traffic;
  const merchant = merchants[Math.floor(random() * merchants.length)];
  if (!merchant) throw new Error("there is no merchant");
  const units = [freshUnits(), freshUnits()];
  const links = await Promise.all(units.map((amount) => makeLink(lab, merchant, { units: amount })));
  if (random() < 0.5) {
    for (const amount of units) await pay(lab, payer, merchant.address, amount);
    return links;
  }
  const abi = parseAbi(["function transferFrom(address,address,uint256)"]);
  const calls = [...units, 1n].map((amount) => ({
    target: USDC,
    callData: encodeFunctionData({ abi, args: [payer, merchant.address, amount] }),
  }));
  await sendBatch(lab, payer, calls);
  return links;
}

/** Throws unless every link is PAID and the books are the chain's. */
export async function assertAllPaid(lab: Lab, links: readonly string[]): Promise<void> {
  await assertInvariants(lab.sql, lab.chain);
  const unpaid = await lab.sql<{ id: string; status: string }[]>`
    select id, status from payment_links where id = any(${[...links]}::text[]) and status <> 'PAID'`;
  if (unpaid.length > 0) throw new Error(`not PAID: ${JSON.stringify(unpaid)}`);
}

export type FaultReport = {
  blocks: number;
  wallets: number;
  links: number;
  seconds: number;
  /** Of these: waiting for the indexer near the head and further below it, for the end, and comparing. */
  nearSeconds: number;
  farSeconds: number;
  endSeconds: number;
  checkSeconds: number;
  /** How often each fault struck, by node. */
  faults: Record<string, number>[];
  /** Transfers that only the second reading found. */
  repaired: number;
};

export type FaultCampaign = { blocks: number; wallets: number; random: () => number };

/** In a world of its own. */
export async function runFaultCampaign({ blocks, wallets, random }: FaultCampaign): Promise<FaultReport> {
  const lab = await openLab();
  try {
    return await runOn(await openTraffic(lab, random), { blocks, wallets });
  } finally {
    await lab.stop();
  }
}

async function runOn(
  traffic: Traffic,
  { blocks, wallets }: Pick<FaultCampaign, "blocks" | "wallets">,
): Promise<FaultReport> {
  const { lab, random } = traffic;
  const clock = openStopwatch();
  await makeManyWallets(lab, wallets);
  const proxies = await Promise.all(
    [0, 1].map(() => startFaultProxy(lab.chain.rpcUrl, { random, faults: SWARM })),
  );
  const indexer = startIndexer(lab, { urls: proxies.map(({ url }) => url), rpcTimeoutMs: RPC_TIMEOUT_MS });
  try {
    const links: string[] = [];
    const first = (await headOf(lab)).number;
    for (let round = 0; (await headOf(lab)).number - first < blocks; round++) {
      const gapMax = round % LONG_GAPS_EVERY === 0 ? 60 : 10;
      for (let burst = 0; burst < BURSTS_A_ROUND; burst++) {
        links.push(...(await makeTraffic(traffic)));
        await mine(lab, Math.floor(random() * gapMax));
      }
      // faults must meet the head and, now and then, a range below it
      if (random() < 0.3) await clock.time("far", () => waitUntilNear(lab, 200));
      else await clock.time("near", () => waitUntilNear(lab, 5));
    }
    await clock.time("end", () => waitForEnd(lab, proxies));
    await clock.time("check", () => assertAllPaid(lab, links));
    const [row] = await lab.sql<{ repaired: number }[]>`
      select coalesce(sum(repaired), 0)::int as repaired from reconciliations`;
    const { number } = await headOf(lab);
    return {
      ...{ blocks: number - first, wallets, links: links.length, seconds: clock.seconds("all") },
      ...{ nearSeconds: clock.seconds("near"), farSeconds: clock.seconds("far") },
      ...{ endSeconds: clock.seconds("end"), checkSeconds: clock.seconds("check") },
      ...{ faults: proxies.map((proxy) => proxy.counts()), repaired: row?.repaired ?? 0 },
    };
  } finally {
    await indexer.stop();
    await Promise.all(proxies.map((proxy) => proxy.stop()));
  }
}

async function waitForEnd(lab: Lab, proxies: readonly FaultProxy[]): Promise<void> {
  for (const proxy of proxies) proxy.heal();
  const { number: last } = await headOf(lab);
  await mine(lab, QUIET_BLOCKS);
  await settled(lab);
  await until(
    "every block was read a second time",
    async () => {
      const [row] = await lab.sql<{ number: bigint }[]>`
        select rechecked_number as number from cursors where network = ${NETWORK}`;
      return row !== undefined && Number(row.number) >= last;
    },
    RECHECKED_WITHIN_MS,
  );
}

async function waitUntilNear(lab: Lab, behindBlocks: number): Promise<void> {
  const { number: head } = await headOf(lab);
  await until(
    `the cursor is within ${behindBlocks} blocks`,
    async () => {
      const [row] = await lab.sql<
        { number: bigint }[]
      >`select number from cursors where network = ${NETWORK}`;
      return head - Number(row?.number ?? 0n) <= behindBlocks;
    },
    NEAR_WITHIN_MS,
  );
}

function openStopwatch() {
  const startedMs = performance.now();
  const spentMs = new Map<string, number>();
  return {
    async time(name: string, work: () => Promise<void>): Promise<void> {
      const beganMs = performance.now();
      await work();
      spentMs.set(name, (spentMs.get(name) ?? 0) + performance.now() - beganMs);
    },
    seconds(name: string): number {
      const ms = name === "all" ? performance.now() - startedMs : (spentMs.get(name) ?? 0);
      return Math.round(ms / 1000);
    },
  };
}

if (import.meta.main) {
  const [blocks, wallets, seed] = process.argv.slice(2);
  if (seed !== undefined) process.env.TEST_SEED = seed;
  const given = { blocks: Number(blocks ?? 10_000), wallets: Number(wallets ?? 6_000) };
  console.log(JSON.stringify(await runFaultCampaign({ ...given, random: seededRandom("fault campaign") })));
  process.exit(0);
}
