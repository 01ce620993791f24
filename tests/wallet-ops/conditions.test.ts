/** The conditions of the statements that move operations, one by one: what closes a race is not seen by tests that come alone. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { newSendId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { cancelOperation, insertOperation, queueOperation } from "../../db/wallet-ops/operations.ts";
import {
  failQueuedOperations,
  failUnsentOperations,
  leaseQueuedOperations,
  markOperationsSigned,
  requeueUnrunOperations,
} from "../../db/wallet-ops/queue.ts";
import {
  concludeOperations,
  type OperationEvent,
  recordOperationEvents,
  reopenOperations,
  settleOperations,
} from "../../db/wallet-ops/settlement.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);
const NETWORK = "base-sepolia";
const RELAYER = randomAddress();

let db: TestDatabase;
let sql: Sql;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 4 });
  await sql`insert into relayers (network, address, next_nonce) values (${NETWORK}, ${RELAYER}, 0)`;
  await sql`
    insert into cursors (network, number, hash, head_number) values (${NETWORK}, 100, ${hash()}, 100)`;
});
afterAll(async () => {
  await sql?.end();
  await db?.drop();
});

function hash(): Hex {
  return `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("hex")}`;
}

type Made = { id: string; userId: string; walletId: string; address: Hex; userOpHash: Hex };

async function makeOperation(owner?: Made, nonce = 0n): Promise<Made> {
  const { made } = await insert(owner, nonce);
  return made;
}

/** `renewed`: the operation that is prepared again. */
async function insert(owner: Made | undefined, nonce: bigint, renewed?: Made) {
  const { userId, address } = owner ?? (await seedMerchant(sql));
  const [wallet] = await sql<{ id: string }[]>`select id from wallets where user_id = ${userId}`;
  const id = renewed?.id ?? newSendId(new Date());
  const userOpHash = hash();
  const row = await insertOperation(sql, {
    ...{
      id,
      userId,
      walletId: wallet?.id ?? "",
      network: NETWORK,
      kind: "SEND",
      userOpHash,
      accountNonce: nonce,
    },
    ...{ callData: "0x", callGas: 1n, verificationGas: 1n, challengeId: "ch_1", idempotencyKey: undefined },
    ...{ request: id, requestId: "req_1", lifeMs: 600_000, items: [] },
    terms: { owners: [], warnings: [], balanceAfter: "0", deploysWallet: false },
    renews: renewed !== undefined,
  });
  return { row, made: { id, userId, walletId: wallet?.id ?? "", address, userOpHash } };
}

async function queue({ id, userId, userOpHash }: Made) {
  const [passkey] = await sql<{ id: string }[]>`select id from passkeys where user_id = ${userId}`;
  const signed = { passkeyId: passkey?.id ?? "", ownerIndex: 0, signature: "0x01" as Hex };
  return queueOperation(sql, { id, userId, userOpHash, ...signed, assertionHash: Buffer.from([1]) });
}

async function queued(owner?: Made, nonce = 0n): Promise<Made> {
  const made = await makeOperation(owner, nonce);
  if (!(await queue(made))) throw new Error("not queued");
  return made;
}

let relayNonce = 0;

async function makeRelay(state: string, blockNumber: number | null = null): Promise<bigint> {
  relayNonce += 1;
  const [row] = await sql<{ id: bigint }[]>`
    insert into relays (
      network, relayer, nonce, kind, state, call_to, call_data_start, call_data_bytes, gas_limit, block_number, block_hash,
      succeeded
    )
    values (
      ${NETWORK}, ${RELAYER}, ${relayNonce}, 'OPERATIONS', ${state}, '0x', 0, 0, 1, ${blockNumber},
      ${blockNumber === null ? null : hash()}, ${blockNumber === null ? null : true}
    )
    returning id`;
  return row?.id ?? 0n;
}

async function relayed(state: string, blockNumber: number | null = null): Promise<Made> {
  const made = await queued();
  await markOperationsSigned(sql, await makeRelay(state, blockNumber), [made.id]);
  return made;
}

async function rowOf({ id }: Made) {
  const [row] = await sql<{ state: string; reason: string | null; missedRelays: number; isExtra: boolean }[]>`
    select state, reason, missed_relays, is_extra from wallet_operations where id = ${id}`;
  return row;
}

function eventOf(made: Made, given: Partial<OperationEvent> = {}): OperationEvent {
  return {
    ...{ blockNumber: 100, blockHash: hash(), txHash: hash(), logIndex: 1, userOpHash: made.userOpHash },
    ...{ sender: made.address, nonce: 0n, succeeded: true, gasUsed: 1n, failure: undefined },
    ...given,
  };
}

describe("queueOperation", () => {
  test("takes what waits for its signature, once, of its own user", async () => {
    const made = await makeOperation();
    const stranger = await makeOperation();
    expect(await queue({ ...made, userId: stranger.userId })).toBeUndefined();
    expect(await queue(made)).toMatchObject({ state: "QUEUED" });
    expect(await queue(made)).toBeUndefined();
  });

  test("takes nothing whose time is over", async () => {
    const made = await makeOperation();
    await sql`update wallet_operations set expires_at = now() where id = ${made.id}`;
    expect(await queue(made)).toBeUndefined();
  });

  test("takes nothing whose nonce another operation has spent; an earlier nonce and another key do not count", async () => {
    const made = await makeOperation(undefined, 5n);
    await recordOperationEvents(sql, NETWORK, [
      eventOf(made, { userOpHash: hash(), nonce: 4n }),
      eventOf(made, { userOpHash: hash(), nonce: (1n << 64n) + 5n }),
    ]);
    const other = await makeOperation(made, 5n);
    expect(await queue(made)).toBeDefined();
    await recordOperationEvents(sql, NETWORK, [eventOf(made, { nonce: 5n })]);
    await sql`update wallet_operations set state = 'FAILED', reason = 'NOT_SENT' where id = ${made.id}`;
    expect(await queue(other)).toBeUndefined();
  });

  test("error: the wallet's second live operation breaks wallet_operations_live_key", async () => {
    const first = await queued();
    const second = await makeOperation(first);
    await expect(queue(second)).rejects.toThrow("wallet_operations_live_key");
  });
});

test("insertOperation renews what nobody has signed, and nothing that was signed or cancelled", async () => {
  const [waiting, expired] = [await makeOperation(), await makeOperation()];
  await sql`update wallet_operations set state = 'EXPIRED' where id = ${expired.id}`;
  for (const unsigned of [waiting, expired]) {
    const { row, made } = await insert(unsigned, 7n, unsigned);
    expect(row).toMatchObject({ state: "AWAITING_SIGNATURE", accountNonce: 7n, userOpHash: made.userOpHash });
  }
  const [signed, cancelled] = [await queued(), await makeOperation()];
  await sql`update wallet_operations set state = 'CANCELLED' where id = ${cancelled.id}`;
  for (const ended of [signed, cancelled]) {
    const before = await rowOf(ended);
    expect((await insert(ended, 7n, ended)).row).toBeUndefined();
    expect(await rowOf(ended)).toEqual(before);
  }
});

test("queueOperation takes no signature of what the operation was before it was prepared again", async () => {
  const made = await makeOperation();
  expect(await queue({ ...made, userOpHash: hash() })).toBeUndefined();
  expect(await queue(made)).toMatchObject({ state: "QUEUED" });
});

test("cancelOperation takes nothing that is signed or over", async () => {
  const [signed, over] = [await queued(), await makeOperation()];
  await sql`update wallet_operations set expires_at = now() where id = ${over.id}`;
  expect(await cancelOperation(sql, signed)).toBe(false);
  expect(await cancelOperation(sql, over)).toBe(false);
  expect(await cancelOperation(sql, await makeOperation())).toBe(true);
});

test("markOperationsSigned and failQueuedOperations take nothing that is on its way already", async () => {
  const made = await relayed("BROADCAST");
  expect(await markOperationsSigned(sql, await makeRelay("SIGNED"), [made.id])).toEqual([]);
  expect(await failQueuedOperations(sql, [{ id: made.id, reason: "INSUFFICIENT_FUNDS" }])).toEqual([]);
  expect(await rowOf(made)).toMatchObject({ state: "SIGNED", reason: null });
});

test("a lease passes over what another worker is leasing, without waiting for it", async () => {
  const [held, free] = [await queued(), await queued()];
  const lease = () => leaseQueuedOperations(sql, NETWORK, { limit: 100, leaseMs: 60_000 });
  await sql.begin(async (tx) => {
    await tx`select from wallet_operations where id = ${held.id} for update`;
    const leased = await Promise.race([lease(), Bun.sleep(5_000).then(() => undefined)]);
    const ids = leased?.map(({ id }) => id) ?? [];
    expect([held, free].map(({ id }) => ids.includes(id))).toEqual([false, true]);
  });
  expect((await lease()).map(({ id }) => id)).toEqual([held.id]);
});

test("an operation that was never sent is given up after 15 minutes, and not leased; a second before it is", async () => {
  const [late, intime, sent] = [await queued(), await queued(), await queued()];
  await sql`update wallet_operations set queued_at = now() - interval '901 seconds' where id = ${late.id}`;
  await sql`update wallet_operations set queued_at = now() - interval '890 seconds' where id = ${intime.id}`;
  await sql`
    update wallet_operations
    set queued_at = now() - interval '2 hours', relayed_at = now() - interval '1 hour'
    where id = ${sent.id}`;
  const leased = await leaseQueuedOperations(sql, NETWORK, { limit: 100, leaseMs: 0 });
  const ids = leased.map(({ id }) => id);
  expect([late, intime, sent].map(({ id }) => ids.includes(id))).toEqual([false, true, true]);
  const failed = await failUnsentOperations(sql, NETWORK);
  expect([late, intime, sent].map(({ id }) => failed.includes(id))).toEqual([true, false, false]);
  expect(await rowOf(late)).toMatchObject({ state: "FAILED", reason: "NOT_SENT" });
});

describe("requeueUnrunOperations", () => {
  const DEPTH = 3;

  test("takes a mined relay's operation at depth, not a block before, and none that waits for a block", async () => {
    const [deep, shallow, open] = [
      await relayed("MINED", 98),
      await relayed("MINED", 99),
      await relayed("BROADCAST"),
    ];
    const { requeued } = await requeueUnrunOperations(sql, NETWORK, DEPTH);
    expect([deep, shallow, open].map(({ id }) => requeued.includes(id))).toEqual([true, false, false]);
    expect(await rowOf(deep)).toMatchObject({ state: "QUEUED", missedRelays: 1 });
  });

  test("gives up after the third relay that did not run it; a lost relay does not count", async () => {
    const made = await queued();
    for (const [state, block] of [
      ["LOST", null],
      ["MINED", 90],
      ["CONFIRMED", 90],
    ] as const) {
      await markOperationsSigned(sql, await makeRelay(state, block), [made.id]);
      expect((await requeueUnrunOperations(sql, NETWORK, DEPTH)).requeued).toContain(made.id);
    }
    await markOperationsSigned(sql, await makeRelay("MINED", 90), [made.id]);
    expect((await requeueUnrunOperations(sql, NETWORK, DEPTH)).failed).toContain(made.id);
    expect(await rowOf(made)).toMatchObject({ state: "FAILED", reason: "NOT_RUN" });
  });
});

describe("an operation's event", () => {
  test("settles it once, whatever is read again", async () => {
    const made = await relayed("MINED", 100);
    const event = eventOf(made);
    for (let count = 0; count < 2; count++) await recordOperationEvents(sql, NETWORK, [event]);
    expect(await settleOperations(sql, NETWORK, [event])).toEqual([made.id]);
    expect(await settleOperations(sql, NETWORK, [event])).toEqual([]);
    const [row] = await sql<{ count: number }[]>`
      select count(*)::int as count from wallet_operation_events where user_op_hash = ${made.userOpHash}`;
    expect(row?.count).toBe(1);
    await concludeOperations(sql, { network: NETWORK, depthNumber: 99 });
    expect(await rowOf(made)).toMatchObject({ state: "MINED" });
    await concludeOperations(sql, { network: NETWORK, depthNumber: 100 });
    expect(await rowOf(made)).toMatchObject({ state: "CONFIRMED" });
    expect(await settleOperations(sql, NETWORK, [event])).toEqual([]);
  });

  test("of the same nonce but another operation ends a waiting one at depth, not before", async () => {
    const made = await relayed("BROADCAST");
    await recordOperationEvents(sql, NETWORK, [eventOf(made, { userOpHash: hash(), blockNumber: 95 })]);
    await concludeOperations(sql, { network: NETWORK, depthNumber: 94 });
    expect(await rowOf(made)).toMatchObject({ state: "SIGNED" });
    await concludeOperations(sql, { network: NETWORK, depthNumber: 95 });
    expect(await rowOf(made)).toMatchObject({ state: "FAILED", reason: "NONCE_TAKEN" });
  });

  test("taken back by a reorganisation puts several operations of a wallet back, of which one stays live", async () => {
    const first = await relayed("CONFIRMED", 200);
    const settle = async (made: Made, nonce: bigint, blockNumber: number) => {
      await recordOperationEvents(sql, NETWORK, [eventOf(made, { nonce, blockNumber })]);
      await settleOperations(sql, NETWORK, [eventOf(made, { nonce, blockNumber })]);
      await concludeOperations(sql, { network: NETWORK, depthNumber: blockNumber });
    };
    await settle(first, 0n, 200);
    const second = await queued(first, 1n);
    await settle(second, 1n, 201);
    expect(await reopenOperations(sql, { network: NETWORK, ancestor: 199 })).toHaveLength(2);
    expect(await rowOf(first)).toMatchObject({ state: "BROADCAST", isExtra: true });
    expect(await rowOf(second)).toMatchObject({ state: "QUEUED", isExtra: false });
  });
});
