/** When an operation may be called ended, and when it may still happen: each edge just inside and just outside. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Sql } from "../../db/postgres/client.ts";
import { confirmDeepOperations } from "../../db/wallet-ops/confirm-operations.ts";
import { findUnspentNonces } from "../../db/wallet-ops/missed-events.ts";
import { findLiveOperation, findOperation } from "../../db/wallet-ops/operations.ts";
import {
  failUnsentOperations,
  leaseQueuedOperations,
  markOperationsBroadcast,
  markOperationsSigned,
  requeueUnrunOperations,
  returnOperations,
} from "../../db/wallet-ops/queue.ts";
import { reopenOperations } from "../../db/wallet-ops/reorganised-operations.ts";
import { recordOperationEvents, settleOperations } from "../../db/wallet-ops/settlement.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import {
  eventOf,
  type Made,
  type OperationLab,
  openOperationLab,
  randomHash,
} from "../support/operation-lab.ts";

setDefaultTimeout(120_000);
const OTHER_NETWORK = "base";
const LATE = "901 seconds";

let lab: OperationLab;
let sql: Sql;
let { makeOperation, queued, makeRelay, relayed, rowOf } = {} as OperationLab;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql, makeOperation, queued, makeRelay, relayed, rowOf } = lab);
  await sql`insert into cursors (network, number, hash, head_number) values (${OTHER_NETWORK}, 500, ${randomHash()}, 500)`;
});
afterAll(() => lab?.stop());

const view = ({ id, userId }: Made) => findOperation(sql, { id, userId, kind: "SEND" });

async function age(made: Made, by: string): Promise<void> {
  await sql`update wallet_operations set queued_at = now() - ${by}::text::interval where id = ${made.id}`;
}

describe("an ended operation's nonce", () => {
  test("is spent by this account's event of this nonce or a later one, on this network, under key 0", async () => {
    const [made, stranger] = [await makeOperation(undefined, 5n), await makeOperation(undefined, 5n)];
    const others = [
      eventOf(made, { nonce: 4n, userOpHash: randomHash() }),
      eventOf(made, { nonce: 1n << 64n, userOpHash: randomHash() }),
      eventOf(stranger, { nonce: 5n }),
    ];
    await recordOperationEvents(sql, NETWORK, others);
    await recordOperationEvents(sql, OTHER_NETWORK, [eventOf(made, { nonce: 5n })]);
    expect(await view(made)).toMatchObject({ isNonceSpent: false });
    expect(await view(stranger)).toMatchObject({ isNonceSpent: true });
    await recordOperationEvents(sql, NETWORK, [eventOf(made, { nonce: 6n, userOpHash: randomHash() })]);
    expect(await view(made)).toMatchObject({ isNonceSpent: true });
  });

  test("is free again when the block of that event is reorganised away: FAILED means that it is still possible", async () => {
    const made = await relayed("BROADCAST");
    await recordOperationEvents(sql, NETWORK, [
      eventOf(made, { userOpHash: randomHash(), blockNumber: 300 }),
    ]);
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 300 });
    expect(await rowOf(made)).toMatchObject({ state: "FAILED", reason: "NONCE_TAKEN" });
    await reopenOperations(sql, { network: NETWORK, ancestor: 300 });
    expect(await view(made)).toMatchObject({ isNonceSpent: true });
    await reopenOperations(sql, { network: NETWORK, ancestor: 299 });
    expect(await view(made)).toMatchObject({ state: "FAILED", isNonceSpent: false });
  });
});

describe("NONCE_TAKEN", () => {
  test("requires another operation of the same account, nonce and network; other spent nonces are irrelevant", async () => {
    const [made, stranger] = [await relayed("BROADCAST"), await relayed("BROADCAST")];
    await recordOperationEvents(sql, NETWORK, [
      eventOf(made, { userOpHash: randomHash(), nonce: 1n }),
      eventOf(stranger, { userOpHash: randomHash() }),
    ]);
    await recordOperationEvents(sql, OTHER_NETWORK, [eventOf(made, { userOpHash: randomHash() })]);
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 100 });
    expect(await rowOf(made)).toMatchObject({ state: "SIGNED", reason: null });
    expect(await rowOf(stranger)).toMatchObject({ state: "FAILED", reason: "NONCE_TAKEN" });
  });

  test("does not follow from the operation's own event", async () => {
    const made = await relayed("BROADCAST");
    await recordOperationEvents(sql, NETWORK, [eventOf(made)]);
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 100 });
    expect(await rowOf(made)).toMatchObject({ state: "SIGNED", reason: null });
  });

  test("ends no operation that was not confirmed, and none that has ended", async () => {
    const [waiting, ended] = [await makeOperation(), await queued()];
    await sql`update wallet_operations set state = 'FAILED', reason = 'NOT_SENT' where id = ${ended.id}`;
    for (const made of [waiting, ended])
      await recordOperationEvents(sql, NETWORK, [eventOf(made, { userOpHash: randomHash() })]);
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 100 });
    expect(await rowOf(waiting)).toMatchObject({ state: "AWAITING_SIGNATURE" });
    expect(await rowOf(ended)).toMatchObject({ state: "FAILED", reason: "NOT_SENT" });
  });
});

describe("an event whose calls failed", () => {
  test("ends its operation with the event's reason when deep, but not with that of another nonce or network", async () => {
    const made = await relayed("BROADCAST");
    const event = eventOf(made, { succeeded: false, failure: "INSUFFICIENT_FUNDS" });
    await recordOperationEvents(sql, OTHER_NETWORK, [{ ...event, failure: "PAYMENT_NOT_ALLOWED" }]);
    await recordOperationEvents(sql, NETWORK, [event]);
    await settleOperations(sql, NETWORK, [event]);
    await confirmDeepOperations(sql, { network: OTHER_NETWORK, depthNumber: 100 });
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 99 });
    expect(await rowOf(made)).toMatchObject({ state: "MINED" });
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 100 });
    expect(await rowOf(made)).toMatchObject({ state: "FAILED", reason: "INSUFFICIENT_FUNDS" });
  });
});

describe("the event of an operation that is not queued", () => {
  for (const [state, reason] of [
    // signed, and sent by someone else before it was confirmed
    ["AWAITING_SIGNATURE", null],
    ["EXPIRED", null],
    ["CANCELLED", null],
    ["FAILED", "NOT_SENT"],
  ] as const)
    test(`makes ${state} MINED next to a live operation of the wallet, and a reorganisation reverts that`, async () => {
      const made = await queued();
      await sql`update wallet_operations set state = ${state}, reason = ${reason} where id = ${made.id}`;
      const live = await queued(made, 1n);
      const event = eventOf(made, { blockNumber: 400 });
      await recordOperationEvents(sql, NETWORK, [event]);
      expect(await settleOperations(sql, OTHER_NETWORK, [event])).toEqual([]);
      expect(await settleOperations(sql, NETWORK, [event])).toEqual([made.id]);
      expect(await rowOf(made)).toMatchObject({ state: "MINED", reason: null, isExtra: true });
      expect(await findLiveOperation(sql, made.walletId)).toBe(live.id);
      await reopenOperations(sql, { network: OTHER_NETWORK, ancestor: 0 });
      expect(await rowOf(made)).toMatchObject({ state: "MINED" });
      await reopenOperations(sql, { network: NETWORK, ancestor: 399 });
      expect(await rowOf(made)).toMatchObject({
        ...{ state, reason, txHash: null, blockNumber: null, isExtra: false },
      });
    });
});

test("a reorganisation below an operation's block does not affect it; a LOST relay no longer carries it", async () => {
  const [kept, lost] = [await relayed("CONFIRMED", 600), await relayed("LOST")];
  for (const made of [kept, lost]) {
    const event = eventOf(made, { blockNumber: 600 });
    await recordOperationEvents(sql, NETWORK, [event]);
    await settleOperations(sql, NETWORK, [event]);
  }
  expect(await reopenOperations(sql, { network: NETWORK, ancestor: 600 })).toEqual([]);
  expect((await reopenOperations(sql, { network: NETWORK, ancestor: 599 })).sort()).toEqual(
    [kept.id, lost.id].sort(),
  );
  expect(await rowOf(kept)).toMatchObject({ state: "BROADCAST", isExtra: false });
  expect(await rowOf(lost)).toMatchObject({ state: "QUEUED", relayId: null });
});

test("only a reported end is withdrawn by an event", async () => {
  const [mined, confirmed] = [await relayed("CONFIRMED", 700), await relayed("CONFIRMED", 700)];
  for (const [made, blockNumber] of [
    [mined, 701],
    [confirmed, 700],
  ] as const) {
    const event = eventOf(made, { blockNumber });
    await recordOperationEvents(sql, NETWORK, [event]);
    await settleOperations(sql, NETWORK, [event]);
  }
  await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 700 });
  await reopenOperations(sql, { network: NETWORK, ancestor: 699 });
  const rows = await sql<{ subjectId: string }[]>`
    select subject_id from events
    where type = 'wallet.send_reorged' and subject_id in (${mined.id}, ${confirmed.id})`;
  expect(rows.map(({ subjectId }) => subjectId)).toEqual([confirmed.id]);
});

describe("NOT_SENT", () => {
  test("applies to what was never sent, is due, and is on this network, unless a lease is running", async () => {
    const [late, leased, sent] = [await queued(), await queued(), await relayed("LOST")];
    for (const made of [late, leased, sent]) await age(made, LATE);
    await requeueUnrunOperations(sql, NETWORK, 1);
    expect(await rowOf(sent)).toMatchObject({ state: "QUEUED" });
    await sql`update wallet_operations set next_try_at = now() + interval '5 minutes' where id = ${leased.id}`;
    expect(await failUnsentOperations(sql, OTHER_NETWORK)).toEqual([]);
    expect(await failUnsentOperations(sql, NETWORK)).toEqual([late.id]);
    expect(await rowOf(late)).toMatchObject({ state: "FAILED", reason: "NOT_SENT", signature: null });
    const again = await leaseQueuedOperations(sql, NETWORK, { limit: 100, leaseMs: 0 });
    expect(again.map(({ id }) => id)).toContain(sent.id);
    expect(again.map(({ id }) => id)).not.toContain(leased.id);
  });

  test("does not end what is signed in the meantime", async () => {
    const made = await relayed("BROADCAST");
    await age(made, LATE);
    await sql`update wallet_operations set relayed_at = null where id = ${made.id}`;
    expect(await failUnsentOperations(sql, NETWORK)).not.toContain(made.id);
    expect(await rowOf(made)).toMatchObject({ state: "SIGNED" });
  });
});

test("a lease takes what is queued and due on its network, the longest due first", async () => {
  const [first, second, later] = [await queued(), await queued(), await queued()];
  await sql`update wallet_operations set next_try_at = now() - interval '1 hour' where id = ${first.id}`;
  await sql`update wallet_operations set next_try_at = now() - interval '50 minutes' where id = ${second.id}`;
  await sql`update wallet_operations set next_try_at = now() + interval '1 minute' where id = ${later.id}`;
  expect(await leaseQueuedOperations(sql, OTHER_NETWORK, { limit: 100, leaseMs: 60_000 })).toEqual([]);
  const leased = await leaseQueuedOperations(sql, NETWORK, { limit: 1, leaseMs: 60_000 });
  expect(leased.map(({ id }) => id)).toEqual([first.id]);
  const rest = await leaseQueuedOperations(sql, NETWORK, { limit: 100, leaseMs: 60_000 });
  expect(rest.map(({ id }) => id)).toContain(second.id);
  expect(rest.map(({ id }) => id)).not.toContain(later.id);
  await returnOperations(sql, [second.id], { delayMs: 0, areRefused: true });
  expect(await rowOf(second)).toMatchObject({ refusals: 1 });
});

test("returning a lease does not change what was signed in the meantime", async () => {
  const made = await relayed("BROADCAST");
  await returnOperations(sql, [made.id], { delayMs: 0, areRefused: true });
  expect(await rowOf(made)).toMatchObject({ state: "SIGNED", refusals: 0 });
});

test("BROADCAST is what is SIGNED and carried by its own relay", async () => {
  const [made, other, settled] = [await relayed("SIGNED"), await relayed("SIGNED"), await relayed("SIGNED")];
  const event = eventOf(settled, { blockNumber: 50 });
  await recordOperationEvents(sql, NETWORK, [event]);
  await settleOperations(sql, NETWORK, [event]);
  for (const one of [made, settled]) {
    const { relayId } = await rowOf(one);
    await markOperationsBroadcast(sql, relayId ?? 0n);
  }
  expect((await rowOf(made)).state).toBe("BROADCAST");
  expect((await rowOf(other)).state).toBe("SIGNED");
  expect((await rowOf(settled)).state).toBe("MINED");
});

test("an operation that was settled is not queued again by its relay", async () => {
  const made = await relayed("CONFIRMED", 80);
  const event = eventOf(made, { blockNumber: 80 });
  await recordOperationEvents(sql, NETWORK, [event]);
  await settleOperations(sql, NETWORK, [event]);
  const { requeued, failed } = await requeueUnrunOperations(sql, NETWORK, 1);
  expect([...requeued, ...failed]).not.toContain(made.id);
  const open = await relayed("CONFIRMED", 80);
  expect((await requeueUnrunOperations(sql, OTHER_NETWORK, 1)).requeued).toEqual([]);
  expect((await requeueUnrunOperations(sql, NETWORK, 1)).requeued).toContain(open.id);
});

test.each([
  [
    "loses its idempotency key to another of its kind that has it since",
    { idempotencyKey: "k" },
    "AWAITING_SIGNATURE",
    null,
  ],
  ["keeps its idempotency key beside one that has ended too", { idempotencyKey: "k" }, "CANCELLED", "k"],
  ["keeps its idempotency key beside another key", { idempotencyKey: "another" }, "QUEUED", "k"],
  [
    "keeps its idempotency key beside a refund's",
    { idempotencyKey: "k", kind: "REFUND" } as const,
    "AWAITING_SIGNATURE",
    "k",
  ],
])("an expired send that is executed after all %s", async (_what, since, state, expected) => {
  const made = await makeOperation(undefined, 0n, { idempotencyKey: "k" });
  await makeOperation(undefined, 0n, { idempotencyKey: "k" });
  await sql`update wallet_operations set state = 'EXPIRED' where id = ${made.id}`;
  const other = await makeOperation(made, 0n, since);
  if (state === "QUEUED") await lab.queue(other);
  else await sql`update wallet_operations set state = ${state} where id = ${other.id}`;
  await settleOperations(sql, NETWORK, [eventOf(made)]);
  expect(await rowOf(made)).toMatchObject({ state: "MINED", idempotencyKey: expected });
});

test("of two expired sends with one idempotency key that one block executes, one keeps it", async () => {
  const early = await makeOperation(undefined, 0n, { idempotencyKey: "k" });
  await sql`update wallet_operations set state = 'EXPIRED' where id = ${early.id}`;
  const late = await makeOperation(early, 1n, { idempotencyKey: "k" });
  await sql`update wallet_operations set state = 'EXPIRED' where id = ${late.id}`;
  const settled = await settleOperations(sql, NETWORK, [eventOf(late, { nonce: 1n }), eventOf(early)]);
  expect(settled.toSorted()).toEqual([early.id, late.id].sort());
  const keys = await Promise.all([early, late].map(async (made) => (await rowOf(made)).idempotencyKey));
  expect(keys).toEqual(early.id < late.id ? ["k", null] : [null, "k"]);
});

test("a second relay keeps the time of the first, so that the operation cannot become NOT_SENT later", async () => {
  const made = await relayed("LOST");
  const { relayedAt } = await rowOf(made);
  await requeueUnrunOperations(sql, NETWORK, 1);
  await markOperationsSigned(sql, await makeRelay("SIGNED"), [made.id]);
  expect((await rowOf(made)).relayedAt).toEqual(relayedAt);
});

describe("the reconciliation of nonces compares", () => {
  const compared = async (made: Made) => {
    const rows = await findUnspentNonces(sql, NETWORK, { key: 0n, number: 50, limit: 1_000 });
    return rows.find(({ address }) => address === made.address);
  };
  const follow = (made: Made, from = 0) =>
    sql`update wallets set indexed_from = ${from} where id = ${made.walletId}`;

  test("what waits or has just ended, by its lowest nonce, until that is spent", async () => {
    const made = await queued(undefined, 7n);
    await follow(made);
    expect(await compared(made)).toMatchObject({ accountNonce: 7n });
    await sql`update wallet_operations set state = 'FAILED', reason = 'NOT_SENT' where id = ${made.id}`;
    expect(await compared(made)).toMatchObject({ accountNonce: 7n });
    await sql`update wallet_operations set updated_at = now() - interval '25 hours' where id = ${made.id}`;
    expect(await compared(made)).toBeUndefined();
    const live = await queued(made, 8n);
    expect(await compared(made)).toMatchObject({ accountNonce: 8n });
    await recordOperationEvents(sql, OTHER_NETWORK, [eventOf(live, { nonce: 8n })]);
    expect(await compared(made)).toMatchObject({ accountNonce: 8n });
    await recordOperationEvents(sql, NETWORK, [eventOf(live, { nonce: 8n })]);
    expect(await compared(made)).toBeUndefined();
  });

  test("nothing of a wallet that is followed from a later block, of another key, or not confirmed yet", async () => {
    const [later, keyed, unsigned] = [
      await queued(),
      await queued(undefined, 1n << 64n),
      await makeOperation(),
    ];
    await follow(later, 51);
    await follow(keyed);
    await follow(unsigned);
    expect(await Promise.all([later, keyed, unsigned].map(compared))).toEqual(Array(3).fill(undefined));
    await follow(later, 50);
    expect(await compared(later)).toBeDefined();
  });
});

test("a reorganisation of one network does not affect the other's events", async () => {
  const made = await makeOperation();
  await recordOperationEvents(sql, OTHER_NETWORK, [eventOf(made, { blockNumber: 900 })]);
  await reopenOperations(sql, { network: NETWORK, ancestor: 800 });
  const rows = await sql`select from wallet_operation_events where user_op_hash = ${made.userOpHash}`;
  expect(rows).toHaveLength(1);
});

test("an operation in flight is not leased again", async () => {
  const made = await relayed("BROADCAST");
  await sql`update wallet_operations set next_try_at = now() - interval '2 hours' where id = ${made.id}`;
  const leased = await leaseQueuedOperations(sql, NETWORK, { limit: 100, leaseMs: 0 });
  expect(leased.map(({ id }) => id)).not.toContain(made.id);
});

test("a lost relay never leads to NOT_RUN, however many mined ones missed the operation before", async () => {
  const made = await relayed("LOST");
  await sql`update wallet_operations set missed_relays = 2 where id = ${made.id}`;
  expect((await requeueUnrunOperations(sql, NETWORK, 1)).requeued).toContain(made.id);
  expect(await rowOf(made)).toMatchObject({ state: "QUEUED", missedRelays: 2 });
});
