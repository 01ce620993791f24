/** Transactions that no block takes: dearer bytes at the same nonce, or nothing at all once the authorization is over. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
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
} from "./lab.ts";

let lab: Lab;

beforeAll(async () => {
  lab = await startLab({ env: { PAY_WAIT_MS: "1500" } });
}, 60_000);

afterEach(async () => {
  await lab.rpc("evm_setAutomine", [true]);
});

afterAll(() => lab?.stop());

async function attemptsOf(linkId: string) {
  return lab.sql<{ txHash: string; maxFeePerGas: bigint; isNoop: boolean }[]>`
    select attempt.tx_hash, attempt.max_fee_per_gas, attempt.is_noop
    from relay_attempts attempt
    join payments on payments.relay_id = attempt.relay_id
    where payments.link_id = ${linkId}
    order by attempt.created_at`;
}

describe("a transaction no block takes", () => {
  test("behavior: gets a higher fee at the same nonce, and the link is paid once", async () => {
    await lab.rpc("evm_setAutomine", [false]);
    const order = await newOrder(lab);
    const { status, body } = await pay(lab, order);
    expect({ status, ...body }).toMatchObject({ status: 202, success: true, settled: false });
    const attempts = await waitFor("a second attempt", async () => {
      const rows = await attemptsOf(order.linkId);
      return rows.length >= 2 && rows;
    });
    const fees = attempts.map((attempt) => attempt.maxFeePerGas);
    expect(fees[1]).toBeGreaterThanOrEqual(((fees[0] ?? 0n) * 1125n) / 1000n);
    expect(attempts.some((attempt) => attempt.isNoop)).toBe(false);
    expect(await linkStatus(lab, order.linkId)).toBe("PENDING");
    await lab.rpc("evm_mine");
    await waitForLink(lab, order.linkId, "PAID");
    // the books know of the payment before the receipt is booked
    const relays = await waitFor("a booked receipt", async () => {
      const booked = (await relaysOf(lab)).filter((relay) => relay.succeeded === true);
      return booked.length > 0 && booked;
    });
    expect(relays).toHaveLength(1);
    expect(attempts.map((attempt) => attempt.txHash)).toContain(relays[0]?.txHash ?? "");
    expect(relays[0]?.txHash).not.toBe(attempts[0]?.txHash);
  }, 40_000);

  test("behavior: whose authorization is over spends its nonce on nothing; FAILED, and the link is free", async () => {
    await lab.rpc("evm_setAutomine", [false]);
    const order = await newOrder(lab, { validForS: 10 });
    const { status } = await pay(lab, order);
    expect(status).toBe(202);
    await waitFor("an attempt that does nothing", async () =>
      (await attemptsOf(order.linkId)).some((attempt) => attempt.isNoop),
    );
    expect(await paymentOf(lab, order.linkId)).toMatchObject({ state: "SIGNED", reason: null });
    await lab.rpc("evm_mine");
    await waitForLink(lab, order.linkId, "ACTIVE");
    expect(await paymentOf(lab, order.linkId)).toMatchObject({ state: "FAILED", reason: "EXPIRED_TRANSFER" });
    const newest = (await relaysOf(lab)).at(-1);
    expect(newest?.gasUsed).toBe(21_000n);
    const [{ sends } = { sends: 0 }] = await lab.sql<{ sends: number }[]>`
      select count(*)::int as sends from transfers where from_address = ${order.payment.from}`;
    expect(sends).toBe(0);
  }, 40_000);

  test("behavior: the freed link is paid by the next payer, and no nonce is missing", async () => {
    const order = await newOrder(lab);
    expect(await pay(lab, order)).toMatchObject({ status: 200, body: { success: true } });
    const nonces = (await relaysOf(lab)).map((relay) => relay.nonce);
    const first = nonces[0] ?? 0n;
    expect(nonces).toEqual(nonces.map((_, index) => first + BigInt(index)));
  }, 20_000);
});
