/** Attempts of one worker: which answers end a message, what is kept of them, and what a worker that stops leaves behind. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newWebhookEndpointId } from "../../core/domain/ids.ts";
import { type KeyList, seal } from "../../core/domain/seal-secrets.ts";
import { newWebhookSecret } from "../../core/domain/webhook.ts";
import { openLog } from "../../core/runtime/log.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { recordTestEvent } from "../../db/webhooks/test-events.ts";
import { insertEndpoint } from "../../db/webhooks/webhooks.ts";
import { deliverWebhooks, endDeliveries, type WebhookDeps } from "../../worker/webhooks/deliver-webhooks.ts";
import { seedUser } from "../support/passkey-rows.ts";
import { openPauses } from "../support/poll.ts";
import { createTestDatabase, TEST_POOL, type TestDatabase } from "../support/postgres.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

const KEYS: KeyList = ["a key of this test, which has 32 characters"];
/** Of one worker's deliveries in flight. */
const IN_FLIGHT_MAX = 64;
/** Of one user's. */
const PER_USER = 6;
const KEPT_CHARS = 1_000;
let db: TestDatabase;
let sql: Sql;
let receiver: Receiver;
let stopping: AbortController;
let deps: WebhookDeps;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 8 });
});
beforeEach(async () => {
  await sql`truncate webhook_endpoints cascade`;
  await sql`delete from graphile_worker._private_jobs`;
  receiver = startReceiver();
  stopping = new AbortController();
  const config = { baseUrl: "http://localhost", webhookSealKeys: KEYS, webhookPrivateTargets: true };
  deps = { sql, log: openLog("test", "silent"), config, stop: stopping.signal };
});
afterEach(() => receiver.stop());
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

/** Endpoints of one user, each with one message that is due. */
async function addMessages(endpoints = 1): Promise<string[]> {
  const userId = await seedUser(sql);
  const ids = Array.from({ length: endpoints }, () => newWebhookEndpointId());
  for (const id of ids) {
    const sealedSecret = seal(KEYS, { purpose: "webhook secret", id }, newWebhookSecret());
    const given = { id, userId, url: receiver.url, description: "", eventTypes: [], sealedSecret };
    await insertEndpoint(sql, given, 100);
    await recordTestEvent(sql, { endpointId: id, userId, sampleType: "payment_link.paid" });
  }
  return ids;
}

async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const pause = openPauses();
  while (!(await isTrue())) await pause();
}

type Row = {
  state: string;
  tries: number;
  lastError: string | null;
  lastStatus: number | null;
  isInFlight: boolean;
};
const rows = () => sql<Row[]>`
  select state, tries, last_error, last_status, lease_until is not null as is_in_flight from webhook_deliveries order by id`;
const isRecorded = async () =>
  (await rows()).every(({ isInFlight, tries, state }) => !isInFlight && (tries > 0 || state === "DELIVERED"));

async function deliverAnswer(status: number, body?: string): Promise<Row | undefined> {
  await addMessages();
  receiver.answer(() => new Response(body ?? null, { status }));
  await deliverWebhooks(deps);
  await until(isRecorded);
  return (await rows())[0];
}

describe("an answer", () => {
  test.each([200, 204, 299])("with the status %d ends a message", async (status) => {
    expect(await deliverAnswer(status)).toMatchObject({
      state: "DELIVERED",
      lastStatus: status,
      lastError: null,
    });
  });

  test.each([300, 404, 500])("with the status %d does not, and the message is due again", async (status) => {
    expect(await deliverAnswer(status)).toMatchObject({
      ...{ state: "PENDING", tries: 1, lastStatus: status, lastError: `answered ${status}` },
    });
    // of when its next attempt is due
    await until(async () => {
      const later = await sql`
        select from graphile_worker._private_jobs job, webhook_deliveries delivery
        where abs(extract(epoch from job.run_at - delivery.next_try_at)) < 0.01 and job.run_at > now()`;
      return later.length === 1;
    });
  });

  test("is kept without the characters that the database refuses, up to a length; none is kept as none", async () => {
    await deliverAnswer(500, `a\0b${"c".repeat(2 * KEPT_CHARS)}`);
    const kept = () => sql<{ response: string | null }[]>`select response from webhook_attempts`;
    expect((await kept())[0]?.response).toBe(`ab${"c".repeat(KEPT_CHARS - 3)}`);
    await sql`truncate webhook_endpoints cascade`;
    await deliverAnswer(500);
    expect((await kept())[0]?.response).toBeNull();
  });

  test("of 410 disables its endpoint, of 404 does not", async () => {
    const isEnabled = async () =>
      (await sql<{ enabled: boolean }[]>`select enabled from webhook_endpoints`)[0]?.enabled;
    await deliverAnswer(404);
    expect(await isEnabled()).toBe(true);
    await sql`truncate webhook_endpoints cascade`;
    await deliverAnswer(410);
    expect(await isEnabled()).toBe(false);
  });
});

test("no answer is a failed attempt with its reason", async () => {
  await addMessages();
  await sql`update webhook_endpoints set url = 'http://127.0.0.1:9/'`;
  await deliverWebhooks(deps);
  await until(isRecorded);
  expect((await rows())[0]).toMatchObject({ state: "PENDING", tries: 1, lastStatus: null });
  expect((await rows())[0]?.lastError).toContain("could not be reached");
});

test("more messages than a worker has in flight at once all arrive from one call", async () => {
  const users = Math.ceil(IN_FLIGHT_MAX / PER_USER) + 2;
  for (let user = 0; user < users; user++) await addMessages(PER_USER);
  let most = 0;
  const held = Promise.withResolvers<void>();
  receiver.answer(async () => {
    most = Math.max(most, receiver.inFlight().now);
    await held.promise;
    return new Response("ok");
  });
  await deliverWebhooks(deps);
  await until(() => most >= IN_FLIGHT_MAX);
  // a further call takes none of the others
  await deliverWebhooks(deps);
  expect(receiver.inFlight().now).toBe(IN_FLIGHT_MAX);
  held.resolve();
  await until(() => receiver.received.length === users * PER_USER);
  await until(isRecorded);
  expect(most).toBe(IN_FLIGHT_MAX);
}, 60_000);

describe("a worker that stops", () => {
  const jobsNow = () => sql`select from graphile_worker.jobs where key = 'deliver_webhooks:now'`;

  test("waits for what it is sending, begins nothing more, and leaves a job for the others", async () => {
    await addMessages();
    const held = Promise.withResolvers<void>();
    receiver.answer(async () => {
      await held.promise;
      return new Response("ok");
    });
    await deliverWebhooks(deps);
    await until(() => receiver.received.length === 1);
    stopping.abort();
    let isEnded = false;
    const ending = endDeliveries(deps, Promise.resolve()).then(() => {
      isEnded = true;
    });
    await addMessages();
    await deliverWebhooks(deps);
    await Bun.sleep(200);
    expect(isEnded).toBe(false);
    held.resolve();
    await ending;
    expect((await rows()).map(({ state }) => state).sort()).toEqual(["DELIVERED", "PENDING"]);
    expect(receiver.received).toHaveLength(1);
    expect(await jobsNow()).toHaveLength(1);
  });

  test("ends at once when it sends nothing", async () => {
    stopping.abort();
    await endDeliveries(deps, Promise.resolve());
    expect(await jobsNow()).toHaveLength(1);
  });
});
