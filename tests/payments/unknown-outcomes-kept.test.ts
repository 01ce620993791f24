/** Unknown outcomes in the database: when one is noted, how long it counts, and what it stops. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { findPublicLink } from "../../db/links/links.ts";
import { hasTooManyUnknownOutcomes, UNKNOWN_OUTCOMES_MAX } from "../../db/links/unknown-outcomes.ts";
import { type NewPayment, requeuePayment } from "../../db/payments/accept-payments.ts";
import { failPayments } from "../../db/payments/payments.ts";
import { leaseQueuedPayments, markSigned, requeueUnsettled } from "../../db/payments/queue.ts";
import { resolveOutcomes, resolveUnusedOutcomes } from "../../db/payments/resolve-outcomes.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import { insertRelay, markMined } from "../../db/relays/relays.ts";
import { asLeased } from "../support/as-leased.ts";
import { accept, type BooksLab, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";
import { randomAddress, seedLink } from "../support/seed.ts";

const HOUR_S = 3_600;
let lab: BooksLab;
let linkId: string;

beforeAll(async () => {
  lab = await openBooks();
});

afterAll(() => lab?.stop());

beforeEach(async () => {
  linkId = await seedLink(lab.sql, lab.merchant);
});

async function accepted(): Promise<NewPayment> {
  const payment = await accept(lab, linkId);
  if (!payment) throw new Error("the payment was not accepted");
  return payment;
}

/** Accepted, and ended while no node answered. */
async function endedUnknown(isOutcomeUnknown = true): Promise<NewPayment> {
  const payment = await accepted();
  const ended = await failPayments(lab.sql, [
    { id: payment.id, reason: "RELAYER_UNAVAILABLE", isOutcomeUnknown },
  ]);
  expect(ended).toHaveLength(1);
  return payment;
}

/** Seconds from the payment's end until its outcome no longer counts as unknown; null when it is known. */
async function unknownForS({ id }: NewPayment): Promise<number | null> {
  const [row] = await lab.sql<{ seconds: number | null }[]>`
    select extract(epoch from doubt_until - doubt_since)::float8 as seconds
    from payments
    where id = ${id}`;
  return row?.seconds ?? null;
}

const endIt = ({ id }: NewPayment) => lab.sql`
  update payments set doubt_until = now() - interval '1 second' where id = ${id}`;

describe("an outcome is unknown", () => {
  test("an outcome is unknown for an hour, or as long as the authorization lasts when that is less", async () => {
    const nowS = Math.floor(Date.now() / 1000);
    const long = await accepted();
    await lab.sql`update payments set valid_before = 2::numeric ^ 256 - 1 where id = ${long.id}`;
    await failPayments(lab.sql, [{ id: long.id, reason: "RELAYER_UNAVAILABLE", isOutcomeUnknown: true }]);
    expect(await unknownForS(long)).toBeCloseTo(HOUR_S, 0);
    const short = await accepted();
    await lab.sql`update payments set valid_before = ${BigInt(nowS + 600)} where id = ${short.id}`;
    await failPayments(lab.sql, [{ id: short.id, reason: "RELAYER_UNAVAILABLE", isOutcomeUnknown: true }]);
    expect(await unknownForS(short)).toBeWithin(590, 601);
  });

  test("an outcome is unknown only if no node answered about the payment", async () => {
    expect(await unknownForS(await endedUnknown(false))).toBeNull();
    expect(await unknownForS(await endedUnknown())).not.toBeNull();
  });

  test("an outcome is unknown until the payment is queued again, which is then simulated itself", async () => {
    const payment = await endedUnknown();
    expect(await requeuePayment(lab.sql, payment.id, payment)).toMatchObject({ id: payment.id });
    expect(await unknownForS(payment)).toBeNull();
  });
});

describe("the next payment of the link", () => {
  test("the next payment is leased with its link's unknown outcomes, but not with those of other links", async () => {
    const [first, second, over] = [await endedUnknown(), await endedUnknown(), await endedUnknown()];
    await endIt(over);
    const here = linkId;
    linkId = await seedLink(lab.sql, lab.merchant);
    await endedUnknown();
    linkId = here;
    const next = await accepted();
    const leased = await leaseQueuedPayments(lab.sql, NETWORK, 50, 1);
    const outcomes = leased.find(({ id }) => id === next.id)?.unknownOutcomes ?? [];
    const expected = [first, second].map(({ id, payer, nonce }) => ({ id, payer, nonce }));
    const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);
    expect(outcomes.toSorted(byId)).toEqual(expected.toSorted(byId));
  });

  test(`is accepted with ${UNKNOWN_OUTCOMES_MAX - 1} unknown outcomes, not with ${UNKNOWN_OUTCOMES_MAX}; nor is its row written`, async () => {
    const outcomes: NewPayment[] = [];
    while (outcomes.length < UNKNOWN_OUTCOMES_MAX) {
      expect(await hasTooManyUnknownOutcomes(lab.sql, linkId)).toBe(false);
      outcomes.push(await endedUnknown());
    }
    expect(UNKNOWN_OUTCOMES_MAX).toBe(8);
    expect(await hasTooManyUnknownOutcomes(lab.sql, linkId)).toBe(true);
    expect(await accept(lab, linkId)).toBeUndefined();
    const rows = await lab.sql`select id from payments where link_id = ${linkId}`;
    expect(rows).toHaveLength(UNKNOWN_OUTCOMES_MAX);
    const [first] = outcomes;
    if (first) await endIt(first);
    expect(await hasTooManyUnknownOutcomes(lab.sql, linkId)).toBe(false);
    expect(await accept(lab, linkId)).toBeDefined();
  });
});

describe("an outcome becomes known", () => {
  async function block(number: number, time: Date): Promise<void> {
    await lab.sql`
      insert into blocks (network, number, hash, parent_hash, block_time)
      values (${NETWORK}, ${number}, ${randomHash()}, ${randomHash()}, ${time})
      on conflict (network, number) do update set block_time = excluded.block_time`;
  }

  test("an outcome is known when a node reports the authorization unused enough blocks after its end", async () => {
    const payment = await endedUnknown();
    const [row] = await lab.sql<{ since: Date }[]>`
      select doubt_since as since from payments where id = ${payment.id}`;
    const since = row?.since.getTime() ?? 0;
    await block(200, new Date(since - 1_000));
    await block(201, new Date(since + 1_000));
    const unused = (headNumber: bigint) =>
      resolveUnusedOutcomes(lab.sql, NETWORK, { paymentIds: [payment.id], headNumber, depthBlocks: 3 });
    await unused(203n);
    expect(await unknownForS(payment)).not.toBeNull();
    await unused(204n);
    expect(await unknownForS(payment)).toBeNull();
  });

  test("an outcome is known when the payment is settled after all, whoever executed it", async () => {
    const payment = await endedUnknown();
    expect(await findPublicLink(lab.sql, linkId)).toMatchObject({ isUncertain: true });
    await lab.sql`update payments set state = 'MINED', reason = null where id = ${payment.id}`;
    expect(await findPublicLink(lab.sql, linkId)).toMatchObject({ isUncertain: false });
  });

  test("an outcome is known when the ledger shows that it did not pay the link", async () => {
    const payment = await endedUnknown();
    await resolveOutcomes(lab.sql, [payment.id]);
    expect(await unknownForS(payment)).toBeNull();
  });
});

describe("a mined attempt that left out a payment", () => {
  test("a mined attempt that left out a payment counts no revert for its payer; one that carried it does", async () => {
    await lab.sql`update wallets set backfilled_at = now()`;
    const blockHash = randomHash();
    await lab.sql`
      insert into blocks (network, number, hash, parent_hash, block_time)
      values (${NETWORK}, 50, ${blockHash}, ${randomHash()}, now())`;
    const reverts: number[] = [];
    for (const isLeftOut of [true, false]) {
      linkId = await seedLink(lab.sql, lab.merchant);
      const payment = await accepted();
      const lane = { network: NETWORK, relayer: randomAddress() } as const;
      const txHash = randomHash();
      await lab.sql.begin(async (tx) => {
        await ensureLane(tx, lane, 0n);
        const relayId = await insertRelay(tx, {
          ...{ ...lane, nonce: 0n, kind: "PAYMENTS", callTo: randomAddress(), callData: "0x", gasLimit: 1n },
          attempt: { txHash, raw: "0x", maxFeePerGas: 2n, maxPriorityFeePerGas: 1n },
        });
        await markSigned(tx, relayId, await asLeased(tx, [payment]));
        await tx`
          update relay_attempts set left_out = ${isLeftOut ? [payment.id] : []}::text[] where tx_hash = ${txHash}`;
        const place = { blockNumber: 50n, blockHash };
        await markMined(tx, [{ relayId, txHash, ...place, succeeded: true, gasUsed: 1n, feeWei: 1n }]);
      });
      expect((await requeueUnsettled(lab.sql, NETWORK, 1)).map(({ id }) => id)).toEqual([payment.id]);
      const [row] = await lab.sql<{ reverts: number }[]>`
        select reverts from payments where id = ${payment.id}`;
      reverts.push(row?.reverts ?? -1);
    }
    expect(reverts).toEqual([0, 1]);
  });
});
