/** Gathering a batch: it ends when the batch is full or the burst after a block is over, long before its time is. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { countDue, type Drain } from "../../db/payments/drain-lease.ts";
import { leaseQueuedPayments } from "../../db/payments/queue.ts";
import { gatherBatch } from "../../worker/payments/gather-batch.ts";
import { openLedgerProgress } from "../../worker/payments/ledger-progress.ts";
import type { PaymentNetwork } from "../../worker/payments/payment-network.ts";
import { accept, type BooksLab, NETWORK, openBooks } from "../support/ledger-lab.ts";
import { waitFor } from "../support/relay-lab.ts";
import { seedLinks, seedMerchant } from "../support/seed.ts";

const BATCH = 3;
/** Nobody waits that long: a gathering that lasts until its time is over fails by the test's timeout. */
const FOREVER_MS = 3_600_000;
const drain: Drain = { network: NETWORK, holder: "one", batchMax: BATCH, leaseMs: 30_000 };
let lab: BooksLab;
let ledger: ReturnType<typeof openLedgerProgress>;

beforeAll(async () => {
  lab = await openBooks({ readTo: 100 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  await lab.sql`update payments set next_try_at = now() + interval '1 hour'`;
  lab.merchant = await seedMerchant(lab.sql);
  ledger = openLedgerProgress();
});

async function queue(count: number): Promise<void> {
  const links = await seedLinks(lab.sql, lab.merchant, { count, amountUnits: 10_000n });
  for (const link of links) await accept(lab, link);
}

/** By default more than a batch was answered, so that it is full or the burst over. */
function gather(gatherMs: number, { sql = lab.sql, answered = 2 * BATCH } = {}): Promise<void> {
  const deps = { asyncCommitSql: sql } as PaymentNetwork["deps"];
  return gatherBatch({ deps, ledger }, drain, { gatherMs, answered });
}

/** Counts of due payments over `sql`, as they are answered. */
function watchCounts() {
  const answered: Promise<unknown>[] = [];
  const sql = new Proxy(lab.sql, {
    apply(target, self, given) {
      const query = Reflect.apply(target, self, given);
      if (String(given[0]).includes("count(*)")) answered.push(query.then());
      return query;
    },
  });
  return { sql, answered };
}

test("due payments are counted up to a full batch, without leased ones", async () => {
  const counts = [await countDue(lab.sql, drain)];
  await queue(2);
  counts.push(await countDue(lab.sql, drain));
  await queue(2);
  counts.push(await countDue(lab.sql, drain));
  await leaseQueuedPayments(lab.sql, NETWORK, 2, 30_000);
  counts.push(await countDue(lab.sql, drain));
  expect(counts).toEqual([0, 2, 3, 2]);
});

test("a full batch is counted once after the block, and gathered no further", async () => {
  await queue(BATCH);
  const counts = watchCounts();
  const gathered = gather(FOREVER_MS, { sql: counts.sql });
  ledger.noteRead(101n);
  await gathered;
  expect(counts.answered.length).toBe(1);
});

test("a batch that does not fill is gathered until the burst after the block has ended", async () => {
  await queue(1);
  const gathered = gather(FOREVER_MS);
  ledger.noteRead(101n);
  await gathered;
  expect(await countDue(lab.sql, drain)).toBe(1);
});

test("a batch is gathered until as many payments have arrived as were answered, and no longer", async () => {
  const counts = watchCounts();
  const gathered = gather(FOREVER_MS, { sql: counts.sql, answered: BATCH - 1 });
  ledger.noteRead(101n);
  await waitFor("the count of what was due before", async () => (await counts.answered[0]) !== undefined);
  await queue(BATCH - 1);
  const before = counts.answered.length;
  await gathered;
  // one may have begun before they came
  expect(counts.answered.length - before).toBeLessThanOrEqual(2);
  expect(await countDue(lab.sql, drain)).toBe(BATCH - 1);
});

test("without a block a batch is gathered for its time", async () => {
  await queue(1);
  await gather(20);
  expect(await countDue(lab.sql, drain)).toBe(1);
});
