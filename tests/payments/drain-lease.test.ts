/** The drain lease: one worker at a time takes what is queued on a network, and no payment waits for one that is done. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { openAcceptor, storeLinkPayments } from "../../api/x402/group-commit.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { isDrained, releaseDrainLease, takeDrainLease } from "../../db/payments/drain-lease.ts";
import { leaseQueuedPayments } from "../../db/payments/queue.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { accept, type BooksLab, makePayment, NETWORK, openBooks } from "../support/ledger-lab.ts";
import { seedLinks, seedMerchant } from "../support/seed.ts";

const BATCH = 5;
let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks({ readTo: 100 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  await lab.sql`update payments set next_try_at = now() + interval '1 hour'`;
  await lab.sql`delete from payment_leases`;
  await lab.sql`delete from drain_leases`;
  lab.merchant = await seedMerchant(lab.sql);
});

async function queue(count: number): Promise<void> {
  const links = await seedLinks(lab.sql, lab.merchant, { count, amountUnits: 10_000n });
  for (const link of links) await accept(lab, link);
}
const drainOf = (holder: string, network: NetworkId = NETWORK) => ({
  ...{ network, holder, batchMax: BATCH, leaseMs: 30_000 },
});
const take = (holder: string, network: NetworkId = NETWORK) =>
  takeDrainLease(lab.sql, drainOf(holder, network));
const takeAndStay = (holder: string) => takeDrainLease(lab.sql, drainOf(holder), { staysOn: true });
const leaseAll = () => leaseQueuedPayments(lab.sql, NETWORK, 100, 30_000);

test("a second worker leaves queued payments to the first, which extends its lease", async () => {
  await queue(1);
  expect([await take("one"), await take("two"), await take("one")]).toEqual(["taken", "busy", "taken"]);
});

test("a lease is extended when less than half of its time is left", async () => {
  await queue(1);
  await take("one");
  /** In one transaction, in which no time passes. */
  const leftAfter = (seconds: number) =>
    lab.sql.begin(async (tx) => {
      await tx`update drain_leases set until = now() + make_interval(secs => ${seconds})`;
      expect(await takeDrainLease(tx, drainOf("one"))).toBe("taken");
      const [row] = await tx<{ leftS: number }[]>`
        select extract(epoch from until - now())::float8 as left_s from drain_leases`;
      return row?.leftS;
    });
  expect([await leftAfter(16), await leftAfter(14)]).toEqual([16, 30]);
});

test("an expired lease is taken by another worker, one with a minute left is not", async () => {
  await queue(1);
  await take("one");
  await lab.sql`update drain_leases set until = now() + interval '1 minute'`;
  expect(await take("two")).toBe("busy");
  await lab.sql`update drain_leases set until = now()`;
  expect([await take("two"), await take("one")]).toEqual(["taken", "busy"]);
});

test("a full batch is taken without the lease, one payment less is not", async () => {
  await queue(BATCH - 1);
  expect([await take("one"), await take("two")]).toEqual(["taken", "busy"]);
  await queue(1);
  expect(await take("two")).toBe("full");
});

test("a full batch is also one for the worker that has the lease", async () => {
  await queue(BATCH);
  expect([await take("one"), await take("one")]).toEqual(["full", "full"]);
});

test("due payments are pending next to a payment in flight, not next to one that waits or has ended", async () => {
  await queue(1);
  await leaseAll();
  const turns: Record<string, string> = {};
  for (const state of ["QUEUED", "SIGNED", "BROADCAST", "FAILED"]) {
    await lab.sql`
      update payments
      set state = ${state}, reason = case when ${state === "FAILED"} then 'INTERNAL_ERROR' end
      where id in (select payment_id from payment_leases)`;
    await queue(1);
    turns[state] = await take("one");
    await lab.sql`update payments set next_try_at = now() + interval '1 hour' where state = 'QUEUED'`;
  }
  expect(turns).toEqual({ QUEUED: "taken", SIGNED: "pending", BROADCAST: "pending", FAILED: "taken" });
});

test("due payments are not pending next to a payment in flight on another network", async () => {
  await queue(1);
  await leaseAll();
  await lab.sql`update payments set state = 'SIGNED' where id in (select payment_id from payment_leases)`;
  await queue(1);
  expect(await take("one")).toBe("pending");
  await lab.sql`update open_payments set network = 'base' where payment_id in (select payment_id from payment_leases)`;
  expect(await take("one")).toBe("taken");
});

test("no drain lease is taken for payments that are leased or not yet due", async () => {
  await queue(1);
  await leaseAll();
  expect(await take("one")).toBe("idle");
  await lab.sql`delete from payment_leases`;
  await lab.sql`update payments set next_try_at = now() + interval '1 minute' where next_try_at <= now()`;
  expect(await take("one")).toBe("idle");
  expect(await lab.sql`select 1 from drain_leases`).toHaveLength(0);
});

test("an empty queue releases the lease, and what was queued meanwhile is found by the next call", async () => {
  await queue(1);
  await take("one");
  await leaseAll();
  expect(await take("one")).toBe("released");
  expect(await take("one")).toBe("idle");
  await queue(1);
  expect(await take("two")).toBe("taken");
});

test("an empty queue does not release another worker's lease", async () => {
  await queue(1);
  await take("one");
  await leaseAll();
  expect(await take("two")).toBe("idle");
  await queue(1);
  expect(await take("two")).toBe("busy");
  await releaseDrainLease(lab.sql, { network: NETWORK, holder: "two", batchMax: BATCH, leaseMs: 1 });
  expect(await take("two")).toBe("busy");
  await releaseDrainLease(lab.sql, { network: NETWORK, holder: "one", batchMax: BATCH, leaseMs: 1 });
  expect(await take("two")).toBe("taken");
});

describe("a worker that keeps its lease", () => {
  const isCountedOn = async () => {
    const [row] = await lab.sql<{ drained: boolean }[]>`select ${isDrained(lab.sql, NETWORK)} as drained`;
    return row?.drained;
  };

  test("keeps it with an empty queue, and finds what is queued then", async () => {
    await queue(1);
    await take("one");
    await leaseAll();
    expect(await takeAndStay("one")).toBe("kept");
    expect(await isCountedOn()).toBe(true);
    await queue(1);
    expect([await take("two"), await takeAndStay("one")]).toEqual(["busy", "taken"]);
  });

  test("releases it once it no longer does", async () => {
    await queue(1);
    await take("one");
    await leaseAll();
    await takeAndStay("one");
    expect([await take("one"), await take("one")]).toEqual(["released", "idle"]);
    expect(await isCountedOn()).toBe(false);
  });

  test("keeps it no longer than it was taken for: an empty queue extends nothing", async () => {
    await queue(1);
    await take("one");
    await leaseAll();
    await lab.sql`update drain_leases set until = now() + interval '1 minute'`;
    await takeAndStay("one");
    await lab.sql`update drain_leases set until = until - interval '1 minute'`;
    expect([await takeAndStay("one"), await takeAndStay("one")]).toEqual(["released", "idle"]);
  });

  test("is idle without the lease, and takes none for an empty queue", async () => {
    expect(await takeAndStay("one")).toBe("idle");
    await queue(1);
    await take("one");
    await leaseAll();
    expect(await takeAndStay("two")).toBe("idle");
    expect(await take("one")).toBe("released");
  });
});

test("of ten concurrent workers one takes the lease", async () => {
  await queue(1);
  const turns = await Promise.all(Array.from({ length: 10 }, (_, n) => take(`worker ${n}`)));
  expect(turns.filter((turn) => turn === "taken")).toHaveLength(1);
  expect(turns.filter((turn) => turn === "busy")).toHaveLength(9);
});

test("the lease of one network does not delay another network", async () => {
  await queue(1);
  await take("one");
  expect(await take("two", "base")).toBe("idle");
});

test("a worker with the lease of one network neither has another network's, nor releases the first when the other is idle", async () => {
  await lab.sql`
    insert into drain_leases (network, holder, until) values ('base', 'one', now() + interval '1 minute')`;
  await queue(1);
  expect(await take("two")).toBe("taken");
  expect(await take("one")).toBe("busy");
  await leaseAll();
  expect(await take("two")).toBe("released");
  expect(await take("one")).toBe("idle");
  await releaseDrainLease(lab.sql, drainOf("one"));
  expect([...(await lab.sql`select network, holder from drain_leases where until > now()`)]).toEqual([
    { network: "base", holder: "one" },
  ]);
});

describe("a job that wakes a worker", () => {
  const enqueueUnlessDrained = (tx: Tx) =>
    enqueue(tx, "relay_payments", { network: NETWORK }, { unless: isDrained(tx, NETWORK) });
  const takeJobs = async () => {
    const jobs = await lab.sql<{ id: string }[]>`
      select id::text from graphile_worker.jobs where task_identifier = 'relay_payments'`;
    await lab.sql`select graphile_worker.complete_jobs(${jobs.map(({ id }) => id)}::bigint[])`;
    return jobs.length > 0;
  };
  const isJobAdded = async () => {
    await lab.sql.begin(enqueueUnlessDrained);
    return takeJobs();
  };

  test("is added with a payment that is stored, but not with one that is refused", async () => {
    const [linkId = ""] = await seedLinks(lab.sql, lab.merchant, { count: 1, amountUnits: 10_000n });
    const acceptor = openAcceptor(lab.sql, storeLinkPayments);
    expect([await acceptor.accept(makePayment(lab, linkId)), await takeJobs()]).toEqual([true, true]);
    expect([await acceptor.accept(makePayment(lab, linkId)), await takeJobs()]).toEqual([false, false]);
  });

  test("is not added with a payment that is stored while a worker drains the network", async () => {
    await queue(1);
    await take("one");
    const [linkId = ""] = await seedLinks(lab.sql, lab.merchant, { count: 1, amountUnits: 10_000n });
    const acceptor = openAcceptor(lab.sql, storeLinkPayments);
    expect([await acceptor.accept(makePayment(lab, linkId)), await takeJobs()]).toEqual([true, false]);
  });

  test("is added unless a worker drains the network: not before it starts, after its lease, or on another network", async () => {
    expect(await isJobAdded()).toBe(true);
    await queue(1);
    await take("one");
    expect(await isJobAdded()).toBe(false);
    await lab.sql`update drain_leases set until = now()`;
    expect(await isJobAdded()).toBe(true);
    await lab.sql`update drain_leases set until = now() + interval '1 minute', network = 'base'`;
    expect(await isJobAdded()).toBe(true);
  });

  test("is not missed: a drain does not end before a payment queued during it, and then finds it", async () => {
    await queue(1);
    await take("one");
    await leaseAll();
    const [linkId = ""] = await seedLinks(lab.sql, lab.merchant, { count: 1, amountUnits: 10_000n });
    await lab.sql.begin(async (tx) => {
      await storeLinkPayments(tx, [makePayment(lab, linkId)]);
      await enqueueUnlessDrained(tx);
      // neither waits for the transaction, whose process may be frozen
      expect(await take("one")).toBe("awaited");
      await releaseDrainLease(lab.sql, { network: NETWORK, holder: "one", batchMax: BATCH, leaseMs: 1 });
    });
    // an ended lease is counted on by nobody, and is the holder's own to take again
    expect(await isJobAdded()).toBe(true);
    expect(await take("one")).toBe("taken");
    await leaseAll();
    expect([await take("one"), await take("one")]).toEqual(["released", "idle"]);
  });

  test("does not block the drain: the lease is extended concurrently", async () => {
    await queue(1);
    await take("one");
    await lab.sql.begin(async (tx) => {
      await enqueueUnlessDrained(tx);
      expect(await take("one")).toBe("taken");
    });
  });
});
