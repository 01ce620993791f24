/** What payments answer the sender about their relays: which are obsolete, and what is queued again when one is lost or settles nothing. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { openLog } from "../../core/runtime/log.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import { findExpiredRelays } from "../../db/payments/queue.ts";
import { findInFlight, markMined } from "../../db/relays/relays.ts";
import { openPaymentRelays } from "../../worker/payments/payment-relays.ts";
import {
  accept,
  type BooksLab,
  NETWORK,
  openBooks,
  paymentOf,
  randomHash,
  signRelay,
} from "../support/ledger-lab.ts";
import { seedLink } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";

const MINED_AT = 90n;
const WINDOW_END_S = 2_000_000_000n;
const kind = openPaymentRelays({ log: openLog("test", "silent") });
let lab: BooksLab;

beforeAll(async () => {
  lab = await openBooks();
  await lab.sql`update wallets set backfilled_at = now() where id = ${lab.merchant.walletId}`;
});
afterAll(() => lab?.stop());

async function signed(): Promise<{ payment: NewPayment; relayId: bigint; txHash: Hex }> {
  const payment = await accept(lab, await seedLink(lab.sql, lab.merchant));
  if (!payment) throw new Error("the payment was not accepted");
  await lab.sql`update payments set valid_before = ${WINDOW_END_S} where id = ${payment.id}`;
  return { payment, ...(await signRelay(lab, payment)) };
}

const isObsolete = async (relayId: bigint, nowS: bigint) =>
  (await findExpiredRelays(lab.sql, [relayId], { nowS })).has(relayId);

test("a relay is obsolete from the second at which its last authorization ends, not before", async () => {
  const { relayId, payment } = await signed();
  expect(await isObsolete(relayId, WINDOW_END_S - 1n)).toBe(false);
  expect(await isObsolete(relayId, WINDOW_END_S)).toBe(true);
  const other = await signed();
  await lab.sql`
    update payments set relay_id = ${relayId}, valid_before = ${WINDOW_END_S + 1n} where id = ${other.payment.id}`;
  expect(await isObsolete(relayId, WINDOW_END_S)).toBe(false);
  await lab.sql`update payments set state = 'MINED' where id = any(${[payment.id, other.payment.id]}::text[])`;
  expect(await isObsolete(relayId, 0n)).toBe(true);
});

test("a relay of payments that an earlier version left BROADCAST lasts as long as they do, and returns them when lost", async () => {
  const { relayId, payment } = await signed();
  await lab.sql`update payments set state = 'BROADCAST' where id = ${payment.id}`;
  expect(await isObsolete(relayId, WINDOW_END_S - 1n)).toBe(false);
  await lab.sql.begin((tx) => kind.requeueLost?.(tx, NETWORK, relayId));
  expect(await paymentOf(lab, payment)).toMatchObject({ state: "QUEUED" });
});

test("of a lost relay, waiting payments are queued again and a job is enqueued; settled ones are kept", async () => {
  const [waiting, settled] = [await signed(), await signed()];
  await lab.sql`
    update payments set relay_id = ${waiting.relayId}, state = 'MINED' where id = ${settled.payment.id}`;
  await lab.sql`delete from graphile_worker._private_jobs`;
  await lab.sql.begin((tx) => kind.requeueLost?.(tx, NETWORK, waiting.relayId));
  expect(await paymentOf(lab, waiting.payment)).toMatchObject({ state: "QUEUED" });
  expect(await paymentOf(lab, settled.payment)).toMatchObject({ state: "MINED" });
  const [row] = await lab.sql<{ relayId: bigint | null }[]>`
    select relay_id from payments where id = ${waiting.payment.id}`;
  expect(row).toEqual({ relayId: null });
  expect(
    await lab.sql`select from graphile_worker.jobs where task_identifier = 'relay_payments'`,
  ).toHaveLength(1);
});

test("a mined relay that did not settle its only payment counts as reverted; one whose payment was left out does not", async () => {
  const blockHash = randomHash();
  await lab.sql`
    insert into blocks (network, number, hash, parent_hash, block_time)
    values (${NETWORK}, ${MINED_AT}, ${blockHash}, ${randomHash()}, to_timestamp(${Number(WINDOW_END_S - 1n)}))`;
  const [tried, leftOut] = [await signed(), await signed()];
  await lab.sql`update relay_attempts set left_out = ${[leftOut.payment.id]} where tx_hash = ${leftOut.txHash}`;
  const place = { blockNumber: MINED_AT, blockHash, succeeded: true, gasUsed: 1n, feeWei: 1n };
  await lab.sql.begin((tx) =>
    markMined(
      tx,
      [tried, leftOut].map(({ relayId, txHash }) => ({ relayId, txHash, ...place })),
    ),
  );
  const reverted = await lab.sql.begin((tx) => kind.requeueUnsettled?.(tx, NETWORK, { depthBlocks: 1 }));
  expect(reverted).toEqual([tried.relayId]);
  for (const { payment } of [tried, leftOut])
    expect(await paymentOf(lab, payment)).toMatchObject({ state: "QUEUED" });
});

test("a relay mined in the second in which the payment's window ends counts no revert, one mined earlier does", async () => {
  const relays: Awaited<ReturnType<typeof signed>>[] = [];
  for (const [number, timeS] of [
    [MINED_AT + 1n, WINDOW_END_S],
    [MINED_AT + 2n, WINDOW_END_S - 1n],
  ] as const) {
    const [relay, blockHash] = [await signed(), randomHash()];
    await lab.sql`
      insert into blocks (network, number, hash, parent_hash, block_time)
      values (${NETWORK}, ${number}, ${blockHash}, ${randomHash()}, to_timestamp(${Number(timeS)}))`;
    const place = { blockNumber: number, blockHash, succeeded: true, gasUsed: 1n, feeWei: 1n };
    await lab.sql.begin((tx) => markMined(tx, [{ ...relay, ...place }]));
    relays.push(relay);
  }
  const reverted = await lab.sql.begin((tx) => kind.requeueUnsettled?.(tx, NETWORK, { depthBlocks: 1 }));
  expect(reverted).toEqual(relays.slice(1).map(({ relayId }) => relayId));
});

/** A relay that carries two payments. */
async function signedTogether() {
  const [kept, other] = [await signed(), await signed()];
  const { relayId } = kept;
  const ids = [kept.payment.id, other.payment.id];
  await lab.sql`update relay_payments set payment_ids = ${ids}::text[] where relay_id = ${relayId}`;
  await lab.sql`
    update payments set signature = decode(repeat('1b', 65), 'hex'), relay_id = ${relayId}
    where id = any(${ids}::text[])`;
  return { relayId, kept, other };
}

/** What replaces the relay, at the head that the ledger has read. */
function revise(relayId: bigint) {
  return lab.sql.begin(async (tx) => {
    const [relay] = (await findInFlight(tx, NETWORK, { after: undefined, limit: 100 })).filter(
      ({ id }) => id === relayId,
    );
    const [cursor] = await tx<{ headNumber: bigint; headHash: Hex }[]>`
      select number as head_number, hash as head_hash from cursors where network = ${NETWORK}`;
    if (!relay || !cursor || !kind.revise) throw new Error("the relay is not pending");
    const head = { ...cursor, askedAtMs: performance.now(), isStalled: false };
    return kind.revise(tx, NETWORKS[NETWORK], relay, head);
  });
}

test("a replacement omits payments that failed or were queued again since signing, and keeps those a block settled", async () => {
  const { relayId, other } = await signedTogether();
  expect((await revise(relayId))?.leftOut ?? []).toEqual([]);
  for (const [state, isBound, leftOut] of [
    ["MINED", true, []],
    ["FAILED", true, [other.payment.id]],
    ["QUEUED", false, [other.payment.id]],
    ["SIGNED", false, [other.payment.id]],
  ] as const) {
    await lab.sql`
      update payments
      set state = ${state}, relay_id = ${isBound ? relayId : null}, reason = ${state === "FAILED" ? "INSUFFICIENT_FUNDS" : null}
      where id = ${other.payment.id}`;
    const revised = await revise(relayId);
    expect({ state, isNoop: revised?.isNoop, leftOut: revised?.leftOut ?? [] }).toEqual({
      state,
      isNoop: false,
      leftOut: [...leftOut],
    });
  }
});

test("a replacement omits a payment that is signed in another transaction while it waits for the payment", async () => {
  const { relayId, kept, other } = await signedTogether();
  const { relayId: elsewhere } = await signed();
  let revising: ReturnType<typeof revise> | undefined;
  await lab.sql.begin(async (tx) => {
    await tx`update payments set relay_id = ${elsewhere} where id = ${other.payment.id}`;
    revising = revise(relayId);
    await untilBlocked(lab.sql, revising);
  });
  const revised = await revising;
  expect(revised).toMatchObject({ isNoop: false, leftOut: [other.payment.id] });
  const carries = ({ payment }: typeof kept) => revised?.call.data.includes(payment.nonce.slice(2));
  expect([carries(kept), carries(other)]).toEqual([true, false]);
});
