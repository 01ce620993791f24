/** Statements of the queue of operations, each beside the rows that it must leave alone: another worker has moved them, or they are others'. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { confirmRelays } from "../../db/relays/relays.ts";
import { reopenRelays } from "../../db/relays/reorganised-relays.ts";
import {
  failQueuedOperations,
  failUnsentOperations,
  markOperationsBroadcast,
  requeueUnrunOperations,
  returnOperations,
} from "../../db/wallet-ops/queue.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { type Made, type OperationLab, openOperationLab } from "../support/operation-lab.ts";
import { randomAddress } from "../support/seed.ts";

let lab: OperationLab;
let sql: Sql;
let { queued, relayed, rowOf } = {} as OperationLab;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql, queued, relayed, rowOf } = lab);
});
afterAll(() => lab?.stop());

/** How many refusals it has had, and whether it is due again. */
const dueOf = async (made: Made) => {
  const [row] = await sql<{ refusals: number; isDue: boolean }[]>`
    select refusals, next_try_at <= now() as is_due from wallet_operations where id = ${made.id}`;
  return row;
};

test("a refusal counts and delays the refused operation while it is QUEUED, and no other", async () => {
  const [refused, other, taken] = [await queued(), await queued(), await relayed("SIGNED")];
  const after = { delayMs: 60_000, areRefused: true };
  await returnOperations(sql, [refused.id, taken.id], after);
  expect(await Promise.all([refused, other, taken].map(dueOf))).toEqual([
    { refusals: 1, isDue: false },
    { refusals: 0, isDue: true },
    { refusals: 0, isDue: true },
  ]);
  await returnOperations(sql, [refused.id], { delayMs: 0 });
  expect(await dueOf(refused)).toEqual({ refusals: 1, isDue: true });
});

test("an operation that waited too long does not end while a worker has leased it", async () => {
  const made = await queued();
  await sql`
    update wallet_operations
    set queued_at = now() - interval '1 hour', next_try_at = now() + interval '1 minute'
    where id = ${made.id}`;
  expect(await failUnsentOperations(sql, NETWORK)).toEqual([]);
  await returnOperations(sql, [made.id], { delayMs: 0 });
  expect(await failUnsentOperations(sql, NETWORK)).toEqual([made.id]);
});

test("bytes that may be public make their own relay's SIGNED operations BROADCAST, and none that has its block", async () => {
  const [sent, other, mined] = [await relayed("SIGNED"), await relayed("SIGNED"), await relayed("SIGNED")];
  await sql`
    update wallet_operations
    set state = 'MINED', succeeded = true, tx_hash = '0x', block_number = 1, relay_id = (
      select relay_id from wallet_operations where id = ${sent.id}
    )
    where id = ${mined.id}`;
  const { relayId } = await rowOf(sent);
  expect(await markOperationsBroadcast(sql, relayId ?? 0n)).toEqual([sent.id]);
  const states = await Promise.all([sent, other, mined].map(async (made) => (await rowOf(made)).state));
  expect(states).toEqual(["BROADCAST", "SIGNED", "MINED"]);
});

test("an operation that has its block, or has ended, stays so whatever becomes of its relay", async () => {
  const states = ["SIGNED", "BROADCAST", "MINED", "CONFIRMED", "FAILED", "CANCELLED", "EXPIRED"] as const;
  for (const [relayState, block] of [
    ["CONFIRMED", 50],
    ["LOST", null],
  ] as const) {
    const all: Made[] = [];
    for (const state of states) {
      const made = await relayed(relayState, block);
      await sql`
        update wallet_operations
        set
          state = ${state}, succeeded = true, tx_hash = '0x', block_number = 50,
          reason = case when ${state} = 'FAILED' then 'REVERTED' end
        where id = ${made.id}`;
      all.push(made);
    }
    const { requeued, failed } = await requeueUnrunOperations(sql, NETWORK, 3);
    expect([requeued.toSorted(), failed]).toEqual([
      all
        .slice(0, 2)
        .map(({ id }) => id)
        .sort(),
      [],
    ]);
    const after = await Promise.all(all.map(async (made) => (await rowOf(made)).state));
    expect(after).toEqual(["QUEUED", "QUEUED", ...states.slice(2)]);
  }
});

test("a relay whose block the ledger does not have keeps its operation until a node has confirmed that block", async () => {
  const [made, gone] = [await relayed("MINED", 93), await relayed("MINED", 94)];
  const requeued = async () => (await requeueUnrunOperations(sql, NETWORK, 3)).requeued;
  expect(await requeued()).toEqual([]);
  expect(await rowOf(made)).toMatchObject({ state: "SIGNED", missedRelays: 0 });
  const { relayId: id } = await rowOf(gone);
  const { relayId } = await rowOf(made);
  if (id === null || relayId === null) throw new Error("no relay");
  // another node has never seen its block: the transaction is pending, and may still execute the operation
  const [relay] = await sql<{ blockHash: Hex }[]>`select block_hash from relays where id = ${id}`;
  expect(await reopenRelays(sql, [{ id, blockHash: relay?.blockHash ?? "0x" }])).toBe(1);
  await confirmRelays(sql, NETWORK, { depthBlocks: 3, provenIds: [relayId] });
  expect(await requeued()).toEqual([made.id]);
  expect(await rowOf(gone)).toMatchObject({ state: "SIGNED", relayId: id, missedRelays: 0 });
});

test("the event of an operation that failed names its own amount and recipients, without the fee", async () => {
  const item = (amountUnits: bigint, isFee = false) => ({
    ...{ to: randomAddress(), amountUnits, note: "", isFee },
  });
  const failing = await queued(undefined, 0n, { items: [item(5n), item(6n), item(100n, true)] });
  await queued(undefined, 0n, { items: [item(7n)] });
  expect(await failQueuedOperations(sql, [{ id: failing.id, reason: "NOT_SENT" }])).toEqual([failing.id]);
  const events = await sql`
    select data from events where subject_id = ${failing.id} and type = 'wallet.send_failed'`;
  expect([...events]).toEqual([
    { data: { reason: "NOT_SENT", network: NETWORK, amount: "0.000011", recipients: 2, linkId: null } },
  ]);
});
