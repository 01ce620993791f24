/** A block that paid a link leaves the chain: the same bytes are resent, and the link is paid again, once. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { withWorkLock } from "../../db/postgres/work-lock.ts";
import { assertInvariants } from "../support/invariants.ts";
import {
  countTransfers,
  type Lab,
  newOrder,
  newOrders,
  type Order,
  paymentOf,
  payWithRetries,
  relaysOf,
  spendNonces,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import { broadcastAsStranger } from "../support/stranger.ts";
import { balanceOf, payByHand } from "./second-payer.ts";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab();
}, 120_000);

afterEach(() => {
  lab.proxy.fault = () => undefined;
});
afterAll(() => lab?.stop());

const BURIED_BLOCKS = 6;

/** A balance set by decree is undone with the blocks it was set in. */
async function buryFunding(): Promise<void> {
  for (let block = 0; block < BURIED_BLOCKS; block++) await lab.rpc("evm_mine");
}

/** Drops the last blocks and their transactions, as a node does that follows another branch. */
async function reorganise(depth: number): Promise<void> {
  await lab.rpc("anvil_reorg", [depth, []]);
  await lab.rpc("evm_setTime", [Math.floor(Date.now() / 1000)]);
  await lab.rpc("evm_mine");
}

for (const depth of [1, 3]) {
  test(`behavior: ${depth} block(s) back, a PAID link goes back and is PAID again by the same authorization`, async () => {
    const order = await newOrder(lab);
    await buryFunding();
    expect(await payWithRetries(lab, order)).toMatchObject({ status: 200 });
    await waitForLink(lab, order.linkId, "PAID");
    await reorganise(depth);
    await waitFor("the link to have gone back", async () => {
      const rows = await lab.sql`
        select id from events where subject_id = ${order.linkId} and type = 'payment_link.reorged'`;
      return rows.length > 0;
    });
    await waitForLink(lab, order.linkId, "PAID");
    expect(await countTransfers(lab, order.linkId)).toBe(1);
    await waitFor("all relays to be mined", async () =>
      (await relaysOf(lab)).every((relay) => relay.succeeded === true),
    );
    await assertInvariants(lab.sql, lab.chain);
  }, 120_000);
}

test("behavior: links whose payments were far below the fork stay PAID", async () => {
  const orders = [await newOrder(lab), await newOrder(lab)];
  const later = await newOrder(lab);
  await buryFunding();
  for (const order of orders) expect(await payWithRetries(lab, order)).toMatchObject({ status: 200 });
  await buryFunding();
  await reorganise(3);
  expect(await payWithRetries(lab, later)).toMatchObject({ status: 200 });
  for (const { linkId } of orders) {
    await waitForLink(lab, linkId, "PAID");
    const moved = await lab.sql`
      select id from events where subject_id = ${linkId} and type = 'payment_link.reorged'`;
    expect(moved.length).toBe(0);
  }
  await assertInvariants(lab.sql, lab.chain);
}, 120_000);

type FinalRelay = { id: bigint; nonce: bigint; txHash: string; blockNumber: bigint; blockHash: string };

/** The relay of a paid order, once it is final. */
function finalRelayOf({ linkId }: Order): Promise<FinalRelay> {
  return waitFor("the relay to be CONFIRMED", async () => {
    const [row] = await lab.sql<FinalRelay[]>`
      select relay.id, relay.nonce, relay.tx_hash, relay.block_number, relay.block_hash
      from payments
      join relays relay on relay.id = payments.relay_id and relay.state = 'CONFIRMED'
      where payments.link_id = ${linkId}`;
    return row;
  });
}

async function pays(order: Order): Promise<void> {
  expect(await payWithRetries(lab, order)).toMatchObject({ status: 200 });
  await waitForLink(lab, order.linkId, "PAID");
}

/** Takes the head back below a relay's block, until the indexer has undone it. */
async function removeBlock({ id, blockNumber }: FinalRelay): Promise<void> {
  const head = BigInt((await lab.rpc("eth_blockNumber")) as string);
  await reorganise(Number(head - blockNumber + 1n));
  await waitFor("the indexer to have undone the block", async () => {
    const [row] = await lab.sql`select from relays where id = ${id} and state = 'BROADCAST'`;
    return row !== undefined;
  });
}

/**
 * A relay whose block left the chain and whose row stays `state`; the indexer itself makes it BROADCAST. `change` runs before the worker
 * sees any of it.
 */
async function removeFinalBlock(
  order: Order,
  change: (relay: FinalRelay) => Promise<unknown> = async () => {},
  state: "BROADCAST" | "MINED" | "CONFIRMED" = "CONFIRMED",
): Promise<FinalRelay> {
  const relay = await finalRelayOf(order);
  await waitFor("the monitor to stand aside", () =>
    withWorkLock(lab.sql, "keep-relays:base-sepolia", async () => {
      await removeBlock(relay);
      await change(relay);
      if (state === "BROADCAST") return;
      await lab.sql`
        update relays
        set
          state = ${state}, tx_hash = ${relay.txHash}, block_number = ${relay.blockNumber}, block_hash = ${relay.blockHash},
          succeeded = true, mined_at = now(), is_reopened = false
        where id = ${relay.id}`;
    }),
  );
  return relay;
}

/** Both links are paid by one transfer each, and the key's nonces are used up to the next one. */
async function expectPaidOnce(orders: readonly Order[]): Promise<void> {
  for (const { linkId } of orders) {
    await waitForLink(lab, linkId, "PAID");
    expect(await countTransfers(lab, linkId)).toBe(1);
  }
  await waitFor("all payments to have ended, and all relays to be final", async () => {
    const open = await lab.sql`select from open_payments`;
    const relays = await relaysOf(lab);
    return open.length === 0 && relays.every(({ state }) => state === "CONFIRMED" || state === "LOST");
  });
  await assertInvariants(lab.sql, lab.chain);
}

async function twoOrders(): Promise<[Order, Order]> {
  const [first, second] = await newOrders(lab, 2);
  if (!first || !second) throw new Error("two orders were made");
  await buryFunding();
  return [first, second];
}

/** What used a nonce, or was to use it, the first attempt first. */
async function kindsAt(nonce: bigint): Promise<string[]> {
  const relays = (await relaysOf(lab)).filter((relay) => relay.nonce === nonce);
  return relays.map(({ kind, state }) => `${kind} ${state}`);
}

/** Each pass of the monitor with something pending asks the node for receipts. */
async function countPasses(): Promise<number> {
  return lab.proxy.methods.filter((method) => method === "eth_getTransactionReceipt").length;
}

async function stateOf({ id }: FinalRelay): Promise<string | undefined> {
  return (await relaysOf(lab)).find((relay) => relay.id === id)?.state;
}

test("behavior: a relay confirmed by a lagging node during a reorganisation is resent, and later relays do not wait", async () => {
  const [first, second] = await twoOrders();
  const isForReceipts = ({ method }: { method: string }) => method === "eth_getTransactionReceipt";
  lab.proxy.fault = (calls) => (calls.every(isForReceipts) ? { kind: "status", status: 503 } : undefined);
  await pays(first);
  const payment = await paymentOf(lab, first.linkId);
  const receipt = await lab.rpc("eth_getTransactionReceipt", [payment?.txHash]);
  await lab.sql.begin(async (tx) => {
    await tx`select from payments where id = ${payment?.id ?? ""} for update`;
    await reorganise(1);
    await waitFor("the indexer to undo the payment", async () => {
      const blocked = await lab.sql`
        select from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query ilike '%update payments%'`;
      return blocked.length > 0;
    });
    lab.proxy.fault = (calls) =>
      calls.every(isForReceipts) ? { kind: "reply", reply: () => receipt } : undefined;
    await waitFor("the relay to be CONFIRMED", async () =>
      (await relaysOf(lab)).some(({ txHash, state }) => txHash === payment?.txHash && state === "CONFIRMED"),
    );
    lab.proxy.fault = () => undefined;
  });
  await pays(second);
  await expectPaidOnce([first, second]);
}, 120_000);

test("behavior: where the ledger has no block at its height, a node's receipt shows that a CONFIRMED relay was removed", async () => {
  const [first, second] = await twoOrders();
  await pays(first);
  await removeFinalBlock(
    first,
    ({ blockNumber }) => lab.sql`delete from blocks where number = ${blockNumber}`,
  );
  await pays(second);
  await expectPaidOnce([first, second]);
}, 120_000);

test("behavior: a CONFIRMED relay becomes pending again even if nothing else is unfinished", async () => {
  const [first, second] = await twoOrders();
  await pays(first);
  const { nonce } = await removeFinalBlock(first, async () => {
    await broadcastAsStranger(lab.chain.rpcUrl, first.payment);
    await waitForLink(lab, first.linkId, "PAID");
  });
  await waitFor("its nonce to be used", async () => {
    const count = await lab.rpc("eth_getTransactionCount", [lab.relayer, "latest"]);
    return BigInt(String(count)) > nonce;
  });
  await pays(second);
  await expectPaidOnce([first, second]);
}, 120_000);

test("behavior: if an external transaction used the nonce of a removed relay, it is LOST and its payment relayed once", async () => {
  const [first, second] = await twoOrders();
  await pays(first);
  const relay = await removeFinalBlock(first, () => spendNonces(lab, 1));
  await pays(second);
  await expectPaidOnce([first, second]);
  expect(await stateOf(relay)).toBe("LOST");
}, 120_000);

test("behavior: a removed relay whose bytes were dropped is LOST; a no-op uses its nonce, its payment is relayed once", async () => {
  const [first, second] = await twoOrders();
  await pays(first);
  const relay = await removeFinalBlock(
    first,
    ({ id }) => lab.sql`update relay_attempts set raw = null where relay_id = ${id}`,
  );
  await pays(second);
  await expectPaidOnce([first, second]);
  expect(await kindsAt(relay.nonce)).toEqual(["PAYMENTS LOST", "NOOP CONFIRMED"]);
}, 120_000);

for (const state of ["BROADCAST", "MINED", "CONFIRMED"] as const) {
  test(`behavior: a payment whose link is paid otherwise after a reorganisation is not sent again, its relay ${state}`, async () => {
    const [first, second] = await twoOrders();
    const balance = await balanceOf(lab, first);
    await pays(first);
    const { nonce } = await removeFinalBlock(
      first,
      async () => {
        await payByHand(lab, BigInt(first.payment.value));
        await waitForLink(lab, first.linkId, "PAID");
      },
      state,
    );
    await pays(second);
    await expectPaidOnce([first, second]);
    expect(await balanceOf(lab, first)).toBe(balance);
    expect(await paymentOf(lab, first.linkId)).toMatchObject({
      state: "FAILED",
      reason: "LINK_ALREADY_PAID",
    });
    // replaced at its nonce, where old bytes in a mempool can't be mined beside the no-op
    expect(await kindsAt(nonce)).toEqual(["PAYMENTS CONFIRMED"]);
    const [attempt] = await lab.sql`
      select attempt.is_noop
      from relays relay
      join relay_attempts attempt on attempt.relay_id = relay.id and attempt.tx_hash = relay.tx_hash
      where relay.nonce = ${nonce}`;
    expect(attempt).toEqual({ isNoop: true });
  }, 120_000);
}

test("behavior: while the ledger is behind, a payment whose block left the chain is not sent again", async () => {
  const [first] = await twoOrders();
  const balance = await balanceOf(lab, first);
  await pays(first);
  await removeFinalBlock(
    first,
    async () => {
      process.kill(lab.service.pidOf("indexer"), "SIGSTOP");
      await payByHand(lab, BigInt(first.payment.value));
    },
    "BROADCAST",
  );
  try {
    const before = await countPasses();
    await waitFor("passes of the monitor", async () => (await countPasses()) > before + 4);
    expect(await balanceOf(lab, first)).toBe(balance);
  } finally {
    process.kill(lab.service.pidOf("indexer"), "SIGCONT");
  }
  await waitForLink(lab, first.linkId, "PAID");
  await expectPaidOnce([first]);
  expect(await balanceOf(lab, first)).toBe(balance);
}, 120_000);
