/** A replacement with a higher fee is new bytes: it carries no payment whose link has been paid since, and waits for the ledger to say so. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { keccak256 } from "viem";
import type { Hex } from "../../core/domain/networks.ts";
import { HEAD_VALID_MS } from "../../worker/sender/send-relay.ts";
import {
  type Lab,
  linkStatus,
  newOrder,
  type Order,
  pay,
  paymentOf,
  payWithRetries,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import {
  balanceOf,
  isLinkLockAwaited,
  payByHand,
  waitForLedger,
  whileIndexerStands,
} from "./second-payer.ts";

const MAX_FEE_GWEI = "50";
let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { RELAY_MAX_FEE_GWEI: MAX_FEE_GWEI } });
  expect(await payWithRetries(lab, await newOrder(lab))).toMatchObject({ status: 200 });
}, 120_000);

beforeEach(() => waitForLedger(lab));

afterEach(async () => {
  lab.proxy.fault = () => undefined;
  await lab.service.startMissing();
  process.kill(lab.service.pidOf("indexer"), "SIGCONT");
});

afterAll(() => lab?.stop());

/** A node that says it took our bytes, and keeps them to itself. */
function swallowSends(): void {
  lab.proxy.fault = (calls) =>
    calls.some(({ method }) => method === "eth_sendRawTransaction")
      ? { kind: "reply", reply: ({ params }) => keccak256(params[0] as Hex) }
      : undefined;
}

function refuseSends(): void {
  lab.proxy.fault = (calls) =>
    calls.some(({ method }) => method === "eth_sendRawTransaction")
      ? { kind: "status", status: 503 }
      : undefined;
}

async function expectNotCharged(order: Order, funds: bigint): Promise<void> {
  await waitFor("the payment to end", async () => (await paymentOf(lab, order.linkId))?.state === "FAILED");
  expect(await paymentOf(lab, order.linkId)).toMatchObject({ reason: "LINK_ALREADY_PAID", reverts: 0 });
  // a no-op uses the nonce: the bytes cannot be mined any more
  await waitFor("the nonce to be used", async () => {
    const pending = await lab.sql`select 1 from relays where state in ('SIGNED', 'BROADCAST')`;
    return pending.length === 0;
  });
  expect(await balanceOf(lab, order)).toBe(funds);
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

async function isSentBefore({ linkId }: Order, seconds: number): Promise<boolean> {
  const sent = await lab.sql`
    select 1
    from relay_attempts attempt
    join payments on payments.relay_id = attempt.relay_id
    where payments.link_id = ${linkId} and attempt.last_sent_at <= now() - make_interval(secs => ${seconds})`;
  return sent.length > 0;
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
  return waitFor("a second attempt", async () => {
    const attempt = (await attemptsOf(order))[1];
    if (attempt) return attempt;
    // blocks mined faster than the indexer reads would keep the ledger behind, and nothing is replaced then
    await waitForLedger(lab);
    await lab.rpc("evm_mine");
    return undefined;
  });
}

/** Reasons to raise a fee: time, and blocks that did not take the transaction. */
async function mineSome(): Promise<void> {
  await lab.rpc("anvil_mine", ["0x3"]);
}

test("behavior: a payment whose link a plain transfer paid is omitted from the replacement, which pays the others", async () => {
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

test("behavior: a transaction whose only payment is omitted is replaced by a no-op", async () => {
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

test("behavior: a replacement that waited too long for a lock carries no payment whose link was paid meanwhile", async () => {
  const order = await newOrder(lab);
  await signTogether(order);
  const held = await lab.sql.begin(async (holder) => {
    await holder`select 1 from payment_links where id = ${order.linkId} for update`;
    await waitFor("the worker to wait for the lock", async () => {
      await waitForLedger(lab);
      await lab.rpc("evm_mine");
      return isLinkLockAwaited(lab);
    });
    await waitForLedger(lab);
    const pid = lab.service.pidOf("indexer");
    process.kill(pid, "SIGSTOP");
    await payByHand(lab, BigInt(order.payment.value));
    await Bun.sleep(HEAD_VALID_MS + 200);
    return { pid };
  });
  await Bun.sleep(300);
  process.kill(held.pid, "SIGCONT");
  await waitForLink(lab, order.linkId, "PAID");
  expect(await secondAttempt(order)).toMatchObject({ isNoop: true });
}, 120_000);

test("behavior: bytes that no node accepted are not sent once a transfer has paid the link; a no-op uses the nonce", async () => {
  const order = await newOrder(lab);
  const funds = await balanceOf(lab, order);
  refuseSends();
  pay(lab, order).catch(() => {});
  await waitFor("the first send to be refused", () => isSentBefore(order, 0));
  await payByHand(lab, BigInt(order.payment.value));
  await waitForLink(lab, order.linkId, "PAID");
  lab.proxy.fault = () => undefined;
  await expectNotCharged(order, funds);
}, 120_000);

test("behavior: bytes that a node lost are not resent once one of their links is known to be paid, even after a restart: the others are paid without it", async () => {
  const [order, other] = [await newOrder(lab), await newOrder(lab)];
  const funds = await balanceOf(lab, order);
  await signTogether(order, other);
  await waitFor("the first send to be recorded", () => isSentBefore(order, 0));
  await lab.service.kill("worker");
  await payByHand(lab, BigInt(order.payment.value));
  await waitForLink(lab, order.linkId, "PAID");
  await waitFor("another send to be due", () => isSentBefore(order, 3));
  lab.proxy.fault = () => undefined;
  await lab.service.start("worker");
  await expectNotCharged(order, funds);
  await waitForLink(lab, other.linkId, "PAID");
}, 120_000);

test("behavior: after a node that hung for seconds, no other node gets bytes that were judged before", async () => {
  const order = await newOrder(lab);
  const funds = await balanceOf(lab, order);
  let sends = 0;
  lab.proxy.fault = (calls) => {
    if (!calls.some(({ method }) => method === "eth_sendRawTransaction")) return undefined;
    sends += 1;
    return sends === 1 ? { kind: "hang" } : undefined;
  };
  pay(lab, order).catch(() => {});
  await waitFor("the first send", async () => sends > 0);
  await payByHand(lab, BigInt(order.payment.value));
  await waitForLink(lab, order.linkId, "PAID");
  await expectNotCharged(order, funds);
}, 120_000);

test("behavior: bytes that must not be sent are replaced even where the highest fee leaves no room", async () => {
  const order = await newOrder(lab);
  const funds = await balanceOf(lab, order);
  refuseSends();
  pay(lab, order).catch(() => {});
  await waitFor("the first send to be refused", () => isSentBefore(order, 0));
  const [first] = await attemptsOf(order);
  await lab.sql`
    update relay_attempts
    set max_fee_per_gas = ${MAX_FEE_GWEI}::numeric * 1e9, max_priority_fee_per_gas = ${MAX_FEE_GWEI}::numeric * 1e9
    where tx_hash = ${first?.txHash ?? ""}`;
  await payByHand(lab, BigInt(order.payment.value));
  await waitForLink(lab, order.linkId, "PAID");
  lab.proxy.fault = () => undefined;
  await expectNotCharged(order, funds);
}, 120_000);

test("behavior: while the ledger is behind the bytes are resent; once it has the transfer, the payment is omitted", async () => {
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
