/** Transactions that no block includes: a higher fee at the same nonce, or a no-op once the authorization is over. Blocks decide, not the clock. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { toHex } from "viem";
import {
  type Lab,
  linkStatus,
  newOrder,
  pay,
  paymentOf,
  relaysOf,
  startLab,
  waitFor,
  waitForLink,
} from "../support/relay-lab.ts";

let lab: Lab;

const GWEI = 10n ** 9n;
/** A first attempt offers twice the local base fee of 1 gwei and a tip of 1 gwei; the cap leaves room above. */
const ABOVE_FIRST_OFFER = 4n * GWEI;
/** Above twice that, which an offer made a moment after such blocks may be. */
const ABOVE_ANY_OFFER = 40n * GWEI;
/** The same bytes are sent again every 2.5 s: this many times take longer than any raise by the clock ever waited. */
const SENDS_WHILE_STALLED = 4;
const BLOCK_MS = 1_000;

beforeAll(async () => {
  lab = await startLab({ env: { PAY_WAIT_MS: "1500", RELAY_MAX_FEE_GWEI: "50" } });
}, 120_000);

afterEach(async () => {
  await lab.rpc("anvil_setNextBlockBaseFeePerGas", [toHex(GWEI)]);
  await lab.rpc("evm_mine");
  await lab.rpc("evm_setAutomine", [true]);
});

/** A block that costs more than an attempt offers, and so passes it over. */
async function passOver(baseFeeWei: bigint): Promise<void> {
  await lab.rpc("anvil_setNextBlockBaseFeePerGas", [toHex(baseFeeWei)]);
  await lab.rpc("evm_mine");
}

/** Blocks that pass everything over until `read` gives something; no faster than the clock, which their times would run ahead of. */
function whilePassedOver<T>(baseFeeWei: bigint, what: string, read: () => Promise<T | false>): Promise<T> {
  let minedMs = 0;
  return waitFor(what, async () => {
    const value = await read();
    if (value !== false || Date.now() - minedMs < BLOCK_MS) return value;
    minedMs = Date.now();
    await passOver(baseFeeWei);
    return false;
  });
}

afterAll(() => lab?.stop());

async function attemptsOf(linkId: string) {
  return lab.sql<{ txHash: string; maxFeePerGas: bigint; isNoop: boolean; sends: number }[]>`
    select attempt.tx_hash, attempt.max_fee_per_gas, attempt.is_noop, attempt.sends
    from relay_attempts attempt
    join payments on payments.relay_id = attempt.relay_id
    where payments.link_id = ${linkId}
    order by attempt.created_at`;
}

describe("a chain that makes no blocks", () => {
  test("behavior: no fee is raised while the chain makes no blocks; the first offer pays when blocks are made again", async () => {
    await lab.rpc("evm_setAutomine", [false]);
    const order = await newOrder(lab);
    expect(await pay(lab, order)).toMatchObject({ status: 202 });
    const attempts = await waitFor("the same bytes sent again and again", async () => {
      const rows = await attemptsOf(order.linkId);
      return (rows.length > 1 || (rows[0]?.sends ?? 0) >= SENDS_WHILE_STALLED) && rows;
    });
    expect(attempts).toHaveLength(1);
    await lab.rpc("evm_mine");
    await waitForLink(lab, order.linkId, "PAID");
    expect((await attemptsOf(order.linkId)).map(({ txHash }) => txHash)).toEqual([attempts[0]?.txHash ?? ""]);
  }, 120_000);
});

describe("a transaction that blocks skip", () => {
  test("behavior: a transaction that blocks skip is replaced with a higher fee at the same nonce, and pays once", async () => {
    await lab.rpc("evm_setAutomine", [false]);
    const order = await newOrder(lab);
    const { status, body } = await pay(lab, order);
    expect({ status, ...body }).toMatchObject({ status: 202, success: true, settled: false });
    const before = (await relaysOf(lab)).filter((relay) => relay.succeeded === true).length;
    const attempts = await whilePassedOver(ABOVE_FIRST_OFFER, "a second attempt", async () => {
      const rows = await attemptsOf(order.linkId);
      // a node has answered: the next block can hold it
      return (rows[1]?.sends ?? 0) > 0 && rows;
    });
    const fees = attempts.map((attempt) => attempt.maxFeePerGas);
    expect(fees[1]).toBeGreaterThanOrEqual(((fees[0] ?? 0n) * 1125n) / 1000n);
    expect(attempts.some((attempt) => attempt.isNoop)).toBe(false);
    expect(await linkStatus(lab, order.linkId)).toBe("PENDING");
    await lab.rpc("anvil_setNextBlockBaseFeePerGas", [toHex(GWEI)]);
    await lab.rpc("evm_mine");
    await waitForLink(lab, order.linkId, "PAID");
    // the ledger has the payment before the receipt is recorded
    const relays = await waitFor("a recorded receipt", async () => {
      const recorded = (await relaysOf(lab)).filter((relay) => relay.succeeded === true);
      return recorded.length > before && recorded;
    });
    expect(relays).toHaveLength(before + 1);
    const raised = (await attemptsOf(order.linkId)).slice(1).map((attempt) => attempt.txHash);
    expect(raised).toContain(relays.at(-1)?.txHash ?? "");
  }, 120_000);

  test("behavior: a transaction whose authorization expires is replaced by a no-op; payment FAILED, link released", async () => {
    await lab.rpc("evm_setAutomine", [false]);
    // what is valid for less than six seconds is not signed any more
    const order = await newOrder(lab, { validForS: 20 });
    const { status } = await pay(lab, order);
    expect(status).toBe(202);
    const stuck = await waitFor("the payment to be signed", async () => {
      const payment = await paymentOf(lab, order.linkId);
      return payment?.state !== "QUEUED" && payment;
    });
    expect(stuck).toMatchObject({ state: "SIGNED", reason: null });
    await waitFor("the authorization to be over", async () => {
      const [{ isOver } = { isOver: false }] = await lab.sql<{ isOver: boolean }[]>`
        select extract(epoch from now()) > ${order.payment.validBefore}::bigint as is_over`;
      return isOver;
    });
    await whilePassedOver(ABOVE_ANY_OFFER, "an attempt that does nothing", async () => {
      const [{ noops } = { noops: 0 }] = await lab.sql<{ noops: number }[]>`
        select count(*)::int as noops
        from relay_attempts
        where relay_id = ${stuck.relayId} and is_noop and sends > 0`;
      return noops > 0;
    });
    await lab.rpc("anvil_setNextBlockBaseFeePerGas", [toHex(GWEI)]);
    await lab.rpc("evm_mine");
    await waitForLink(lab, order.linkId, "ACTIVE");
    expect(await paymentOf(lab, order.linkId)).toMatchObject({ state: "FAILED", reason: "EXPIRED_TRANSFER" });
    const spent = await waitFor("the receipt of the no-op", async () =>
      (await relaysOf(lab)).find((relay) => relay.id === stuck.relayId && relay.gasUsed !== null),
    );
    expect(spent.gasUsed).toBe(21_000n);
    const [{ sends } = { sends: 0 }] = await lab.sql<{ sends: number }[]>`
      select count(*)::int as sends from transfers where from_address = ${order.payment.from}`;
    expect(sends).toBe(0);
  }, 120_000);

  test("behavior: the released link is paid by the next payer, and no nonce is missing", async () => {
    const order = await newOrder(lab);
    // 202 when the block comes later than the answer has to
    expect((await pay(lab, order)).status).toBeOneOf([200, 202]);
    await waitForLink(lab, order.linkId, "PAID");
    const nonces = (await relaysOf(lab)).map((relay) => relay.nonce);
    const first = nonces[0] ?? 0n;
    expect(nonces).toEqual(nonces.map((_, index) => first + BigInt(index)));
  }, 120_000);
});
