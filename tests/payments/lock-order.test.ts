/** Statements that change several payments lock them in the order of their ids, like a commit of blocks and a worker that ends payments. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { newPaymentId } from "../../core/domain/ids.ts";
import { lockPayments } from "../../db/payments/payments.ts";
import {
  noteRefusals,
  noteUnavailable,
  requeueExpired,
  requeueRelay,
  requeueUnsettled,
  returnLeases,
} from "../../db/payments/queue.ts";
import { resolveOutcomes, resolveUnusedOutcomes } from "../../db/payments/resolve-outcomes.ts";
import { asLeased } from "../support/as-leased.ts";
import { accept, type BooksLab, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";
import { relayOf } from "../support/signed-relay.ts";
import { meet } from "../support/until-blocked.ts";

const READ_TO = 100;
const DEEP_TIME_S = 1_800_000_000;
let lab: BooksLab;
/** Of two payments. The higher was accepted first and is named first, so it is found first. */
let low: string;
let high: string;

beforeAll(async () => {
  lab = await openBooks({ readTo: READ_TO });
  await lab.sql`
    insert into blocks (network, number, hash, parent_hash, block_time)
    select ${NETWORK}, number, ${randomHash()}, ${randomHash()}, to_timestamp(${DEEP_TIME_S}::float8)
    from generate_series(${READ_TO - 5}::int, ${READ_TO}) as number
    on conflict do nothing`;
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  await lab.sql`truncate payments, open_payments, relays, relay_payments, payment_leases cascade`;
  lab.merchant = await seedMerchant(lab.sql);
  await lab.sql`update wallets set backfilled_at = now() where id = ${lab.merchant.walletId}`;
  [low = "", high = ""] = [newPaymentId(), newPaymentId()].sort();
  for (const id of [high, low]) {
    const payment = await accept(lab, await seedLink(lab.sql, lab.merchant));
    await lab.sql`
      with renamed as (
        update open_payments set payment_id = ${id} where payment_id = ${payment?.id ?? ""}
      )
      update payments set id = ${id} where id = ${payment?.id ?? ""}`;
  }
});

const both = () => [high, low].map((id) => ({ id }));
const leasedHighFirst = async () =>
  (await asLeased(lab.sql, both())).toSorted((a, b) => (a.id < b.id ? 1 : -1));
const statesOf = async () => {
  const rows = await lab.sql<{ state: string }[]>`select state from payments order by id`;
  return rows.map(({ state }) => state);
};
async function sign(): Promise<bigint> {
  const { relayId } = await relayOf(lab.sql, ...both());
  return relayId;
}
/** While a transaction of the ledger holds the lower payment and then takes the higher. */
const whileLocked = (other: () => Promise<unknown>) =>
  meet(lab.sql, { first: (tx) => lockPayments(tx, [low]), second: (tx) => lockPayments(tx, [high]) }, other);

test("leases that are returned", async () => {
  const leased = await leasedHighFirst();
  await whileLocked(() => returnLeases(lab.sql, leased, 60_000));
  const due = await lab.sql`select from payments where next_try_at < now() + interval '30 seconds'`;
  expect(due).toHaveLength(0);
});

test("leases that end with a refusal", async () => {
  const leased = await leasedHighFirst();
  await whileLocked(() => noteRefusals(lab.sql, leased, 60_000));
  expect(await lab.sql`select from payments where refusals = 1`).toHaveLength(2);
});

test("leases that end while a node is unavailable", async () => {
  const leased = await leasedHighFirst();
  await whileLocked(() => noteUnavailable(lab.sql, leased, { delayMs: 0, triedMs: 1_000, giveUpMs: 60_000 }));
  expect(await lab.sql`select from payments where unavailable_since is not null`).toHaveLength(2);
});

test("payments of a lost relay", async () => {
  const relayId = await sign();
  await whileLocked(() => lab.sql.begin((tx) => requeueRelay(tx, relayId)));
  expect(await statesOf()).toEqual(["QUEUED", "QUEUED"]);
});

test("payments that their block did not settle", async () => {
  const relayId = await sign();
  await lab.sql`
    update relays
    set
      state = 'MINED', block_number = ${READ_TO - 3}, succeeded = false, gas_used = 1, fee_wei = 1, mined_at = now(),
      (tx_hash, block_hash) = (
        select attempt.tx_hash, blocks.hash
        from relay_attempts attempt, blocks
        where attempt.relay_id = relays.id and blocks.network = ${NETWORK} and blocks.number = ${READ_TO - 3}
      )
    where id = ${relayId}`;
  await whileLocked(() =>
    lab.sql.begin(async (tx) => {
      // as planned for a larger table, whose rows are read in their order on disk
      await tx`set local enable_indexscan = off`;
      await requeueUnsettled(tx, NETWORK, 2);
    }),
  );
  expect(await statesOf()).toEqual(["QUEUED", "QUEUED"]);
});

test("payments whose window ended before their transaction was mined", async () => {
  await sign();
  await lab.sql`update payments set valid_before = ${DEEP_TIME_S}`;
  await whileLocked(() => lab.sql.begin((tx) => requeueExpired(tx, NETWORK, 2)));
  expect(await statesOf()).toEqual(["QUEUED", "QUEUED"]);
});

test("payments of unknown outcome that the ledger has decided", async () => {
  await lab.sql`update payments set state = 'FAILED', reason = 'NONCE_USED', doubt_since = now(), doubt_until = now() + interval '1 hour'`;
  await whileLocked(() => lab.sql.begin((tx) => resolveOutcomes(tx, [high, low])));
  expect(await lab.sql`select from payments where doubt_until is not null`).toHaveLength(0);
});

test("payments of unknown outcome whose authorizations are unused", async () => {
  await lab.sql`
    update payments
    set
      state = 'FAILED', reason = 'NONCE_USED', doubt_since = to_timestamp(${DEEP_TIME_S - 100}::float8),
      doubt_until = to_timestamp(${DEEP_TIME_S + 100}::float8)`;
  const unused = { paymentIds: [high, low], headNumber: BigInt(READ_TO), depthBlocks: 2 };
  await whileLocked(() => lab.sql.begin((tx) => resolveUnusedOutcomes(tx, NETWORK, unused)));
  expect(await lab.sql`select from payments where doubt_until is not null`).toHaveLength(0);
});
