/** Which refunds count, which requests are open, and which links are counted again: the conditions of the statements, one by one. */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { newRefundId } from "../../core/domain/ids.ts";
import { findDue } from "../../db/ledger/due-at-depth.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { hasLiveRefunds } from "../../db/wallet-ops/list-refundable.ts";
import {
  cancelRequest,
  countOpenRequests,
  findRequestByKey,
  insertRefundRequest,
  lockRefund,
  markCancelled,
} from "../../db/wallet-ops/refund-requests.ts";
import { insertRefund, lockForRefunds, refreshRefundedUnits } from "../../db/wallet-ops/refunds.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { type OperationLab, openOperationLab, randomHash } from "../support/operation-lab.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);

let lab: OperationLab;
let sql: Sql;
let merchant: SeededMerchant;
let stranger: SeededMerchant;
let link: string;
let otherLink: string;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql } = lab);
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  [merchant, stranger] = [await seedMerchant(sql), await seedMerchant(sql)];
  [link, otherLink] = [await seedLink(sql, merchant), await seedLink(sql, merchant)];
});

type Given = { linkId?: string; units?: bigint; of?: SeededMerchant };

const newRefund = ({ linkId = link, units = 1n, of = merchant }: Given = {}) => ({
  ...({
    id: newRefundId(new Date()),
    userId: of.userId,
    linkId,
    network: NETWORK,
    toSource: "given",
  } as const),
  ...{ paidTxHash: randomHash(), paidLogIndex: 1, toAddress: of.address, amountUnits: units, reason: null },
});

/** Asked for by the merchant. */
async function requested(key?: string, request: unknown = {}, given?: Given) {
  const refund = newRefund(given);
  const isNew = await insertRefundRequest(sql, {
    ...{ ...refund, requestedBy: refund.userId, idempotencyKey: key, request },
  });
  return { id: refund.id, userId: refund.userId, isNew };
}

/** Prepared by its owner at once. */
async function prepared(given?: Given) {
  const refund = newRefund(given);
  await insertRefund(sql, refund);
  return refund;
}

/** Gives a refund its operation, in this state. */
async function operate(id: string, state: string, blockNumber: number | null = null, of = merchant) {
  const given = { id, kind: "REFUND", userId: of.userId, walletId: of.walletId } as const;
  const { userOpHash } = await lab.makeOperation(undefined, 0n, given);
  await sql`
    update wallet_operations
    set
      state = ${state}, tx_hash = ${randomHash()}, succeeded = true, block_number = ${blockNumber}, signature = '0x01',
      relay_id = ${await lab.makeRelay("SIGNED")}, is_extra = true,
      reason = case when ${state} = 'FAILED' then 'NOT_SENT' end
    where id = ${id}`;
  const [row] = await sql<{ hash: `0x${string}` }[]>`
    select user_op_hash as hash from wallet_operations where id = ${id}`;
  return row?.hash ?? userOpHash;
}

const isOver = (id: string) => sql`update wallet_operations set expires_at = now() where id = ${id}`;

const LIVE = ["AWAITING_SIGNATURE", "QUEUED", "SIGNED", "BROADCAST", "MINED", "CONFIRMED"];
const ENDED = ["EXPIRED", "CANCELLED", "FAILED"];

test("a link has live refunds while one of its operations has moved money or still may", async () => {
  const other = await prepared({ linkId: otherLink });
  await operate(other.id, "CONFIRMED");
  const { id } = await prepared();
  expect(await hasLiveRefunds(sql, link)).toBe(false);
  await operate(id, "AWAITING_SIGNATURE");
  const found: Record<string, boolean> = {};
  for (const state of [...LIVE, ...ENDED]) {
    await sql`
      update wallet_operations
      set state = ${state}, reason = case when ${state} = 'FAILED' then 'NOT_SENT' end
      where id = ${id}`;
    found[state] = await hasLiveRefunds(sql, link);
  }
  expect(found).toEqual({
    ...Object.fromEntries(LIVE.map((state) => [state, true])),
    ...Object.fromEntries(ENDED.map((state) => [state, false])),
  });
  await sql`update wallet_operations set state = 'AWAITING_SIGNATURE', reason = null where id = ${id}`;
  expect(await hasLiveRefunds(sql, link)).toBe(true);
  await isOver(id);
  expect(await hasLiveRefunds(sql, link)).toBe(false);
});

describe("the refunded amount of a link", () => {
  const unitsOf = async (id: string) => {
    const [row] = await sql<{ units: bigint }[]>`
      select refunded_units::bigint as units from payment_links where id = ${id}`;
    return row?.units;
  };

  test("is the sum of its own CONFIRMED refunds, recalculated only for the links of these operations", async () => {
    const [first, second, failed] = [
      await prepared({ units: 3n }),
      await prepared({ units: 5n }),
      await prepared({ units: 100n }),
    ];
    const other = await prepared({ linkId: otherLink, units: 1_000n });
    await operate(first.id, "CONFIRMED");
    await operate(second.id, "CONFIRMED");
    await operate(failed.id, "FAILED");
    await operate(other.id, "CONFIRMED");
    expect(await refreshRefundedUnits(sql, [first.id, second.id])).toEqual([link]);
    expect([await unitsOf(link), await unitsOf(otherLink)]).toEqual([8n, 0n]);
    await sql`update wallet_operations set state = 'MINED' where id = ${second.id}`;
    await refreshRefundedUnits(sql, [second.id]);
    expect([await unitsOf(link), await unitsOf(otherLink)]).toEqual([3n, 0n]);
  });

  test("is about to change for links of operations that are MINED and deep, or have these hashes, on this network", async () => {
    const links = await Promise.all(Array.from({ length: 6 }, () => seedLink(sql, merchant)));
    const [deep, shallow, confirmed, named, elsewhere, namedElsewhere] = await Promise.all(
      links.map((linkId) => prepared({ linkId })),
    );
    if (!deep || !shallow || !confirmed || !named || !elsewhere || !namedElsewhere)
      throw new Error("no refund");
    await operate(deep.id, "MINED", 10);
    await operate(shallow.id, "MINED", 11);
    await operate(confirmed.id, "CONFIRMED", 9);
    const hash = await operate(named.id, "BROADCAST");
    await operate(elsewhere.id, "MINED", 10);
    const hashElsewhere = await operate(namedElsewhere.id, "BROADCAST");
    await sql`
      update wallet_operations set network = 'base' where id in (${elsewhere.id}, ${namedElsewhere.id})`;
    const userOpHashes = [hash, hashElsewhere];
    const due = await findDue(sql, { network: NETWORK, after: 9, depthNumber: 10, userOpHashes });
    expect(due.linksRefunded.sort()).toEqual([deep.linkId, named.linkId].sort());
  });

  test("is reserved under the lock of its own link: another link's is free", async () => {
    await sql.begin(async (tx) => {
      await lockForRefunds(tx, link);
      const isFree = async (id: string) =>
        (await sql`select from payment_links where id = ${id} for no key update skip locked`).length === 1;
      expect([await isFree(link), await isFree(otherLink)]).toEqual([false, true]);
    });
  });
});

describe("a request for a refund", () => {
  test("is created once by an Idempotency-Key of its user, and again once it was cancelled", async () => {
    const first = await requested("key-1", { a: 1 });
    expect([first.isNew, (await requested("key-1")).isNew]).toEqual([true, false]);
    expect((await requested("key-1", {}, { of: stranger })).isNew).toBe(true);
    for (let count = 0; count < 2; count++) expect((await requested()).isNew).toBe(true);
    const find = (key: string, request: unknown) =>
      findRequestByKey(sql, { userId: merchant.userId, key, request });
    expect(await find("key-1", { a: 1 })).toEqual({ id: first.id, isSameRequest: true });
    expect(await find("key-1", { a: 2 })).toEqual({ id: first.id, isSameRequest: false });
    expect(await find("key-2", { a: 1 })).toBeUndefined();
    await markCancelled(sql, first.id);
    expect(await find("key-1", { a: 1 })).toBeUndefined();
    expect((await requested("key-1")).isNew).toBe(true);
  });

  test("is open while it is neither prepared nor cancelled; a refund without a request does not count", async () => {
    const [open, cancelled, begun] = [await requested(), await requested(), await requested()];
    await requested(undefined, {}, { linkId: otherLink });
    await prepared();
    await markCancelled(sql, cancelled.id);
    await operate(begun.id, "AWAITING_SIGNATURE");
    expect(await countOpenRequests(sql, link)).toBe(1);
    await markCancelled(sql, open.id);
    expect(await countOpenRequests(sql, link)).toBe(0);
  });

  test("is locked for its preparation unless it was cancelled", async () => {
    const [open, cancelled, other] = [await requested(), await requested(), await requested()];
    await markCancelled(sql, cancelled.id);
    expect(await lockRefund(sql, cancelled.id)).toBe(false);
    expect(await lockRefund(sql, newRefundId(new Date()))).toBe(false);
    await sql.begin(async (tx) => {
      expect(await lockRefund(tx, open.id)).toBe(true);
      const free = await sql<{ id: string }[]>`
        select id from refunds where link_id = ${link} for no key update skip locked`;
      expect(free.map(({ id }) => id).sort()).toEqual([cancelled.id, other.id].sort());
    });
  });

  test("is cancelled once, only by its own user; a refund that was not requested never is", async () => {
    const [request, other] = [await requested(), await requested()];
    const own = await prepared();
    expect(await cancelRequest(sql, { id: request.id, userId: stranger.userId })).toBe(false);
    expect(await cancelRequest(sql, own)).toBe(false);
    expect(await markCancelled(sql, own.id)).toBe(false);
    expect(await cancelRequest(sql, request)).toBe(true);
    expect(await cancelRequest(sql, request)).toBe(false);
    expect(await markCancelled(sql, request.id)).toBe(false);
    expect(await countOpenRequests(sql, link)).toBe(1);
    expect(await markCancelled(sql, other.id)).toBe(true);
    expect(await countOpenRequests(sql, link)).toBe(0);
  });

  test.each([...LIVE, "CANCELLED", "FAILED"])(
    "whose operation is %s is not cancelled as a request",
    async (state) => {
      const request = await requested();
      await operate(request.id, state);
      expect(await cancelRequest(sql, request)).toBe(false);
    },
  );

  test("whose operation was not signed in time is cancelled, even before that is recorded", async () => {
    const [expired, over, signed] = [await requested(), await requested(), await requested()];
    await operate(expired.id, "EXPIRED");
    await operate(over.id, "AWAITING_SIGNATURE");
    await operate(signed.id, "QUEUED");
    for (const { id } of [over, signed]) await isOver(id);
    const cancel = (request: { id: string; userId: string }) => cancelRequest(sql, request);
    expect([await cancel(expired), await cancel(over), await cancel(signed)]).toEqual([true, true, false]);
  });
});
