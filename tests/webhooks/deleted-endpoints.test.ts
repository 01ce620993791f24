/** A deleted endpoint: gone immediately whatever the length of its log, which housekeeping removes, and never blocking writers of events. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newWebhookEndpointId } from "../../core/domain/ids.ts";
import { openLog } from "../../core/runtime/log.ts";
import { recordEvents } from "../../db/events/events.ts";
import { deleteDeletedEndpoints, deleteDeliveriesOfDeleted } from "../../db/jobs/delete-old-rows.ts";
import { hasOverdueDelivery } from "../../db/jobs/missing-jobs.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import {
  findDelivery,
  markDelivered,
  markFailedTry,
  redeliver,
  takeDeliveries,
} from "../../db/webhooks/deliveries.ts";
import { recordTestEvent } from "../../db/webhooks/test-events.ts";
import {
  deleteEndpoint,
  findEndpoint,
  insertEndpoint,
  listEndpoints,
  listSealedSecrets,
  rotateSecret,
  updateEndpoint,
} from "../../db/webhooks/webhooks.ts";
import { housekeeping } from "../../worker/jobs/housekeeping.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { untilBlocked } from "../support/until-blocked.ts";

let db: TestDatabase;
let sql: Sql;
let merchant: SeededMerchant;
let linkId: string;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 8 });
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});
beforeEach(async () => {
  await sql`delete from webhook_endpoints`;
  await sql`delete from events`;
  merchant = await seedMerchant(sql);
  linkId = await seedLink(sql, merchant);
});

type Own = { id: string; userId: string };

async function insert(most = 20): Promise<Own | undefined> {
  const own = { id: newWebhookEndpointId(), userId: merchant.userId };
  const url = "https://example.test/hooks?token=secret";
  const given = { ...own, url, description: "Shop", eventTypes: [], sealedSecret: Buffer.from("a secret") };
  return (await insertEndpoint(sql, given, most)) && own;
}

async function endpoint(): Promise<Own> {
  const own = await insert();
  if (!own) throw new Error("the merchant has a place");
  return own;
}

const write = (tx: Tx) =>
  recordEvents(tx, [{ userId: merchant.userId, type: "payment_link.paid", subjectId: linkId }]);
const countEvents = async () =>
  (await sql`select from events where user_id = ${merchant.userId} and type = 'payment_link.paid'`).length;
const deliveriesTo = async ({ id }: Own) =>
  (
    await sql<{ id: string }[]>`select id from webhook_deliveries where endpoint_id = ${id} order by event_id`
  ).map((row) => row.id);
const take = () =>
  sql.begin((tx) => takeDeliveries(tx, { limit: 100, leaseS: 60, perEndpoint: 100, perUser: 100 }));
const rowsOf = ({ id }: Own) => sql`select * from webhook_endpoints where id = ${id}`;

/** Holds what `work` does open until `during` is over, which is told of it. */
async function holding(work: (tx: Tx) => Promise<unknown>, during: (commit: () => void) => Promise<void>) {
  const [done, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const held = sql.begin(async (tx) => {
    await work(tx);
    done.resolve();
    await end.promise;
  });
  await Promise.race([done.promise, held]);
  try {
    await during(end.resolve);
  } finally {
    end.resolve();
    await held;
  }
}

describe("a writer of an event", () => {
  test("does not wait for an open deletion, and has its event delivered to the others", async () => {
    const [own, other] = [await endpoint(), await endpoint()];
    await holding(
      (tx) => deleteEndpoint(tx, own),
      async () => {
        await sql.begin(async (tx) => {
          await tx`set local lock_timeout = '2s'`;
          await write(tx);
        });
        expect(await countEvents()).toBe(1);
      },
    );
    expect(await findEndpoint(sql, own)).toBeUndefined();
    expect((await take()).map(({ endpointId }) => endpointId)).toEqual([other.id]);
  });

  test("waits for a removal, as the previous version deletes, to end, and is not undone by it", async () => {
    const [own, other] = [await endpoint(), await endpoint()];
    await holding(
      (tx) => tx`delete from webhook_endpoints where id = ${own.id}`,
      async (commit) => {
        const writing = sql.begin(write);
        await untilBlocked(sql, writing);
        commit();
        await writing;
      },
    );
    expect(await countEvents()).toBe(1);
    expect([await deliveriesTo(own), await deliveriesTo(other)]).toEqual([[], [expect.any(String)]]);
  });

  test("does not delay a deletion, and what it has written is deleted afterwards", async () => {
    const own = await endpoint();
    await holding(write, async () => {
      await sql.begin(async (tx) => {
        await tx`set local lock_timeout = '2s'`;
        expect(await deleteEndpoint(tx, own)).toBe(true);
        expect(await deleteDeliveriesOfDeleted(tx, 10)).toBe(0);
        expect(await deleteDeletedEndpoints(tx, 10)).toBe(0);
      });
    });
    expect(await deliveriesTo(own)).toHaveLength(1);
    expect(await take()).toEqual([]);
    expect(await deleteDeliveriesOfDeleted(sql, 10)).toBe(1);
    expect(await deleteDeletedEndpoints(sql, 10)).toBe(1);
    expect(await countEvents()).toBe(1);
  });

  test("creates no delivery for a deleted endpoint", async () => {
    const own = await endpoint();
    await deleteEndpoint(sql, own);
    await write(sql);
    expect(await deliveriesTo(own)).toEqual([]);
  });
});

describe("a deleted endpoint", () => {
  test("is no longer found, listed, counted, changed, rotated, tested or deleted", async () => {
    const own = await endpoint();
    expect(await insert(1)).toBeUndefined();
    expect(await deleteEndpoint(sql, own)).toBe(true);
    expect(await findEndpoint(sql, own)).toBeUndefined();
    expect(await listEndpoints(sql, own.userId)).toEqual([]);
    expect(await updateEndpoint(sql, own, { enabled: true })).toBeUndefined();
    const secret = { sealedSecret: Buffer.from("new"), oldLifeH: 1 };
    expect(await rotateSecret(sql, own, secret)).toBeUndefined();
    const sample = { endpointId: own.id, userId: own.userId, sampleType: "payment_link.paid" } as const;
    expect(await recordTestEvent(sql, sample)).toBeUndefined();
    expect(await deleteEndpoint(sql, own)).toBe(false);
    expect(await insert(1)).toBeDefined();
  });

  test("has neither secrets nor a URL, and is skipped when secrets are resealed", async () => {
    const [own, other] = [await endpoint(), await endpoint()];
    await rotateSecret(sql, own, { sealedSecret: Buffer.from("new"), oldLifeH: 1 });
    await deleteEndpoint(sql, own);
    const [row] = await rowsOf(own);
    expect(row).toMatchObject({ sealedOldSecret: null, oldSecretUntil: null, description: "" });
    expect(row?.sealedSecret).toHaveLength(0);
    expect(row?.url).not.toContain("example.test");
    const sealed = await listSealedSecrets(sql, { afterId: "", limit: 10 });
    expect(sealed.map(({ id }) => id)).toEqual([other.id]);
  });

  test("stays deleted when a change, a rotation and another deletion were waiting", async () => {
    const own = await endpoint();
    await holding(
      (tx) => deleteEndpoint(tx, own),
      async (commit) => {
        const waiting = Promise.all([
          updateEndpoint(sql, own, { enabled: true, url: "https://example.test/" }),
          rotateSecret(sql, own, { sealedSecret: Buffer.from("new"), oldLifeH: 1 }),
          deleteEndpoint(sql, own),
        ]);
        await untilBlocked(sql, waiting);
        commit();
        expect(await waiting).toEqual([undefined, undefined, false]);
      },
    );
    const [row] = await rowsOf(own);
    expect(row).toMatchObject({ userId: null, enabled: false, sealedOldSecret: null });
    expect(row?.sealedSecret).toHaveLength(0);
  });

  test("gets no pending message, even if that is sent again, and its log is not found", async () => {
    const own = await endpoint();
    await write(sql);
    const [id = ""] = await deliveriesTo(own);
    await sql`update webhook_deliveries set next_try_at = now() - interval '2 minutes'`;
    expect(await hasOverdueDelivery(sql)).toBe(true);
    await deleteEndpoint(sql, own);
    expect(await findDelivery(sql, { id, userId: own.userId })).toBeUndefined();
    expect(await take()).toEqual([]);
    expect(await hasOverdueDelivery(sql)).toBe(false);
    await redeliver(sql, { id, userId: own.userId });
    expect(await take()).toEqual([]);
  });
});

describe("the log of a deleted endpoint", () => {
  async function withLog(count: number): Promise<Own> {
    const own = await endpoint();
    for (let n = 0; n < count; n++) await write(sql);
    return own;
  }

  test("is kept by the deletion and removed in steps, with its attempts; the endpoint's row is removed last", async () => {
    const own = await withLog(5);
    const OK = { status: 200, error: undefined, response: "ok", durationMs: 5 };
    for (const one of await take()) await markDelivered(sql, one, OK);
    await deleteEndpoint(sql, own);
    expect(await deliveriesTo(own)).toHaveLength(5);
    expect(await sql`select from webhook_attempts`).toHaveLength(5);
    for (const [removed, left] of [
      [2, 3],
      [2, 1],
      [1, 0],
    ] as const) {
      expect(await deleteDeletedEndpoints(sql, 2)).toBe(0);
      expect(await deleteDeliveriesOfDeleted(sql, 2)).toBe(removed);
      expect(await deliveriesTo(own)).toHaveLength(left);
      expect(await sql`select from webhook_attempts`).toHaveLength(left);
    }
    expect(await deleteDeletedEndpoints(sql, 2)).toBe(1);
    expect(await rowsOf(own)).toHaveLength(0);
  });

  test("keeps a delivery in flight until its result is recorded, or its lease has expired", async () => {
    const own = await withLog(2);
    const [recorded, died] = await take();
    if (!recorded || !died) throw new Error("two were due");
    await deleteEndpoint(sql, own);
    const remove = async () => [
      await deleteDeliveriesOfDeleted(sql, 10),
      await deleteDeletedEndpoints(sql, 10),
    ];
    expect(await remove()).toEqual([0, 0]);
    const FAILED = { status: 500, error: "HTTP 500", response: undefined, durationMs: 5 };
    await markFailedTry(sql, recorded, FAILED, 60);
    expect(await remove()).toEqual([1, 0]);
    await sql`update webhook_deliveries set lease_until = now() - interval '1 second' where id = ${died.id}`;
    expect(await remove()).toEqual([1, 1]);
  });

  test("is removed by housekeeping in one run, whatever its state; other endpoints' logs and rows stay", async () => {
    const [own, other] = [await withLog(1), await withLog(2)];
    const empty = await endpoint();
    await sql`
      update webhook_deliveries set state = 'FAILED'
      where id = ${(await deliveriesTo(own))[0] ?? ""}`;
    await deleteEndpoint(sql, own);
    await housekeeping({ sql, log: openLog("test", "silent"), config: { eventsKeptDays: 90 } }, {});
    expect(await deliveriesTo(own)).toEqual([]);
    expect(await rowsOf(own)).toHaveLength(0);
    expect(await deliveriesTo(other)).toHaveLength(2);
    expect((await listEndpoints(sql, merchant.userId)).map(({ id }) => id)).toEqual([other.id, empty.id]);
  });

  test("is skipped where another step is removing it", async () => {
    const own = await withLog(3);
    await deleteEndpoint(sql, own);
    await holding(
      (tx) => deleteDeliveriesOfDeleted(tx, 1),
      async () => expect(await deleteDeliveriesOfDeleted(sql, 10)).toBe(2),
    );
    expect(await deleteDeletedEndpoints(sql, 10)).toBe(1);
  });
});
