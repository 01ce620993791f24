/** What a leader does not read on: a chain without its cursor's block, and a network that another leader follows. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { openLog } from "../../core/runtime/log.ts";
import { rebuildNetwork } from "../../indexer/audit/rebuild-network.ts";
import { catchUpSparse } from "../../indexer/follow/catch-up-sparse.ts";
import { followChain } from "../../indexer/follow/follow-chain.ts";
import { TooDeepError, undoReorg } from "../../indexer/follow/undo-reorg.ts";
import { FencedError, type Term } from "../../indexer/leader-term.ts";
import { readHeader } from "../../indexer/source/block-header.ts";
import { startFaultProxy } from "../support/fault-proxy.ts";
import {
  headOf,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeMerchant,
  makePayer,
  mine,
  NETWORK,
  openLab,
  openTerm,
  pay,
  send,
  settled,
  startIndexer,
  USDC,
  until,
} from "../support/indexer-lab.ts";
import { acceptPayment, authorize, makeSigner, paymentOf } from "../support/indexer-lab-payments.ts";
import { setBackClock } from "../support/set-back-clock.ts";

setDefaultTimeout(120_000);
/** One that never ends its term is not waited for. */
const ENDS_WITHIN_MS = 60_000;
let lab: Lab;
let merchant: Merchant;
let term: Term & { close: () => void };

beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  await readToHead();
});
beforeEach(async () => {
  term = await openTerm(lab);
});
afterAll(async () => {
  term?.close();
  await lab?.stop();
});

async function readToHead(): Promise<void> {
  const indexer = startIndexer(lab);
  await settled(lab);
  await indexer.stop();
}

const cursorOf = async () => {
  const [row] = await lab.sql<{ number: bigint }[]>`select number from cursors where network = ${NETWORK}`;
  return Number(row?.number);
};

test("old blocks are not read in ranges from a node whose chain has another block at the cursor", async () => {
  await pay(lab, await makePayer(lab), merchant.address, 5n);
  await mine(lab, 5);
  const head = await readHeader(term.chain, "latest");
  if (!head) throw new Error("there is no head");
  const before = await cursorOf();
  const { hash } = term.cursor;
  const other = `0x${"9e".repeat(32)}` as const;
  await lab.sql`update cursors set hash = ${other} where network = ${NETWORK}`;
  term.cursor = { ...term.cursor, hash: other };
  expect(await catchUpSparse(term, head, head.number)).toBe(false);
  expect(await cursorOf()).toBe(before);
  await lab.sql`update cursors set hash = ${hash} where network = ${NETWORK}`;
  term.cursor = { ...term.cursor, hash };
  expect(await catchUpSparse(term, head, head.number)).toBe(true);
  expect(await cursorOf()).toBe(head.number);
  term.close();
});

test("a node on another branch does not undo a branch that another node has, unless it is clearly longer", async () => {
  const other = await openLab();
  try {
    const start = { ...term.cursor };
    expect(await undoReorg(term)).toBe(false);
    term.close();
    term = await openTerm(lab, [lab.chain.rpcUrl, other.chain.rpcUrl]);
    const [own, theirs] = [await headOf(lab), await headOf(other)];
    const short = own.number - theirs.number;
    await mine(other, Math.max(1, short + 2));
    expect((await headOf(other)).number - own.number).toBeLessThan(3);
    expect(await undoReorg(term)).toBe(false);
    expect(term.cursor).toEqual(start);
    await mine(other, 3);
    // undone to a block that both have, if one is kept
    const outcome = await undoReorg(term).catch((error: unknown) => error instanceof TooDeepError);
    expect(outcome).toBe(true);
  } finally {
    term.close();
    await other.stop();
  }
});

test("a node that lags undoes nothing and delays no late settlement, however long; its lag is an error that health shows", async () => {
  term.close();
  const proxy = await startFaultProxy(lab.chain.rpcUrl, { random: () => 0 });
  const indexer = startIndexer(lab, { urls: [proxy.url] });
  const lastError = async () =>
    (await lab.sql<{ lastError: string | null }[]>`select last_error from cursors`)[0]?.lastError;
  try {
    const units = 7_000_000n;
    const linkId = await makeLink(lab, merchant, { units });
    await pay(lab, await makePayer(lab), merchant.address, units);
    // matches neither of two links, and its authorization was used before any payment showed it
    const { authorization, data } = await authorize(await makeSigner(lab), {
      ...{ to: merchant.address, value: 2n * units },
    });
    const shownLate = await makeLink(lab, merchant, { units: 2n * units });
    await makeLink(lab, merchant, { units: 2n * units });
    await send(lab, await makePayer(lab), USDC, data);
    await mine(lab, 3);
    await settled(lab);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
    const { number } = await headOf(lab);
    proxy.set({ lagBlocks: 6 });
    await until("its lag is an error", async () => (await lastError())?.includes("they lag") ?? false);
    expect(await lastError()).toContain("change the RPC URL");
    expect(await cursorOf()).toBe(number);
    expect(await linkOf(lab, linkId)).toMatchObject({ status: "PAID" });
    expect(await linkOf(lab, shownLate)).toMatchObject({ status: "ACTIVE" });
    // what the ledger alone decides does not wait for the nodes
    const paymentId = await acceptPayment(lab, shownLate, authorization);
    await until("the used authorization fails its payment", async () => {
      const { state, reason } = await paymentOf(lab, paymentId);
      return state === "FAILED" && reason === "NONCE_USED";
    });
    expect(await linkOf(lab, shownLate)).toMatchObject({ status: "ACTIVE" });
    expect(await lastError()).toContain("they lag");
    proxy.heal();
    await mine(lab);
    await settled(lab);
    expect(await lastError()).toBeNull();
    const events =
      await lab.sql`select type from events where subject_id = ${linkId} and type like '%reorged'`;
    expect([...events]).toEqual([]);
  } finally {
    await indexer.stop();
    await proxy.stop();
  }
});

test("error: a rebuild refuses while the last block that was read is not on the nodes' chain, and changes nothing", async () => {
  term.close();
  await mine(lab, 8);
  await readToHead();
  const proxy = await startFaultProxy(lab.chain.rpcUrl, { random: () => 0 });
  proxy.set({ lagBlocks: 6 });
  const { number } = await headOf(lab);
  const lagging = await openTerm(lab, [proxy.url]);
  try {
    await expect(rebuildNetwork(lagging)).rejects.toThrow(`block ${number} ${lagging.cursor.hash} is not on`);
    expect(await cursorOf()).toBe(number);
  } finally {
    lagging.close();
    await proxy.stop();
  }
});

test("a leader ends its term when another leader's has started, even if no block arrives", async () => {
  term.close();
  await readToHead();
  term = await openTerm(lab);
  await lab.sql`update cursors set epoch = epoch + 1 where network = ${NETWORK}`;
  const followed = followChain({ ...term, log: openLog("indexer", "silent") }).catch(
    (error: unknown) => error,
  );
  const outcome = await Promise.race([followed, Bun.sleep(ENDS_WITHIN_MS)]);
  term.close();
  await followed;
  expect(outcome).toBeInstanceOf(FencedError);
});

test("a leader keeps writing heartbeats after its clock was set back", async () => {
  term.close();
  const indexer = startIndexer(lab);
  await settled(lab);
  const notedAt = async () => {
    const [row] = await lab.sql<{ updatedAt: Date }[]>`
      select updated_at from cursors where network = ${NETWORK}`;
    return row?.updatedAt.getTime() ?? 0;
  };
  const nextNote = async () => {
    const before = await notedAt();
    await until("the next note of the leader", async () => (await notedAt()) > before);
  };
  await nextNote();
  const undo = setBackClock();
  try {
    await nextNote();
  } finally {
    undo();
    await indexer.stop();
  }
});
