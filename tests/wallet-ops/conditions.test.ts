/** The conditions of the statements that move operations, one by one: what closes a race is not seen by tests that come alone. */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { newRefundId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { hasUnfinished } from "../../db/relays/relays.ts";
import { confirmDeepOperations } from "../../db/wallet-ops/confirm-operations.ts";
import { listRefundable } from "../../db/wallet-ops/list-refundable.ts";
import { cancelOperation } from "../../db/wallet-ops/operations.ts";
import {
  failQueuedOperations,
  failUnsentOperations,
  hasUnfinishedOperations,
  leaseQueuedOperations,
  markOperationsSigned,
  requeueUnrunOperations,
} from "../../db/wallet-ops/queue.ts";
import { reopenOperationHistory, reopenOperations } from "../../db/wallet-ops/reorganised-operations.ts";
import { recordOperationEvents, settleOperations } from "../../db/wallet-ops/settlement.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import {
  eventOf,
  type Made,
  type OperationLab,
  openOperationLab,
  randomHash,
} from "../support/operation-lab.ts";
import { randomAddress, type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { insertHistory } from "../transactions/history.ts";

setDefaultTimeout(120_000);

/** One that waits for a row that is held is given up. */
const WAITS_MS = 60_000;
let lab: OperationLab;
let sql: Sql;
let { insert, makeOperation, queue, queued, makeRelay, relayed, rowOf } = {} as OperationLab;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql, insert, makeOperation, queue, queued, makeRelay, relayed, rowOf } = lab);
});
afterAll(() => lab?.stop());

describe("queueOperation", () => {
  test("takes an operation that awaits its signature, once, and only its own user's", async () => {
    const made = await makeOperation();
    const stranger = await makeOperation();
    expect(await queue({ ...made, userId: stranger.userId })).toBeUndefined();
    expect(await queue(made)).toMatchObject({ state: "QUEUED" });
    expect(await queue(made)).toBeUndefined();
  });

  test("takes no operation that has expired", async () => {
    const made = await makeOperation();
    await sql`update wallet_operations set expires_at = now() where id = ${made.id}`;
    expect(await queue(made)).toBeUndefined();
  });

  test("takes none whose nonce is spent by another operation; an earlier nonce and another key do not count", async () => {
    const made = await makeOperation(undefined, 5n);
    await recordOperationEvents(sql, NETWORK, [
      eventOf(made, { userOpHash: randomHash(), nonce: 4n }),
      eventOf(made, { userOpHash: randomHash(), nonce: (1n << 64n) + 5n }),
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

test("insertOperation renews what is unsigned, and nothing that was signed or cancelled", async () => {
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

test("queueOperation refuses a signature of an operation as it was before it was prepared again", async () => {
  const made = await makeOperation();
  expect(await queue({ ...made, userOpHash: randomHash() })).toBeUndefined();
  expect(await queue(made)).toMatchObject({ state: "QUEUED" });
});

test("cancelOperation refuses what is signed or has ended", async () => {
  const [signed, over] = [await queued(), await makeOperation()];
  await sql`update wallet_operations set expires_at = now() where id = ${over.id}`;
  expect(await cancelOperation(sql, signed)).toBe(false);
  expect(await cancelOperation(sql, over)).toBe(false);
  expect(await cancelOperation(sql, await makeOperation())).toBe(true);
});

test("markOperationsSigned and failQueuedOperations take nothing that is already in flight", async () => {
  const made = await relayed("BROADCAST");
  expect(await markOperationsSigned(sql, await makeRelay("SIGNED"), [made.id])).toEqual([]);
  expect(await failQueuedOperations(sql, [{ id: made.id, reason: "INSUFFICIENT_FUNDS" }])).toEqual([]);
  expect(await rowOf(made)).toMatchObject({ state: "SIGNED", reason: null });
});

test("a lease skips what another worker is leasing, without waiting for it", async () => {
  const [held, free] = [await queued(), await queued()];
  const lease = () => leaseQueuedOperations(sql, NETWORK, { limit: 100, leaseMs: 60_000 });
  await sql.begin(async (tx) => {
    await tx`select from wallet_operations where id = ${held.id} for update`;
    const leased = await Promise.race([lease(), Bun.sleep(WAITS_MS).then(() => undefined)]);
    const ids = leased?.map(({ id }) => id) ?? [];
    expect([held, free].map(({ id }) => ids.includes(id))).toEqual([false, true]);
  });
  expect((await lease()).map(({ id }) => id)).toEqual([held.id]);
});

test("an operation that was never sent ends after 15 minutes, and is not leased; a second earlier it is", async () => {
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

  test("takes a mined relay's operation when deep, not a block earlier, and none that waits for a block", async () => {
    const [deep, shallow, open] = [
      await relayed("CONFIRMED", 98),
      await relayed("CONFIRMED", 99),
      await relayed("BROADCAST"),
    ];
    const { requeued } = await requeueUnrunOperations(sql, NETWORK, DEPTH);
    expect([deep, shallow, open].map(({ id }) => requeued.includes(id))).toEqual([true, false, false]);
    expect(await rowOf(deep)).toMatchObject({ state: "QUEUED", missedRelays: 1 });
  });

  test("leaves an operation to its relay while the ledger has another block at the relay's height", async () => {
    const [kept, gone] = [await relayed("MINED", 91), await relayed("MINED", 92)];
    await sql`
      insert into blocks (network, number, hash, parent_hash, block_time)
      select network, block_number, case block_number when 91 then block_hash else other_hash end, '0x', now()
      from (
        select network, block_number, block_hash, ${`0x${"9e".repeat(32)}`}::text as other_hash
        from relays
        where block_number in (91, 92)
      ) relay`;
    const { requeued } = await requeueUnrunOperations(sql, NETWORK, DEPTH);
    expect([kept, gone].map(({ id }) => requeued.includes(id))).toEqual([true, false]);
    expect(await rowOf(gone)).toMatchObject({ state: "SIGNED", missedRelays: 0 });
  });

  test("gives up after the third relay that did not run it; a lost relay does not count", async () => {
    const made = await queued();
    for (const [state, block] of [
      ["LOST", null],
      ["CONFIRMED", 90],
      ["CONFIRMED", 90],
    ] as const) {
      await markOperationsSigned(sql, await makeRelay(state, block), [made.id]);
      expect((await requeueUnrunOperations(sql, NETWORK, DEPTH)).requeued).toContain(made.id);
    }
    await markOperationsSigned(sql, await makeRelay("CONFIRMED", 90), [made.id]);
    expect((await requeueUnrunOperations(sql, NETWORK, DEPTH)).failed).toContain(made.id);
    expect(await rowOf(made)).toMatchObject({ state: "FAILED", reason: "NOT_RUN" });
  });
});

describe("an operation's event", () => {
  test("settles it once, even if read repeatedly", async () => {
    const made = await relayed("MINED", 100);
    const event = eventOf(made);
    for (let count = 0; count < 2; count++) await recordOperationEvents(sql, NETWORK, [event]);
    expect(await settleOperations(sql, NETWORK, [event])).toEqual([made.id]);
    expect(await settleOperations(sql, NETWORK, [event])).toEqual([]);
    const [row] = await sql<{ count: number }[]>`
      select count(*)::int as count from wallet_operation_events where user_op_hash = ${made.userOpHash}`;
    expect(row?.count).toBe(1);
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 99 });
    expect(await rowOf(made)).toMatchObject({ state: "MINED" });
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 100 });
    expect(await rowOf(made)).toMatchObject({ state: "CONFIRMED" });
    expect(await settleOperations(sql, NETWORK, [event])).toEqual([]);
  });

  test("of the same nonce but another operation ends a waiting one when deep, not before", async () => {
    const made = await relayed("BROADCAST");
    await recordOperationEvents(sql, NETWORK, [eventOf(made, { userOpHash: randomHash(), blockNumber: 95 })]);
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 94 });
    expect(await rowOf(made)).toMatchObject({ state: "SIGNED" });
    await confirmDeepOperations(sql, { network: NETWORK, depthNumber: 95 });
    expect(await rowOf(made)).toMatchObject({ state: "FAILED", reason: "NONCE_TAKEN" });
  });

  test("undone by a reorganisation restores several operations of a wallet, of which one stays live", async () => {
    const first = await relayed("CONFIRMED", 200);
    const settle = async (made: Made, nonce: bigint, blockNumber: number) => {
      await recordOperationEvents(sql, NETWORK, [eventOf(made, { nonce, blockNumber })]);
      await settleOperations(sql, NETWORK, [eventOf(made, { nonce, blockNumber })]);
      await confirmDeepOperations(sql, { network: NETWORK, depthNumber: blockNumber });
    };
    await settle(first, 0n, 200);
    const second = await queued(first, 1n);
    await settle(second, 1n, 201);
    expect(await reopenOperations(sql, { network: NETWORK, ancestor: 199 })).toHaveLength(2);
    expect(await rowOf(first)).toMatchObject({ state: "BROADCAST", isExtra: true });
    expect(await rowOf(second)).toMatchObject({ state: "QUEUED", isExtra: false });
  });
});

test("reopenOperationHistory restores the rows of its own operations only", async () => {
  const [reopened, other] = [await relayed("BROADCAST"), await relayed("BROADCAST")];
  const rows = new Map<Made, string>();
  for (const made of [reopened, other]) {
    const [id = ""] = await insertHistory(sql, made.userId, [
      { type: "SEND", status: "FAILED", txHash: null },
    ]);
    await sql`update transactions set operation_id = ${made.id}, failure_reason = 'REVERTED' where id = ${id}`;
    rows.set(made, id);
  }
  await reopenOperationHistory(sql, [reopened.id]);
  const statusOf = async (made: Made) => {
    const [row] = await sql<{ status: string; failureReason: string | null }[]>`
      select status, failure_reason from transactions where id = ${rows.get(made) ?? ""}`;
    return row;
  };
  expect(await statusOf(reopened)).toEqual({ status: "PENDING", failureReason: null });
  expect(await statusOf(other)).toEqual({ status: "FAILED", failureReason: "REVERTED" });
});

describe("hasUnfinishedOperations", () => {
  test("counts what waits to be sent or run on this network, and nothing else", async () => {
    const { id } = await relayed("BROADCAST", 1);
    await sql`update wallet_operations set network = 'base' where id = ${id}`;
    const found: Record<string, boolean> = {};
    const inRelays: Record<string, boolean> = {};
    for (const state of ["QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED"]) {
      await sql`
        update wallet_operations
        set state = ${state}, block_number = 1, tx_hash = '0x', succeeded = true
        where id = ${id}`;
      found[state] = await hasUnfinishedOperations(sql, "base");
      inRelays[state] = await hasUnfinished(sql, "base", []);
    }
    expect(found).toEqual({ QUEUED: true, SIGNED: true, BROADCAST: true, MINED: false, CONFIRMED: false });
    expect(inRelays).toEqual({ ...found, QUEUED: false });
  });
});

describe("what is left to refund of a link's money", () => {
  let merchant: SeededMerchant;
  let link: string;
  let txHash: Hex;
  const [PRICE, PART] = [1_000_000n, 400_000n] as const;

  beforeEach(async () => {
    merchant = await seedMerchant(sql);
    link = await seedLink(sql, merchant);
    txHash = randomHash();
    await bookTransfer({ sql, merchant }, { link, txHash, units: PRICE, pays: true });
  });

  /** A refund of a part of the transfer, whose operation is in this state. */
  async function refunded(state: string, of: { link?: string; txHash?: Hex; units?: bigint } = {}) {
    const id = newRefundId(new Date());
    const made = await relayed("BROADCAST", 1);
    await sql`
      update wallet_operations
      set
        id = ${id}, kind = 'REFUND', state = ${state}, tx_hash = ${randomHash()}, succeeded = true,
        reason = case when ${state} = 'FAILED' then 'NOT_SENT' end
      where id = ${made.id}`;
    await sql`
      insert into refunds (
        id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units
      )
      values (
        ${id}, ${merchant.userId}, ${of.link ?? link}, ${NETWORK}, ${of.txHash ?? txHash}, 1, ${merchant.address},
        'given', ${of.units ?? PART}
      )`;
    return id;
  }

  const left = async (except?: string) =>
    (await listRefundable(sql, link, except === undefined ? {} : { except })).map(
      ({ leftUnits }) => leftUnits,
    );

  test.each(["AWAITING_SIGNATURE", "QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED"])(
    "a refund that is %s uses its part, for all but itself",
    async (state) => {
      const id = await refunded(state);
      expect(await left()).toEqual([PRICE - PART]);
      expect(await left(id)).toEqual([PRICE]);
    },
  );

  test.each(["EXPIRED", "CANCELLED", "FAILED"])("a refund that is %s releases its part", async (state) => {
    await refunded(state);
    expect(await left()).toEqual([PRICE]);
  });

  test("a refund that was not signed in time releases its part", async () => {
    const id = await refunded("AWAITING_SIGNATURE");
    await sql`update wallet_operations set expires_at = now() where id = ${id}`;
    expect(await left()).toEqual([PRICE]);
  });

  test("another link's refund uses nothing", async () => {
    const of = { link: await seedLink(sql, merchant), txHash: randomHash() };
    await refunded("CONFIRMED", of);
    expect(await left()).toEqual([PRICE]);
  });

  test("a refund of this transfer uses its part even if another link had it, but not on another network", async () => {
    const id = await refunded("CONFIRMED", { link: await seedLink(sql, merchant) });
    expect(await left()).toEqual([PRICE - PART]);
    await sql`update refunds set network = 'base' where id = ${id}`;
    expect(await left()).toEqual([PRICE]);
  });

  test("a refund of a transfer that has moved since uses its part of the total received", async () => {
    await refunded("CONFIRMED", { txHash: randomHash() });
    expect(await left()).toEqual([PRICE - PART]);
  });

  test("of two transfers the refunded one has nothing left, the other its whole amount", async () => {
    await bookTransfer({ sql, merchant }, { link, units: PART });
    await refunded("CONFIRMED", { units: PRICE });
    expect((await left()).sort()).toEqual([0n, PART]);
  });

  test("of two transfers in one transaction only the one at the refund's position is reduced", async () => {
    await sql`update transfers set log_index = 2 where tx_hash = ${txHash}`;
    await bookTransfer({ sql, merchant }, { link, txHash, units: PRICE });
    await refunded("CONFIRMED");
    expect(await left()).toEqual([PRICE - PART, PRICE]);
  });

  test("includes each transfer's sender, whether it was an authorization, and the merchant's history row", async () => {
    const [payer, nonce] = [randomAddress(), randomHash()];
    await bookTransfer({ sql, merchant }, { link, units: PART, from: payer, nonce });
    const stranger = await seedMerchant(sql);
    const [sent = ""] = await insertHistory(sql, stranger.userId, [{ type: "SEND" }]);
    const [own = "", other = ""] = await insertHistory(sql, merchant.userId, [{}, { type: "PAYMENT_LINK" }]);
    const place = (id: string, linkId: string, where: { from: Hex } | { txHash: Hex }) => sql`
      update transactions
      set
        link_id = ${linkId},
        transfer_id = (
          select id
          from transfers
          where ${"from" in where ? sql`from_address = ${where.from}` : sql`tx_hash = ${where.txHash}`}
        )
      where id = ${id}`;
    await place(own, link, { from: payer });
    await place(sent, link, { txHash });
    await place(other, await seedLink(sql, merchant), { txHash });
    const found = await listRefundable(sql, link);
    expect(found.find(({ sender }) => sender === payer)).toMatchObject({
      ...{ isAuthorization: true, transactionId: own, amountUnits: PART, pays: false },
    });
    expect(found.find(({ sender }) => sender !== payer)).toMatchObject({
      ...{ isAuthorization: false, transactionId: null, amountUnits: PRICE, pays: true },
    });
  });

  test("counts only CONFIRMED transfers of this link", async () => {
    await bookTransfer({ sql, merchant }, { link, units: PART, status: "DETECTED" });
    await bookTransfer({ sql, merchant }, { link, units: PART, status: "ORPHANED", pays: true });
    await bookTransfer({ sql, merchant }, { units: PART });
    await bookTransfer({ sql, merchant }, { link: await seedLink(sql, merchant), units: PART, pays: true });
    expect(await left()).toEqual([PRICE]);
  });
});
