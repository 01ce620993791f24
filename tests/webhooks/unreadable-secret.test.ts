/** A webhook secret that opens with none of the keys (docs/KEYS.md), and whatever else keeps a message from being sent. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { newWebhookEndpointId } from "../../core/domain/ids.ts";
import { type KeyList, seal } from "../../core/domain/seal-secrets.ts";
import { newWebhookSecret } from "../../core/domain/webhook.ts";
import { openLog } from "../../core/runtime/log.ts";
import { recordEvents } from "../../db/events/events.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { findEndpoint, insertEndpoint, rotateSecret } from "../../db/webhooks/webhooks.ts";
import { deliverWebhooks } from "../../worker/webhooks/deliver-webhooks.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { waitFor } from "../support/relay-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";
import { isSigned, type Receiver, startReceiver } from "./receiver.ts";

setDefaultTimeout(120_000);
const LOST: KeyList = ["the key that was lost, 32 characters long"];
const NEW: KeyList = ["the key that is there now, 32 characters!"];
const ROTATE = "the endpoint's secret can no longer be decrypted: rotate the secret";

let db: TestDatabase;
let sql: Sql;
let receiver: Receiver;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 8 });
});
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});
beforeEach(() => {
  receiver = startReceiver();
});
afterEach(() => receiver.stop());

/** An endpoint with one message. */
async function endpoint(keys: KeyList) {
  const merchant = await seedMerchant(sql);
  const { userId } = merchant;
  const place = { purpose: "webhook secret", id: newWebhookEndpointId() } as const;
  const given = { id: place.id, userId, url: receiver.url, description: "", eventTypes: [] };
  const secret = newWebhookSecret();
  await insertEndpoint(sql, { ...given, sealedSecret: seal(keys, place, secret) }, 20);
  const linkId = await seedLink(sql, merchant);
  await recordEvents(sql, [{ userId, type: "payment_link.paid", subjectId: linkId }]);
  return { id: place.id, userId, place, secret };
}

type Row = { state: string; attempts: number; tries: number; lastError: string | null; logged: number };
const rowOf = async (id: string) => {
  const [row] = await sql<Row[]>`
    select
      state, attempts, tries, last_error,
      (select count(*)::int from webhook_attempts where delivery_id = webhook_deliveries.id) as logged
    from webhook_deliveries
    where endpoint_id = ${id}`;
  if (!row) throw new Error("there is no message");
  return row;
};
/** Sends what is due until the message's attempt of that number is recorded. */
async function deliver(id: string, { number = 1, log = openLog("test", "silent") } = {}): Promise<Row> {
  const config = { baseUrl: "http://localhost", webhookSealKeys: NEW, webhookPrivateTargets: true };
  return waitFor("the result", async () => {
    await deliverWebhooks({ sql, log, config, stop: new AbortController().signal });
    const [row] = await sql`
      select from webhook_deliveries
      where endpoint_id = ${id} and attempts = ${number} and lease_until is null`;
    return row && (await rowOf(id));
  });
}
const makeDue = (id: string) =>
  sql`update webhook_deliveries set next_try_at = now() where endpoint_id = ${id}`;

test("an unreadable secret is omitted from the signatures after its owner has rotated it", async () => {
  const { id, userId, place } = await endpoint(LOST);
  const fresh = newWebhookSecret();
  await rotateSecret(sql, { id, userId }, { sealedSecret: seal(NEW, place, fresh), oldLifeH: 24 });
  expect(await deliver(id)).toMatchObject({ state: "DELIVERED", attempts: 1 });
  const [message] = receiver.received;
  expect(message?.signatures).toHaveLength(1);
  expect(message && isSigned(message, fresh)).toBe(true);
});

test("an old secret that can be decrypted still signs next to the new one", async () => {
  const { id, userId, place, secret } = await endpoint(NEW);
  const fresh = newWebhookSecret();
  await rotateSecret(sql, { id, userId }, { sealedSecret: seal(NEW, place, fresh), oldLifeH: 24 });
  await deliver(id);
  const [message] = receiver.received;
  expect(message && [isSigned(message, fresh), isSigned(message, secret)]).toEqual([true, true]);
});

test("an unreadable secret is a failed attempt with its reason on the published schedule, and FAILED after ten", async () => {
  const { id, userId } = await endpoint(LOST);
  expect(await deliver(id)).toEqual({
    ...{ state: "PENDING", attempts: 1, tries: 1, logged: 1 },
    lastError: ROTATE,
  });
  expect((await findEndpoint(sql, { id, userId }))?.failingSince).toBeInstanceOf(Date);
  for (let tries = 2; tries < 10; tries++) {
    await makeDue(id);
    expect(await deliver(id, { number: tries })).toMatchObject({ state: "PENDING", tries, logged: tries });
  }
  await makeDue(id);
  expect(await deliver(id, { number: 10 })).toMatchObject({ state: "FAILED", tries: 10, logged: 10 });
  expect(receiver.received).toEqual([]);
});

test("an unreadable secret disables its endpoint when an attempt fails after 72 hours", async () => {
  const { id, userId } = await endpoint(LOST);
  await sql`update webhook_endpoints set failing_since = now() - interval '73 hours' where id = ${id}`;
  await deliver(id);
  expect(await findEndpoint(sql, { id, userId })).toMatchObject({
    ...{ enabled: false, disabledReason: "failing" },
  });
});

test("any other error while sending is a failed attempt that reveals nothing to the owner, and is logged", async () => {
  const { id } = await endpoint(NEW);
  // no URL: the error is not one of the connection
  await sql`update webhook_endpoints set url = 'inside' where id = ${id}`;
  const log = openLog("test", "silent");
  const lines: unknown[][] = [];
  log.error = ((...line: unknown[]) => void lines.push(line)) as typeof log.error;
  expect(await deliver(id, { log })).toEqual({
    ...{ state: "PENDING", attempts: 1, tries: 1, logged: 1 },
    lastError: "service error: the message was not sent",
  });
  expect(lines).toMatchObject([[{ endpointId: id, err: expect.any(Error) }, "webhook not sent"]]);
});

test("a message that arrives while another call looks for due ones is sent without a further event", async () => {
  const config = { baseUrl: "http://localhost", webhookSealKeys: NEW, webhookPrivateTargets: true };
  const deps = { sql, log: openLog("test", "silent"), config, stop: new AbortController().signal };
  const { id: first } = await endpoint(NEW);
  const second = Promise.withResolvers<Promise<void>>();
  let during: Promise<void> | undefined;
  await sql.begin(async (tx) => {
    // the first call waits for this row, with a snapshot from before the second message
    await tx`select from webhook_deliveries where endpoint_id = ${first} for update`;
    during = deliverWebhooks(deps);
    await waitFor("the first call at the row", async () => {
      const [waiting] = await sql`
        select from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%webhook_deliveries%'`;
      return waiting;
    });
    await endpoint(NEW);
    second.resolve(deliverWebhooks(deps));
    // as if another worker had sent it: the end of its attempt would look for what is due again
    await tx`update webhook_deliveries set state = 'DELIVERED' where endpoint_id = ${first}`;
  });
  await Promise.all([during, await second.promise]);
  await waitFor("the second message", async () => receiver.received.length === 1);
});
