/**
 * Blocks below the cursor that are read once more, by a wallet's backfill or by a rebuild, through an address behind which some nodes still
 * answer from a branch that was replaced: nothing is booked, and nothing is taken to be read, until they follow.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { toQuantity } from "../../core/rpc/parse-answers.ts";
import { findUnjoinedWallets, joinWallets } from "../../db/ledger/watched-wallets.ts";
import { backfillWallets } from "../../indexer/audit/backfill-wallets.ts";
import { rebuildNetwork } from "../../indexer/audit/rebuild-network.ts";
import type { Term } from "../../indexer/leader-term.ts";
import {
  followAll,
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
  openTerm,
  pay,
  randomAddress,
} from "../support/indexer-lab.ts";
import { makeSender, reorganise, type Sender } from "../support/indexer-lab-reorgs.ts";
import { assertInvariants } from "../support/invariants.ts";
import { type StaleNode, startStaleNode } from "../support/stale-node.ts";
import { waitForReceipt } from "../support/wait-for-receipt.ts";

setDefaultTimeout(120_000);
const PAID_UNITS = 5_000_000n;
const REPLACED_UNITS = 7_000_000n;
/** Up to 5,000 wallets a rebuild reads their blocks alone; beyond, all blocks. */
const MANY_WALLETS = 5_001;
/** Blocks that such a rebuild reads at a time. */
const RANGE_BLOCKS = 200;

let lab: Lab;
let merchant: Merchant;
let sender: Sender;
let stale: StaleNode;
let balancer: ReturnType<typeof startBalancer>;

beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  sender = await makeSender(lab);
  stale = startStaleNode(lab.chain.rpcUrl, () => 0);
  balancer = startBalancer();
  await mine(lab, 4);
  await followAll(lab);
});
beforeEach(() => balancer.sendToStale(undefined));
afterAll(async () => {
  await balancer?.stop();
  await stale?.stop();
  await lab?.stop();
});

/** One address for the true node and the stale one, which gets the requests chosen by their text. */
function startBalancer() {
  let isForStale: ((body: string) => boolean) | undefined;
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 60,
    async fetch(request) {
      const body = await request.text();
      const url = isForStale?.(body) ? stale.url : lab.chain.rpcUrl;
      return fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body });
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    sendToStale(chosen: ((body: string) => boolean) | undefined) {
      isForStale = chosen;
    },
    stop: () => server.stop(true),
  };
}

const forLogs = (body: string) => body.includes("eth_getLogs");

/**
 * Pays this address in a block that takes the place of another, on which the stale node stays. That one pays `before`, if given. Both branches
 * have the same height.
 */
async function replaceBranch(to: Hex, before?: Hex): Promise<{ number: number; replacedHash: Hex }> {
  const { raw } = await sender.pay(to, PAID_UNITS);
  await reorganise(lab, 1, []);
  if (before) {
    const hash = await pay(lab, await makePayer(lab), before, REPLACED_UNITS);
    await waitForReceipt(lab.chain.rpcUrl, hash);
  } else await mine(lab);
  const { number, hash: replacedHash } = await headOf(lab);
  await mine(lab, 2);
  await stale.stay(1);
  await reorganise(lab, 3, [[raw, 0]]);
  return { number, replacedHash };
}

async function inTerm(work: (term: Term) => Promise<void>): Promise<void> {
  const term = await openTerm(lab, [balancer.url]);
  try {
    await work(term);
  } finally {
    term.close();
  }
}

test("the past of a new wallet is not taken from a branch that was replaced", async () => {
  const address = randomAddress();
  await replaceBranch(address);
  await followAll(lab);
  await makeMerchant(lab, address);
  await inTerm(async (term) => {
    const ids = (await findUnjoinedWallets(lab.sql, NETWORK, 10)).map(({ id }) => id);
    expect(await joinWallets(lab.sql, { network: NETWORK, epoch: term.epoch, ids })).toBe(1);
    balancer.sendToStale(forLogs);
    await expect(backfillWallets(term)).rejects.toThrow("which was read");
    balancer.sendToStale(undefined);
    expect(await backfillWallets(term)).toBe(1);
  });
  const [row] = await lab.sql<{ units: bigint }[]>`
    select amount_units as units from transfers where to_address = ${address} and status <> 'ORPHANED'`;
  expect(row?.units).toBe(PAID_UNITS);
  await assertInvariants(lab.sql, lab.chain);
});

for (const { name, isForStale } of [
  { name: "logs", isForStale: () => forLogs },
  {
    name: "the block of a payment",
    isForStale:
      ({ number, replacedHash }: { number: number; replacedHash: Hex }) =>
      (body: string) =>
        !forLogs(body) && (body.includes(`"${toQuantity(number)}"`) || body.includes(replacedHash)),
  },
])
  test(`a rebuild changes nothing while ${name} of a replaced branch is answered`, async () => {
    const linkId = await makeLink(lab, merchant, { units: PAID_UNITS });
    const replaced = await replaceBranch(merchant.address, merchant.address);
    await followAll(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
    await inTerm(async (term) => {
      balancer.sendToStale(isForStale(replaced));
      const before = stale.staleRequests();
      await expect(rebuildNetwork(term)).rejects.toThrow(/was read|no longer stored|does not follow/);
      expect(stale.staleRequests()).toBeGreaterThan(before);
      expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
      balancer.sendToStale(undefined);
      expect(await rebuildNetwork(term)).toMatchObject({ differences: [] });
    });
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
    await assertInvariants(lab.sql, lab.chain);
  });

describe("a rebuild of many wallets changes nothing", () => {
  beforeAll(() => makeManyWallets(lab, MANY_WALLETS));

  async function rebuild(): Promise<number> {
    let fromBlock = 0;
    await inTerm(async (term) => {
      const report = await rebuildNetwork(term);
      expect(report.differences).toEqual([]);
      fromBlock = report.fromBlock;
    });
    return fromBlock;
  }

  /** A link that is paid, and stays so, while the stale node gets these requests of a rebuild, which then fails. */
  async function refuseToRebuild(isForStale: (body: string) => boolean, reason: string): Promise<void> {
    const linkId = await makeLink(lab, merchant, { units: PAID_UNITS });
    await replaceBranch(merchant.address);
    await followAll(lab);
    balancer.sendToStale(isForStale);
    await expect(inTerm(async (term) => void (await rebuildNetwork(term)))).rejects.toThrow(reason);
    balancer.sendToStale(undefined);
    await rebuild();
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
  }

  test("while blocks of a replaced branch are answered", async () => {
    await refuseToRebuild(forLogs, "was read");
  });

  test("while one of several ranges is answered from a replaced branch", async () => {
    const lastOfRange = (await rebuild()) + RANGE_BLOCKS - 1;
    // the payment's block is the last but one of the range, and the branches end in the next one
    await mine(lab, lastOfRange - 2 - (await headOf(lab)).number);
    const isOfRange = (body: string) => forLogs(body) && body.includes(`"${toQuantity(lastOfRange)}"`);
    await refuseToRebuild(isOfRange, `block ${lastOfRange + 1} does not follow`);
  });
});
