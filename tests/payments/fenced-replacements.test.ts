/** A replacement with a higher fee is new bytes: it carries no payment whose link has been paid since, and waits for the ledger to say so. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { keccak256 } from "viem";
import type { Hex } from "../../core/domain/networks.ts";
import {
  type Lab,
  linkStatus,
  newOrder,
  type Order,
  pay,
  paymentOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import { balanceOf, payByHand, waitForLedger, whileIndexerStands } from "./second-payer.ts";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { RELAY_MAX_FEE_GWEI: "50" } });
  expect(await pay(lab, await newOrder(lab))).toMatchObject({ status: 200 });
}, 120_000);

beforeEach(() => waitForLedger(lab));

afterEach(() => {
  lab.proxy.fault = () => undefined;
});

afterAll(() => lab?.stop());

/** A node that says it took our bytes, and keeps them to itself. */
function swallowSends(): void {
  lab.proxy.fault = (calls) =>
    calls.some(({ method }) => method === "eth_sendRawTransaction")
      ? { kind: "reply", reply: ({ params }) => keccak256(params[0] as Hex) }
      : undefined;
}

type Attempt = { txHash: string; isNoop: boolean; leftOut: string[]; relayId: bigint };

async function attemptsOf({ linkId }: Order): Promise<Attempt[]> {
  return lab.sql<Attempt[]>`
    select attempt.tx_hash, attempt.is_noop, attempt.left_out, attempt.relay_id
    from relay_attempts attempt
    join payments on payments.relay_id = attempt.relay_id
    where payments.link_id = ${linkId}
    order by attempt.created_at`;
}

/** Both in one transaction that no node has; their answers are not waited for. */
async function signTogether(...orders: Order[]): Promise<void> {
  await lab.service.kill("worker");
  // their answers may outlive the service: what counts is read from the database and the chain
  for (const order of orders) pay(lab, order).catch(() => {});
  await waitFor("all to be stored", async () => {
    const states = await Promise.all(orders.map(({ linkId }) => paymentOf(lab, linkId)));
    return states.every((row) => row?.state === "QUEUED");
  });
  swallowSends();
  await lab.service.start("worker");
  const [first] = orders;
  const attempts = await waitFor("the transaction", async () => {
    const rows = first ? await attemptsOf(first) : [];
    return rows.length > 0 && rows;
  });
  for (const order of orders) {
    expect((await attemptsOf(order)).map(({ relayId }) => relayId)).toEqual(
      attempts.map(({ relayId }) => relayId),
    );
  }
}

function secondAttempt(order: Order): Promise<Attempt> {
  return waitFor(
    "a second attempt",
    async () => {
      const attempt = (await attemptsOf(order))[1];
      if (!attempt) await lab.rpc("evm_mine");
      return attempt;
    },
    30_000,
  );
}

/** Reasons to raise a fee: time, and blocks that did not take the transaction. */
async function mineSome(): Promise<void> {
  await lab.rpc("anvil_mine", ["0x3"]);
}

test("behavior: a payment whose link a plain transfer paid is left out of the replacement, which pays the others of its transaction", async () => {
  const [paidByHand, other] = [await newOrder(lab), await newOrder(lab)];
  const funds = await balanceOf(lab, paidByHand);
  await signTogether(paidByHand, other);
  await payByHand(lab, BigInt(paidByHand.payment.value));
  await waitForLink(lab, paidByHand.linkId, "PAID");
  await mineSome();
  const { leftOut, isNoop } = await secondAttempt(other);
  const left = await paymentOf(lab, paidByHand.linkId);
  expect({ leftOut, isNoop }).toEqual({ leftOut: [left?.id ?? ""], isNoop: false });
  lab.proxy.fault = () => undefined;
  await waitForLink(lab, other.linkId, "PAID");
  await waitFor("the left-out payment to end", async () => {
    const row = await paymentOf(lab, paidByHand.linkId);
    return row?.state === "FAILED" && row.reason === "LINK_ALREADY_PAID" && row.reverts === 0;
  });
  expect(await balanceOf(lab, paidByHand)).toBe(funds);
  expect(await linkStatus(lab, paidByHand.linkId)).toBe("PAID");
}, 120_000);

test("behavior: a transaction whose only payment is left out is replaced by a no-op", async () => {
  const order = await newOrder(lab);
  const funds = await balanceOf(lab, order);
  await signTogether(order);
  await payByHand(lab, BigInt(order.payment.value));
  await waitForLink(lab, order.linkId, "PAID");
  await mineSome();
  expect(await secondAttempt(order)).toMatchObject({ isNoop: true });
  lab.proxy.fault = () => undefined;
  await waitFor("the payment to end", async () => (await paymentOf(lab, order.linkId))?.state === "FAILED");
  expect(await balanceOf(lab, order)).toBe(funds);
}, 120_000);

test("behavior: while the ledger is behind the same bytes are resent; once it has read the transfer that pays the link, the payment is left out", async () => {
  const order = await newOrder(lab);
  await signTogether(order);
  await whileIndexerStands(lab, async () => {
    await payByHand(lab, BigInt(order.payment.value));
    await mineSome();
    await waitFor(
      "more sends than a raised fee takes to come",
      async () => {
        await lab.rpc("evm_mine");
        const [row] = await lab.sql<{ sends: number }[]>`
          select max(attempt.sends)::int as sends
          from relay_attempts attempt
          join payments on payments.relay_id = attempt.relay_id
          where payments.link_id = ${order.linkId} and attempt.created_at < now() - interval '9 seconds'`;
        return (row?.sends ?? 0) >= 3;
      },
      30_000,
    );
    expect(await attemptsOf(order)).toHaveLength(1);
  });
  await waitForLink(lab, order.linkId, "PAID");
  expect(await secondAttempt(order)).toMatchObject({ isNoop: true });
}, 120_000);
