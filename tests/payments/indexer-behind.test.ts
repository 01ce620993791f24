/** A link's payment is signed only when the ledger holds every block it was simulated on, or those it does not hold are known to pay nothing. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { HEAD_VALID_MS } from "../../worker/sender/send-relay.ts";
import { makeKey } from "../facilitator/world.ts";
import { makePayer, type SignedPayment, signPayment } from "../support/payer.ts";
import {
  countTransfers,
  type Lab,
  linkStatus,
  newOrder,
  pay,
  paymentOf,
  payWithRetries,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";
import {
  balanceOf,
  countRelays,
  isLinkLockAwaited,
  payByHand,
  readCursor,
  readHead,
  secondOrder,
  settle,
  waitForLedger,
  waitUntilPutOff,
  whileIndexerStands,
} from "./second-payer.ts";

let lab: Lab;
let key: string;

beforeAll(async () => {
  lab = await startLab({ env: { FACILITATOR: "1" } });
  key = await makeKey(lab.sql, lab.merchant.userId, ["facilitator"]);
  expect(await payWithRetries(lab, await newOrder(lab))).toMatchObject({ status: 200 });
}, 120_000);

beforeEach(() => waitForLedger(lab));

afterEach(() => lab.service.startMissing());
afterAll(() => lab?.stop());

async function exceptionOf(linkId: string): Promise<string | undefined> {
  const [row] = await lab.sql<{ exception: string }[]>`
    select exception from payment_links where id = ${linkId}`;
  return row?.exception;
}

describe("a link was paid by a plain transfer in blocks that the ledger does not have", () => {
  test("error: LINK_ALREADY_PAID for the uncharged second payer once a long-stopped indexer has read the blocks", async () => {
    const order = await newOrder(lab);
    const second = await secondOrder(lab, order);
    const [funds, relays] = [await balanceOf(lab, second), await countRelays(lab)];
    const paying = await whileIndexerStands(lab, async () => {
      await payByHand(lab, BigInt(order.payment.value));
      await lab.rpc("anvil_mine", ["0x3"]);
      const answer = payWithRetries(lab, second);
      await waitUntilPutOff(lab, second);
      return { answer };
    });
    expect(await paying.answer).toMatchObject({ status: 409, body: { error: "LINK_ALREADY_PAID" } });
    await waitForLink(lab, order.linkId, "PAID");
    expect(await exceptionOf(order.linkId)).toBe("NONE");
    expect(await balanceOf(lab, second)).toBe(funds);
    expect(await countRelays(lab)).toBe(relays);
  }, 120_000);

  test("error: INTERNAL_ERROR, retryable, while the indexer stays stopped; nothing is signed and the link is released", async () => {
    const order = await newOrder(lab);
    const second = await secondOrder(lab, order);
    const [funds, relays] = [await balanceOf(lab, second), await countRelays(lab)];
    await whileIndexerStands(lab, async () => {
      await payByHand(lab, BigInt(order.payment.value));
      const startedMs = performance.now();
      const answer = await pay(lab, second);
      expect(answer).toMatchObject({
        status: 500,
        body: { success: false, error: "INTERNAL_ERROR", retryable: true, txHash: null },
      });
      expect(performance.now() - startedMs).toBeGreaterThan(7_500);
      expect(await linkStatus(lab, order.linkId)).toBe("ACTIVE");
    });
    await waitForLink(lab, order.linkId, "PAID");
    expect(await countTransfers(lab, order.linkId)).toBe(1);
    expect(await balanceOf(lab, second)).toBe(funds);
    expect(await countRelays(lab)).toBe(relays);
  }, 120_000);

  test("error: LINK_ALREADY_PAID after a takeover: the leader crashes, and its successor reads the missing blocks", async () => {
    const order = await newOrder(lab);
    const second = await secondOrder(lab, order);
    const funds = await balanceOf(lab, second);
    await lab.service.kill("indexer");
    await payByHand(lab, BigInt(order.payment.value));
    const paying = payWithRetries(lab, second);
    await waitFor("the payment to be stored", async () => await paymentOf(lab, order.linkId));
    await lab.service.start("indexer");
    expect(await paying).toMatchObject({ status: 409, body: { error: "LINK_ALREADY_PAID" } });
    await waitForLink(lab, order.linkId, "PAID");
    expect(await exceptionOf(order.linkId)).toBe("NONE");
    expect(await balanceOf(lab, second)).toBe(funds);
  }, 120_000);
});

describe("a lock that is held longer than a node's answer is valid", () => {
  test("error: LINK_ALREADY_PAID for the uncharged second payer when the link is paid while waiting for the lock", async () => {
    const order = await newOrder(lab);
    const second = await secondOrder(lab, order);
    const [funds, relays] = [await balanceOf(lab, second), await countRelays(lab)];
    const paying = await whileIndexerStands(lab, async () => {
      const answer = await lab.sql.begin(async (holder) => {
        const worker = lab.service.pidOf("worker");
        process.kill(worker, "SIGSTOP");
        const answer = payWithRetries(lab, second);
        try {
          await waitFor("the payment to be stored", async () => await paymentOf(lab, order.linkId));
          await holder`select 1 from payment_links where id = ${order.linkId} for update`;
        } finally {
          process.kill(worker, "SIGCONT");
        }
        await waitFor("the worker to wait for the lock", () => isLinkLockAwaited(lab));
        await payByHand(lab, BigInt(order.payment.value));
        await Bun.sleep(HEAD_VALID_MS + 200);
        return { answer };
      });
      await waitUntilPutOff(lab, second);
      return answer;
    });
    expect(await paying.answer).toMatchObject({ status: 409, body: { error: "LINK_ALREADY_PAID" } });
    await waitForLink(lab, order.linkId, "PAID");
    expect(await exceptionOf(order.linkId)).toBe("NONE");
    expect(await balanceOf(lab, second)).toBe(funds);
    expect(await countRelays(lab)).toBe(relays);
  }, 120_000);
});

describe("blocks that the ledger does not have pay something else", () => {
  test("behavior: a transfer to the same wallet makes a payment wait for the ledger, and then it is relayed", async () => {
    const order = await newOrder(lab);
    const relays = await countRelays(lab);
    const paying = await whileIndexerStands(lab, async () => {
      await payByHand(lab, 7n);
      const answer = payWithRetries(lab, order);
      await waitUntilPutOff(lab, order);
      expect(await countRelays(lab)).toBe(relays);
      return { answer };
    });
    expect(await paying.answer).toMatchObject({ status: 200, body: { success: true } });
    expect(await linkStatus(lab, order.linkId)).toBe("PAID");
  }, 120_000);

  test("behavior: our own relays to the same wallet, batched or not, delay no payment while the indexer is stopped", async () => {
    const [first, second, third, last] = [
      await newOrder(lab),
      await newOrder(lab),
      await newOrder(lab),
      await newOrder(lab),
    ];
    // one that waited for the ledger would end unsigned
    const isSigned = (linkId: string) =>
      waitFor("the payment to be signed", async () => (await paymentOf(lab, linkId))?.state === "SIGNED");
    const paying = await whileIndexerStands(lab, async () => {
      const before = await readCursor(lab);
      const answers = [pay(lab, first)];
      await isSigned(first.linkId);
      await waitFor("its block", async () => (await readHead(lab)) > before);
      answers.push(pay(lab, second), pay(lab, third));
      await Promise.all([isSigned(second.linkId), isSigned(third.linkId)]);
      answers.push(pay(lab, last));
      await isSigned(last.linkId);
      expect(await readCursor(lab)).toBe(before);
      return { answers };
    });
    for (const answer of await Promise.all(paying.answers)) expect([200, 202]).toContain(answer.status);
    for (const { linkId } of [first, second, third, last]) {
      await waitForLink(lab, linkId, "PAID");
      expect(await countTransfers(lab, linkId)).toBe(1);
    }
  }, 120_000);
});

describe("facilitated payments", () => {
  test("behavior: the facilitator relays payments while the indexer is stopped, whatever the unread blocks contain", async () => {
    const payer = makePayer();
    const [payTo, amountUnits] = [lab.merchant.address, 50_001n];
    await fundUsdc(lab.chain.rpcUrl, payer.address, amountUnits);
    const payment = await signPayment(payer, { to: payTo, amountUnits });
    const relays = await countRelays(lab);
    const settling = await whileIndexerStands(lab, async () => {
      await payByHand(lab, 9n);
      const before = await readCursor(lab);
      const answer = settle(lab, key, payment);
      await waitFor("its transaction", async () => (await countRelays(lab)) === relays + 1);
      expect(await readCursor(lab)).toBe(before);
      return { answer };
    });
    expect(await settling.answer).toMatchObject({ success: true });
  }, 120_000);

  test("behavior: of two that concurrently settle a failed payment again, neither gets the earlier failure", async () => {
    const payer = makePayer();
    const [payTo, amountUnits] = [lab.merchant.address, 50_002n];
    await fundUsdc(lab.chain.rpcUrl, payer.address, amountUnits);
    const payment = await signPayment(payer, { to: payTo, amountUnits });
    lab.proxy.fault = () => ({ kind: "status", status: 503 });
    expect(await settle(lab, key, payment)).toMatchObject({ success: false });
    lab.proxy.fault = () => undefined;
    await seedFailure(payment);
    const answers = await lab.sql.begin(async (holder) => {
      await holder`select 1 from payments where payer = ${payment.from} and nonce = ${payment.nonce} for update`;
      const settling = [settle(lab, key, payment, "first"), settle(lab, key, payment, "second")];
      await waitFor("both to wait for the payment", async () => {
        const [row] = await lab.sql<{ count: number }[]>`
          select count(*)::int as count from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock' and query like '%update payments%'`;
        return row?.count === 2;
      });
      return { settling };
    });
    const settled = await Promise.all(answers.settling);
    // a success is reported once; to the other it is a payment that was reported already
    expect(settled.map(({ errorReason }) => errorReason).toSorted()).toEqual([
      "invalid_exact_evm_nonce_already_used",
      undefined,
    ]);
  }, 120_000);
});

/** As if the payer had had no funds. */
async function seedFailure(payment: SignedPayment): Promise<void> {
  await waitFor("the payment to have failed", async () => {
    const rows = await lab.sql`
      update payments set reason = 'INSUFFICIENT_FUNDS', reason_text = null
      where payer = ${payment.from} and nonce = ${payment.nonce} and state = 'FAILED' and relay_id is null
      returning 1`;
    return rows.length > 0;
  });
}
