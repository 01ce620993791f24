/** The queue of payments: what a lease takes and reports, and what handing it back leaves alone. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { type NewPayment, requeuePayment } from "../../db/payments/accept-payments.ts";
import { requeueFacilitatedPayment } from "../../db/payments/facilitated-payments.ts";
import { failPayments } from "../../db/payments/payments.ts";
import {
  type Leased,
  leaseQueuedPayments,
  markSigned,
  noteRefusals,
  noteUnavailable,
  returnLeases,
} from "../../db/payments/queue.ts";
import { asLeased } from "../support/as-leased.ts";
import { beginWithinDay } from "../support/begin-within-day.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import {
  accept,
  acceptFacilitated,
  type BooksLab,
  NETWORK,
  openBooks,
  paymentOf,
  signRelay,
  UNITS,
} from "../support/ledger-lab.ts";
import { randomAddress, seedLink, seedMerchant } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";

const READ_TO = 100;
const LEASE_MS = 600_000;
const DELAY_MS = 300_000;
let lab: BooksLab;
let linkId: string;
let payment: NewPayment;

beforeAll(async () => {
  lab = await openBooks({ readTo: READ_TO });
});
beforeEach(beginWithinDay);
afterAll(() => lab?.stop());
beforeEach(async () => {
  // What other tests queued is due in an hour.
  await lab.sql`update payments set next_try_at = now() + interval '1 hour'`;
  lab.merchant = await seedMerchant(lab.sql);
  linkId = await seedLink(lab.sql, lab.merchant);
  payment = await accepted();
});

async function accepted(link = linkId): Promise<NewPayment> {
  const taken = await accept(lab, link);
  if (!taken) throw new Error("the link accepted no payment");
  return taken;
}

const lease = (limit = 10) => lab.sql.begin((tx) => leaseQueuedPayments(tx, NETWORK, limit, LEASE_MS));
async function leased() {
  const [one, ...others] = await lease();
  expect(others).toHaveLength(0);
  return one;
}
/** Times in seconds, rounded to a minute: a busy machine reads them late. */
async function rowOf({ id }: NewPayment) {
  const [row] = await lab.sql<{ waitS: number; refusals: number; unavailable: number | null }[]>`
    select
      (round(extract(epoch from greatest(next_try_at, lease.until) - now()) / 60) * 60)::int as wait_s, refusals,
      (round(extract(epoch from now() - unavailable_since) / 60) * 60)::int as unavailable
    from payments
    left join payment_leases lease on lease.payment_id = payments.id
    where id = ${id}`;
  return row;
}
/** The payment as a worker would hold it that leased it now. */
const held = () => asLeased(lab.sql, [payment]);
const change = (columns: Record<string, string | number | Date | null>) =>
  lab.sql`update payments set ${lab.sql(columns)} where id = ${payment.id}`;

describe("leasing", () => {
  test("takes a payment that is due and holds it for the duration of the lease", async () => {
    expect(await leased()).toMatchObject({
      id: payment.id,
      readNumber: BigInt(READ_TO),
      unknownOutcomes: null,
    });
    expect(await lease()).toEqual([]);
    expect((await rowOf(payment))?.waitS).toBe(LEASE_MS / 1000);
  });

  test("takes a payment again whose worker has died, once its lease has expired", async () => {
    await lease();
    await lab.sql`update payment_leases set until = now() + interval '1 minute'`;
    expect(await lease()).toEqual([]);
    await lab.sql`update payment_leases set until = now()`;
    expect((await leased())?.id).toBe(payment.id);
    expect((await rowOf(payment))?.waitS).toBe(LEASE_MS / 1000);
  });

  test("takes a payment whose lease ends at this instant: it was held until then, and no longer", async () => {
    await lab.sql.begin(async (tx) => {
      await tx`insert into payment_leases (payment_id, until) values (${payment.id}, now())`;
      expect(await leaseQueuedPayments(tx, NETWORK, 10, LEASE_MS)).toMatchObject([{ id: payment.id }]);
    });
  });

  test("locks no payment, so that others can settle or fail it meanwhile", async () => {
    await lab.sql.begin(async (tx) => {
      expect(await leaseQueuedPayments(tx, NETWORK, 10, LEASE_MS)).toHaveLength(1);
      const free = await lab.sql`select id from payments where id = ${payment.id} for update skip locked`;
      expect(free).toHaveLength(1);
    });
  });

  test("locks no more payments than it takes, so that another worker takes the next ones meanwhile", async () => {
    const later = await accepted(await seedLink(lab.sql, lab.merchant));
    await change({ next_try_at: new Date(Date.now() - 60_000) });
    await lab.sql.begin(async (tx) => {
      expect(await leaseQueuedPayments(tx, NETWORK, 1, LEASE_MS)).toMatchObject([{ id: payment.id }]);
      expect(await lease()).toMatchObject([{ id: later.id }]);
    });
  });

  test("takes no payment that another worker took since the statement began", async () => {
    const second = await lab.sql.begin(async (tx) => {
      await tx`insert into payment_leases (payment_id, until) values (${payment.id}, now() + interval '1 minute')`;
      const waiting = lease();
      await untilBlocked(lab.sql, waiting);
      return { waiting };
    });
    expect(await second.waiting).toEqual([]);
  });

  test("takes the payments of a database that crashed: leases are not in its write-ahead log", async () => {
    await lease();
    await lab.sql`truncate payment_leases`;
    expect((await leased())?.id).toBe(payment.id);
  });

  test("takes the payment that has waited longest, and no more than the limit", async () => {
    const later = await accepted(await seedLink(lab.sql, lab.merchant));
    await lab.sql`update payments set next_try_at = now() - interval '1 second' where id = ${later.id}`;
    await change({ next_try_at: new Date(Date.now() - 60_000) });
    expect((await lease(1)).map(({ id }) => id)).toEqual([payment.id]);
    expect((await lease(1)).map(({ id }) => id)).toEqual([later.id]);
  });

  test("takes no payment that is due later", async () => {
    await change({ next_try_at: new Date(Date.now() + 60_000) });
    expect(await lease()).toEqual([]);
  });

  test.each(["SIGNED", "MINED", "CONFIRMED"])("takes no payment that is %s", async (state) => {
    await change({ state });
    expect(await lease()).toEqual([]);
  });

  test("takes no payment of another network, nor one that another worker is leasing", async () => {
    expect(await lab.sql.begin((tx) => leaseQueuedPayments(tx, "base", 10, LEASE_MS))).toEqual([]);
    await lab.sql.begin(async (tx) => {
      await leaseQueuedPayments(tx, NETWORK, 10, LEASE_MS);
      expect(await lease()).toEqual([]);
    });
  });
});

describe("a lease's facts about its payment", () => {
  test("its link is paid by another transfer that pays it", async () => {
    await bookTransfer(lab, { link: linkId, pays: true, units: UNITS + 1n });
    expect((await leased())?.isLinkPaid).toBe(true);
  });

  test("its link is paid by a transfer of its amount that does not pay it yet", async () => {
    await bookTransfer(lab, { link: linkId });
    expect((await leased())?.isLinkPaid).toBe(true);
  });

  test("its link is not paid by its own transfer, another amount, another link's, or a block that left", async () => {
    const own = { from: payment.payer, nonce: payment.nonce };
    await bookTransfer(lab, { link: linkId, ...own });
    await bookTransfer(lab, { link: linkId, ...own, pays: true });
    await bookTransfer(lab, { link: linkId, units: UNITS - 1n });
    await bookTransfer(lab, { link: linkId, status: "ORPHANED" });
    await bookTransfer(lab, { link: linkId, status: "ORPHANED", pays: true });
    const other = await seedLink(lab.sql, lab.merchant);
    await bookTransfer(lab, { link: other, pays: true });
    await bookTransfer(lab, { link: other });
    expect((await leased())?.isLinkPaid).toBe(false);
  });

  test("its payer's reverts of the last day are summed, not those before, another payer's or another network's", async () => {
    const reverted = async (payer: NewPayment["payer"], hoursAgo: number, reverts: number) => {
      const one = await accept(lab, await seedLink(lab.sql, lab.merchant), { payer });
      await lab.sql`
        update payments
        set reverts = ${reverts}, updated_at = now() - make_interval(mins => ${Math.round(hoursAgo * 60)}),
          next_try_at = now() + interval '1 hour'
        where id = ${one?.id ?? ""}`;
    };
    await reverted(payment.payer, 23.9, 2);
    await reverted(payment.payer, 0, 3);
    await reverted(payment.payer, 24.1, 10);
    await reverted(randomAddress(), 0, 100);
    await reverted(payment.payer, 0, 1_000);
    await lab.sql`update payments set network = 'base', state = 'SIGNED' where reverts = 1000`;
    expect((await leased())?.payerReverts).toBe(5);
  });

  test("its merchant's gas is that of its own budget of today, on the network, in the scope for relays", async () => {
    const other = await seedMerchant(lab.sql);
    for (const [network, scope, subject, daysAgo, used] of [
      [NETWORK, "MERCHANT", other.userId, 0, 200],
      [NETWORK, "MERCHANT", lab.merchant.userId, 0, 5],
      [NETWORK, "MERCHANT", lab.merchant.userId, 1, 3_000],
      [NETWORK, "FEES", lab.merchant.userId, 0, 60],
      [NETWORK, "REVERTED", lab.merchant.userId, 0, 70],
      ["base", "MERCHANT", lab.merchant.userId, 0, 40_000],
    ] as const)
      await lab.sql`
        insert into relay_budgets (network, scope, subject, day, used, reserved)
        values (${network}, ${scope}, ${subject}, (now() at time zone 'utc')::date - ${daysAgo}::int, ${used}, ${used + 1})`;
    expect(await leased()).toMatchObject({ merchantGasUsed: 5n, merchantGasReserved: 6n });
    await lab.sql`delete from relay_budgets where subject = ${lab.merchant.userId}`;
    await returnLeases(lab.sql, await held(), 0);
    expect(await leased()).toMatchObject({ merchantGasUsed: 0n, merchantGasReserved: 0n });
  });

  test("unknown outcomes of its link's earlier payments are listed, those that have ended are not", async () => {
    await change({ state: "FAILED", reason: "NONCE_USED" });
    const earlier = payment;
    await lab.sql`update payment_links set status = 'ACTIVE' where id = ${linkId}`;
    await change({ doubt_since: new Date(), doubt_until: new Date(Date.now() + 60_000) });
    payment = await accepted();
    const { payer, nonce } = earlier;
    expect((await leased())?.unknownOutcomes).toEqual([{ id: earlier.id, payer, nonce }]);
    await lab.sql`update payments set doubt_until = now() - interval '1 second' where id = ${earlier.id}`;
    await returnLeases(lab.sql, await held(), 0);
    expect((await leased())?.unknownOutcomes).toBeNull();
  });
});

describe("returning a lease", () => {
  const unavailable = async (triedMs: number, giveUpMs: number) =>
    noteUnavailable(lab.sql, await held(), { delayMs: DELAY_MS, triedMs, giveUpMs });

  test("makes the payment due after the delay, and resets that a node was unavailable", async () => {
    await unavailable(1_000, 60_000);
    await returnLeases(lab.sql, await held(), DELAY_MS);
    expect(await rowOf(payment)).toEqual({ waitS: DELAY_MS / 1000, refusals: 0, unavailable: null });
  });

  test("counts refusals", async () => {
    await noteRefusals(lab.sql, await held(), DELAY_MS);
    await noteRefusals(lab.sql, await held(), DELAY_MS);
    expect(await rowOf(payment)).toEqual({ waitS: DELAY_MS / 1000, refusals: 2, unavailable: null });
  });

  test("ends the lease: the payment is due as soon as the delay is over", async () => {
    for (const handBack of [
      async () => returnLeases(lab.sql, await held(), 0),
      async () => noteRefusals(lab.sql, await held(), 0),
      async () => noteUnavailable(lab.sql, await held(), { delayMs: 0, triedMs: 0, giveUpMs: 60_000 }),
    ]) {
      expect((await leased())?.id).toBe(payment.id);
      await handBack();
    }
    expect((await leased())?.id).toBe(payment.id);
  });

  test("reports a payment whose node has been unavailable for the whole time, counted from its first attempt", async () => {
    expect(await unavailable(420_000, 600_000)).toEqual(new Set());
    expect(await rowOf(payment)).toEqual({ waitS: DELAY_MS / 1000, refusals: 0, unavailable: 420 });
    expect(await unavailable(0, 420_000)).toEqual(new Set([payment.id]));
  });

  test("does not change a payment that has been signed since", async () => {
    await lease();
    await change({ state: "SIGNED" });
    const read = () => lab.sql`
      select next_try_at, refusals, unavailable_since from payments where id = ${payment.id}`;
    const before = await read();
    await returnLeases(lab.sql, await held(), DELAY_MS);
    await noteRefusals(lab.sql, await held(), DELAY_MS);
    expect(await unavailable(9_000, 1_000)).toEqual(new Set());
    expect(await read()).toEqual(before);
  });
});

describe("signing", () => {
  test("and failing end the lease: a payment that is queued again is due immediately", async () => {
    const leases = () => lab.sql`select from payment_leases where payment_id = ${payment.id}`;
    await lease();
    await signRelay(lab, payment);
    expect(await leases()).toHaveLength(0);
    payment = await accepted(await seedLink(lab.sql, lab.merchant));
    await lease();
    expect(await leases()).toHaveLength(1);
    await lab.sql.begin((tx) => failPayments(tx, [{ id: payment.id, reason: "EXPIRED_TRANSFER" }]));
    expect(await leases()).toHaveLength(0);
  });

  test("a payment that fails loses its own lease and no other", async () => {
    const other = await accepted(await seedLink(lab.sql, lab.merchant));
    await lease();
    await lab.sql.begin((tx) => failPayments(tx, [{ id: payment.id, reason: "EXPIRED_TRANSFER" }]));
    const rows = await lab.sql`
      select payment_id from payment_leases where payment_id in (${payment.id}, ${other.id})`;
    expect([...rows]).toEqual([{ paymentId: other.id }]);
  });

  test.each(["FAILED", "SIGNED", "MINED", "CONFIRMED"])(
    "binds no payment that has become %s since",
    async (state) => {
      await change({ state, reason: state === "FAILED" ? "EXPIRED_TRANSFER" : null });
      await signRelay(lab, payment);
      const [row] = await lab.sql`select state, relay_id from payments where id = ${payment.id}`;
      expect(row).toEqual({ state, relayId: null });
    },
  );

  test("binds the payment that is QUEUED and no other", async () => {
    const other = await accepted(await seedLink(lab.sql, lab.merchant));
    const { relayId } = await signRelay(lab, payment);
    const rows = await lab.sql`
      select id, state, relay_id from payments where id in (${payment.id}, ${other.id}) order by state desc`;
    expect([...rows]).toEqual([
      { id: payment.id, state: "SIGNED", relayId },
      { id: other.id, state: "QUEUED", relayId: null },
    ]);
  });
});

describe("a worker whose lease is over since another one has failed the payment and its payer has retried the same bytes", () => {
  let stale: Leased[];
  beforeEach(async () => {
    stale = await lease();
    expect(stale).toHaveLength(1);
    await change({ state: "FAILED", reason: "EXPIRED_TRANSFER" });
    expect(await lab.sql.begin((tx) => requeuePayment(tx, payment.id, payment))).toEqual({ id: payment.id });
  });

  test("does not sign what it has leased; who leases the retry signs it", async () => {
    const sign = (leased: Leased[]) => lab.sql.begin((tx) => markSigned(tx, 1n, leased));
    expect(await sign(stale)).toEqual([]);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "QUEUED" });
    expect(await sign(await held())).toEqual([payment.id]);
  });

  test("does not fail the retry for a reason of the earlier attempt", async () => {
    const fail = (leased: Leased[]) =>
      lab.sql.begin((tx) =>
        failPayments(
          tx,
          leased.map(({ id, updatedAtMicros }) => ({ id, updatedAtMicros, reason: "EXPIRED_TRANSFER" })),
        ),
      );
    expect(await fail(stale)).toEqual([]);
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "QUEUED", reason: null });
    expect(await fail(await held())).toEqual([{ id: payment.id, linkId }]);
  });

  test("neither delays the retry, nor counts a refusal or an unavailable node of the earlier attempt, nor ends a newer lease", async () => {
    await lab.sql`update payment_leases set until = now() where payment_id = ${payment.id}`;
    expect(await lease()).toHaveLength(1);
    await returnLeases(lab.sql, stale, DELAY_MS);
    await noteRefusals(lab.sql, stale, DELAY_MS);
    const over = await noteUnavailable(lab.sql, stale, { delayMs: DELAY_MS, triedMs: 9_000, giveUpMs: 0 });
    expect(over).toEqual(new Set());
    expect(await rowOf(payment)).toEqual({ waitS: LEASE_MS / 1000, refusals: 0, unavailable: null });
    await returnLeases(lab.sql, await held(), 0);
    expect((await leased())?.id).toBe(payment.id);
  });

  test("does not sign a facilitated payment either that has been accepted again", async () => {
    const facilitated = await acceptFacilitated(lab);
    const before = await asLeased(lab.sql, [facilitated]);
    await lab.sql`update payments set state = 'FAILED', reason = 'EXPIRED_TRANSFER' where id = ${facilitated.id}`;
    expect(await requeueFacilitatedPayment(lab.sql, facilitated.id, facilitated)).toBe(true);
    const sign = (leased: Leased[]) => lab.sql.begin((tx) => markSigned(tx, 1n, leased));
    expect(await sign(before)).toEqual([]);
    expect(await sign(await asLeased(lab.sql, [facilitated]))).toEqual([facilitated.id]);
  });
});
