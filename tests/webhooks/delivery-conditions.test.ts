/** Which deliveries are due, whose they are, and what an attempt changes: the conditions of the statements, one by one. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newWebhookEndpointId } from "../../core/domain/ids.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import {
  findDelivery,
  findNextDue,
  listAttempts,
  listDeliveries,
  markDelivered,
  markFailedTry,
  redeliver,
  type TakenDelivery,
  takeDeliveries,
} from "../../db/webhooks/deliveries.ts";
import { findSubjects } from "../../db/webhooks/event-subjects.ts";
import { recordTestEvent } from "../../db/webhooks/test-events.ts";
import {
  deleteEndpoint,
  disableEndpoint,
  findEndpoint,
  insertEndpoint,
  listEndpoints,
  listSealedSecrets,
  replaceSealedSecret,
  rotateSecret,
  updateEndpoint,
} from "../../db/webhooks/webhooks.ts";
import { seedUser } from "../support/passkey-rows.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";
import { insertHistory } from "../transactions/history.ts";

let db: TestDatabase;
let sql: Sql;
let user: string;
let stranger: string;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 3 });
});
afterAll(async () => {
  await sql?.end();
  await db?.drop();
});
beforeEach(async () => {
  await sql`delete from webhook_endpoints`;
  [user, stranger] = [await seedUser(sql), await seedUser(sql)];
});

const SECRET = Buffer.from("a secret");

async function endpoint(userId = user, most = 100) {
  const given = { id: newWebhookEndpointId(), userId, url: "https://example.test", description: "" };
  return insertEndpoint(sql, { ...given, eventTypes: [], sealedSecret: SECRET }, most);
}

async function endpointId(userId = user): Promise<string> {
  return (await endpoint(userId))?.id ?? "";
}

/** Of a new event of the endpoint's user, for this endpoint alone. */
async function delivery(of: string, userId = user): Promise<string> {
  const made = await recordTestEvent(sql, { endpointId: of, userId, sampleType: "payment_link.paid" });
  return made?.id ?? "";
}

const take = (given: { limit?: number; perEndpoint?: number; perUser?: number } = {}) =>
  sql.begin((tx) => takeDeliveries(tx, { limit: 100, leaseS: 60, perEndpoint: 100, perUser: 100, ...given }));
const taken = async (given?: Parameters<typeof take>[0]) => (await take(given)).map(({ id }) => id).sort();
const set = (id: string, given: object) => sql`update webhook_deliveries set ${sql(given)} where id = ${id}`;
const rowOf = async (id: string) => {
  const [row] = await sql<{ state: string; leaseUntil: Date | null; attempts: number; tries: number }[]>`
    select state, lease_until, attempts, tries from webhook_deliveries where id = ${id}`;
  return row;
};
const failingSince = async (id: string) => {
  const [row] = await sql<{ failingSince: Date | null }[]>`
    select failing_since from webhook_endpoints where id = ${id}`;
  return row?.failingSince ?? null;
};
const seconds = (count: number) => new Date(Date.now() + count * 1_000);

describe("a delivery is taken", () => {
  test("when it is PENDING and due, once within its lease", async () => {
    const of = await endpointId();
    const made = [await delivery(of), await delivery(of), await delivery(of), await delivery(of)] as const;
    const [due, later, delivered, failed] = made;
    await set(later, { next_try_at: seconds(60) });
    await set(delivered, { state: "DELIVERED", next_try_at: seconds(-60) });
    await set(failed, { state: "FAILED", next_try_at: seconds(-60) });
    expect(await taken({ perEndpoint: 1 })).toEqual([due]);
    expect(await taken()).toEqual([]);
    expect(await rowOf(due)).toMatchObject({ attempts: 1, tries: 1 });
    expect(await rowOf(later)).toMatchObject({ attempts: 0, leaseUntil: null });
    await set(due, { lease_until: new Date() });
    expect(await taken()).toEqual([due]);
  });

  test("for an endpoint that is enabled, with its own event", async () => {
    const [enabled, disabled] = [await endpointId(), await endpointId()];
    const [id] = [await delivery(enabled), await delivery(disabled)];
    await sql`update webhook_endpoints set enabled = false where id = ${disabled}`;
    expect(await take()).toMatchObject([{ id, endpointId: enabled, userId: user, subjectId: enabled }]);
  });

  test("while its endpoint has a free slot: only one if it is failing", async () => {
    const [healthy, failing] = [await endpointId(), await endpointId()];
    for (const of of [healthy, failing]) for (let count = 0; count < 3; count++) await delivery(of);
    await sql`update webhook_endpoints set failing_since = now() where id = ${failing}`;
    const counts = async () => {
      const rows = await take({ perEndpoint: 2 });
      return [healthy, failing].map((of) => rows.filter((row) => row.endpointId === of).length);
    };
    expect(await counts()).toEqual([2, 1]);
    expect(await counts()).toEqual([0, 0]);
    await sql`update webhook_deliveries set state = 'DELIVERED' where lease_until is not null`;
    expect(await counts()).toEqual([1, 1]);
  });

  test("while its user has a free slot, whatever others have in flight", async () => {
    const [first, second, foreign] = [await endpointId(), await endpointId(), await endpointId(stranger)];
    for (const of of [first, second]) for (let count = 0; count < 2; count++) await delivery(of);
    await delivery(foreign, stranger);
    const users = async (perUser: number) => (await take({ perUser })).map(({ userId }) => userId);
    expect((await users(1)).sort()).toEqual([user, stranger].sort());
    expect(await users(1)).toEqual([]);
    expect(await users(3)).toEqual([user, user]);
    await sql`update webhook_deliveries set lease_until = now() where lease_until is not null`;
    expect(await take({ limit: 2 })).toHaveLength(2);
  });

  test("of the user with the fewest in flight first, however long others have waited", async () => {
    const backlog = [await endpointId(), await endpointId()];
    for (const of of backlog)
      for (let count = 0; count < 3; count++) await set(await delivery(of), { next_try_at: seconds(-3_600) });
    const next = async () => (await take({ limit: 1 })).map(({ userId }) => userId);
    expect(await next()).toEqual([user]);
    const of = await endpointId(stranger);
    for (let count = 0; count < 2; count++) await delivery(of, stranger);
    expect([await next(), await next(), await next()].flat()).toEqual([stranger, user, stranger]);
  });

  test("with the old secret as well until that expires", async () => {
    const of = await endpointId();
    await rotateSecret(sql, { id: of, userId: user }, { sealedSecret: Buffer.from("new"), oldLifeH: 1 });
    const id = await delivery(of);
    expect((await take())[0]?.sealedOldSecret).not.toBeNull();
    await sql`update webhook_endpoints set old_secret_until = now() where id = ${of}`;
    await set(id, { lease_until: null });
    expect((await take())[0]?.sealedOldSecret).toBeNull();
  });
});

describe("an attempt", () => {
  const OK = { status: 200, error: undefined, response: "ok", durationMs: 5 };
  const FAILED = { status: 500, error: "HTTP 500", response: undefined, durationMs: 5 };

  async function two(): Promise<[TakenDelivery, TakenDelivery]> {
    for (const of of [await endpointId(), await endpointId()]) await delivery(of);
    const [first, second] = await take();
    if (!first || !second) throw new Error("two were due");
    return [first, second];
  }

  test("that succeeded ends its own delivery, and its endpoint is healthy", async () => {
    const [first, second] = await two();
    await sql`update webhook_endpoints set failing_since = now()`;
    await markDelivered(sql, first, OK);
    expect(await rowOf(first.id)).toMatchObject({ state: "DELIVERED", leaseUntil: null });
    expect(await rowOf(second.id)).toMatchObject({ state: "PENDING", leaseUntil: expect.any(Date) });
    expect(await failingSince(first.endpointId)).toBeNull();
    expect(await failingSince(second.endpointId)).not.toBeNull();
    expect(await listAttempts(sql, first.id)).toMatchObject([{ number: 1, status: 200 }]);
    expect(await listAttempts(sql, second.id)).toEqual([]);
  });

  test("that failed postpones its own delivery, or ends it, and its endpoint counts as failing since the first", async () => {
    const [first, second] = await two();
    const since = await markFailedTry(sql, first, FAILED, 60);
    expect(await rowOf(first.id)).toMatchObject({ state: "PENDING", leaseUntil: null });
    expect(await rowOf(second.id)).toMatchObject({ state: "PENDING", leaseUntil: expect.any(Date) });
    expect(await failingSince(second.endpointId)).toBeNull();
    expect(await markFailedTry(sql, first, FAILED, undefined)).toEqual(since);
    expect(await rowOf(first.id)).toMatchObject({ state: "FAILED" });
    expect(await rowOf(second.id)).toMatchObject({ state: "PENDING" });
  });

  test("that succeeded late does not end what its owner has asked for again meanwhile, but an attempt of the next worker", async () => {
    const [first, second] = await two();
    for (const { id } of [first, second]) await set(id, { lease_until: seconds(-1) });
    expect(await redeliver(sql, { id: second.id, userId: user })).toBe(true);
    expect(await take({ limit: 1 })).toMatchObject([{ id: first.id, attempts: 2 }]);
    for (const late of [first, second]) await markDelivered(sql, late, OK);
    expect(await rowOf(first.id)).toMatchObject({ state: "DELIVERED" });
    expect(await rowOf(second.id)).toMatchObject({ state: "PENDING", tries: 0 });
    expect(await listAttempts(sql, second.id)).toMatchObject([{ number: 1, status: 200 }]);
    expect(await take()).toMatchObject([{ id: second.id, attempts: 2, tries: second.tries }]);
    await markDelivered(sql, second, OK);
    expect(await rowOf(second.id)).toMatchObject({ state: "PENDING", leaseUntil: expect.any(Date) });
  });

  test("that failed late does not undo a delivery by another one", async () => {
    const [first] = await two();
    await markDelivered(sql, first, OK);
    await markFailedTry(sql, first, FAILED, 60);
    expect(await rowOf(first.id)).toMatchObject({ state: "DELIVERED" });
  });

  test("that failed after its lease ends neither the attempt of the next worker nor what its owner has asked for again", async () => {
    const [first, second] = await two();
    for (const { id } of [first, second]) await set(id, { lease_until: seconds(-1) });
    expect(await redeliver(sql, { id: second.id, userId: user })).toBe(true);
    expect(await take({ limit: 1 })).toMatchObject([{ id: first.id, attempts: 2 }]);
    for (const late of [first, second]) await markFailedTry(sql, late, FAILED, undefined);
    expect(await rowOf(first.id)).toMatchObject({ state: "PENDING", leaseUntil: expect.any(Date) });
    expect(await rowOf(second.id)).toMatchObject({ state: "PENDING", tries: 0 });
    expect(await take()).toMatchObject([{ id: second.id, attempts: 2, tries: second.tries }]);
    await markFailedTry(sql, second, FAILED, undefined);
    expect(await rowOf(second.id)).toMatchObject({ state: "PENDING", leaseUntil: expect.any(Date) });
    expect(await listAttempts(sql, first.id)).toMatchObject([{ number: 1, status: 500 }]);
  });

  test("at a URL that was replaced meanwhile says nothing of the endpoint", async () => {
    const [first] = await two();
    const own = { id: first.endpointId, userId: user };
    await updateEndpoint(sql, own, { url: "https://new.example.test" });
    expect(await markFailedTry(sql, first, FAILED, 60)).toBeUndefined();
    expect(await failingSince(first.endpointId)).toBeNull();
    expect(await disableEndpoint(sql, { ...own, url: first.url }, "gone")).toBe(false);
    expect(await findEndpoint(sql, own)).toMatchObject({ enabled: true });
    await sql`update webhook_endpoints set failing_since = now() where id = ${first.endpointId}`;
    await markDelivered(sql, first, OK);
    expect(await failingSince(first.endpointId)).not.toBeNull();
  });

  test("is due again at the next retry or at the end of a PENDING one's lease, whichever is first", async () => {
    const [first, second] = await two();
    await set(first.id, { lease_until: seconds(5_000), next_try_at: seconds(-10) });
    await set(second.id, { lease_until: null, next_try_at: seconds(4_000) });
    const due = async () =>
      Math.round(((await findNextDue(sql))?.getTime() ?? 0) / 1_000 - Date.now() / 1_000);
    expect(await due()).toBeWithin(3_900, 4_001);
    await set(second.id, { state: "FAILED" });
    expect(await due()).toBeWithin(4_900, 5_001);
    await set(first.id, { state: "DELIVERED" });
    expect(await findNextDue(sql)).toBeUndefined();
    await set(first.id, { state: "PENDING", lease_until: seconds(-5) });
    expect(await findNextDue(sql)).toBeUndefined();
  });
});

describe("a delivery of another user", () => {
  test("is neither found, listed nor sent again, and one in flight is left alone", async () => {
    const [of, other] = [await endpointId(), await endpointId()];
    const [id, elsewhere] = [await delivery(of), await delivery(other)];
    expect(await findDelivery(sql, { id, userId: user })).toMatchObject({ id, endpointId: of });
    expect(await findDelivery(sql, { id, userId: stranger })).toBeUndefined();
    const list = async (userId: string) =>
      (await listDeliveries(sql, { endpointId: of, userId }, { limit: 10 })).map((row) => row.id);
    expect([await list(user), await list(stranger)]).toEqual([[id], []]);
    for (const one of [id, elsewhere]) await set(one, { state: "FAILED", tries: 5 });
    expect(await redeliver(sql, { id, userId: stranger })).toBe(false);
    expect(await rowOf(id)).toMatchObject({ state: "FAILED" });
    expect(await redeliver(sql, { id, userId: user })).toBe(true);
    expect(await rowOf(id)).toMatchObject({ state: "PENDING", tries: 0 });
    expect(await rowOf(elsewhere)).toMatchObject({ state: "FAILED", tries: 5 });
    await take();
    expect(await redeliver(sql, { id, userId: user })).toBe(false);
    await set(id, { lease_until: new Date() });
    expect(await redeliver(sql, { id, userId: user })).toBe(true);
  });

  test("is not created by a test event, nor for a disabled endpoint", async () => {
    const of = await endpointId();
    await endpointId();
    const record = (userId: string) =>
      recordTestEvent(sql, { endpointId: of, userId, sampleType: "payment_link.paid" });
    expect(await record(stranger)).toBeUndefined();
    expect(await record(user)).toMatchObject({ endpointId: of, state: "PENDING" });
    const rows = await sql`select from webhook_deliveries`;
    expect(rows).toHaveLength(1);
    await sql`update webhook_endpoints set enabled = false where id = ${of}`;
    expect(await record(user)).toBeUndefined();
    expect(await sql`select from events where subject_id = ${of}`).toHaveLength(1);
  });
});

describe("an endpoint", () => {
  test("counts towards its user's maximum", async () => {
    await endpoint(stranger);
    expect(await endpoint(user, 1)).toBeDefined();
    expect(await endpoint(user, 1)).toBeUndefined();
  });

  test("is found, listed, changed, rotated and deleted only by its own user", async () => {
    const [id, other, foreign] = [await endpointId(), await endpointId(), await endpointId(stranger)];
    const [own, wrong] = [
      { id, userId: user },
      { id, userId: stranger },
    ];
    expect(await findEndpoint(sql, own)).toMatchObject({ id });
    expect(await findEndpoint(sql, wrong)).toBeUndefined();
    expect((await listEndpoints(sql, user)).map((one) => one.id).sort()).toEqual([id, other].sort());
    const secret = { sealedSecret: Buffer.from("new"), oldLifeH: 1 };
    expect(await updateEndpoint(sql, wrong, { description: "changed" })).toBeUndefined();
    expect(await rotateSecret(sql, wrong, secret)).toBeUndefined();
    expect(await deleteEndpoint(sql, wrong)).toBe(false);
    expect(await updateEndpoint(sql, own, { description: "changed" })).toMatchObject({ id, enabled: true });
    expect(await rotateSecret(sql, own, secret)).toMatchObject({ id });
    for (const { description, sealedOldSecret } of await Promise.all([
      listEndpoints(sql, stranger).then(([first]) => first ?? { description: "none", sealedOldSecret: null }),
      findEndpoint(sql, { id: other, userId: user }).then(
        (row) => row ?? { description: "none", sealedOldSecret: null },
      ),
    ]))
      expect({ description, sealedOldSecret }).toEqual({ description: "", sealedOldSecret: null });
    expect(await deleteEndpoint(sql, own)).toBe(true);
    expect((await listEndpoints(sql, user)).map((one) => one.id)).toEqual([other]);
    expect((await listEndpoints(sql, stranger)).map((one) => one.id)).toEqual([foreign]);
  });

  test("keeps the first reason for which it was disabled, and no other is disabled with it", async () => {
    const [id, other] = [await endpointId(), await endpointId()];
    const url = "https://example.test";
    expect(await disableEndpoint(sql, { id, url }, "gone")).toBe(true);
    expect(await disableEndpoint(sql, { id, url }, "failing")).toBe(false);
    expect(await findEndpoint(sql, { id, userId: user })).toMatchObject({
      enabled: false,
      disabledReason: "gone",
    });
    expect(await findEndpoint(sql, { id: other, userId: user })).toMatchObject({ enabled: true });
    const renamed = await updateEndpoint(sql, { id, userId: user }, { description: "a name" });
    expect(renamed).toMatchObject({ enabled: false, disabledReason: "gone" });
    const enabled = await updateEndpoint(sql, { id, userId: user }, { enabled: true });
    expect(enabled).toMatchObject({ enabled: true, disabledReason: null });
  });

  test("has not failed yet at another URL", async () => {
    const own = { id: await endpointId(), userId: user };
    await sql`update webhook_endpoints set failing_since = now()`;
    for (const [change, isFailing] of [
      [{ description: "a name" }, true],
      [{ url: "https://example.test" }, true],
      [{ url: "https://new.example.test" }, false],
    ] as const)
      expect((await updateEndpoint(sql, own, change))?.failingSince !== null).toBe(isFailing);
  });

  test("gets its secret resealed, and no other does, unless it was changed meanwhile", async () => {
    const [id, other] = [await endpointId(), await endpointId()];
    const renew = (sealed: Uint8Array) =>
      replaceSealedSecret(sql, { id, column: "sealedSecret", sealed, renewed: Buffer.from("renewed") });
    expect(await renew(Buffer.from("another"))).toBe(false);
    expect(await renew(SECRET)).toBe(true);
    const secretOf = async (of: string) =>
      Buffer.from((await findEndpoint(sql, { id: of, userId: user }))?.sealedSecret ?? []).toString();
    expect([await secretOf(id), await secretOf(other)]).toEqual(["renewed", SECRET.toString()]);
    const page = async (afterId: string) =>
      (await listSealedSecrets(sql, { afterId, limit: 1 })).map((row) => row.id);
    const [first = "", second = ""] = [id, other].sort();
    expect([await page(""), await page(first), await page(second)]).toEqual([[first], [second], []]);
  });

  test("has an old secret to be resealed only while that still signs", async () => {
    const id = await endpointId();
    const old = async (oldLifeH: number) => {
      await rotateSecret(sql, { id, userId: user }, { sealedSecret: Buffer.from("fresh"), oldLifeH });
      const [row] = await listSealedSecrets(sql, { afterId: "", limit: 1 });
      return row?.sealedOldSecret && Buffer.from(row.sealedOldSecret).toString();
    };
    expect(await old(24)).toBe(SECRET.toString());
    expect(await old(-1)).toBeNull();
  });
});

test("an event names only its own user's links and history rows", async () => {
  const [merchant, other] = [await seedMerchant(sql), await seedMerchant(sql)];
  const [link, foreign] = [await seedLink(sql, merchant), await seedLink(sql, other)];
  const [row = ""] = await insertHistory(sql, merchant.userId, [{}]);
  const [foreignRow = ""] = await insertHistory(sql, other.userId, [{}]);
  const about = (type: string, subjectId: string, data = {}) => ({
    userId: merchant.userId,
    type,
    subjectId,
    data,
  });
  const { links, transactions } = await findSubjects(sql, [
    about("payment_link.paid", link),
    about("payment_link.paid", foreign),
    about("refund.confirmed", "rfd_1", { linkId: foreign }),
    about("transaction.confirmed", row),
    about("transaction.confirmed", foreignRow),
  ]);
  expect([...links.keys()]).toEqual([link]);
  expect([...transactions.keys()]).toEqual([row]);
});
