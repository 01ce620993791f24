/** A worker takes deliveries while the result of an attempt whose lease is over is being recorded. */
import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { newWebhookEndpointId } from "../../core/domain/ids.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import {
  markDelivered,
  markFailedTry,
  type TakenDelivery,
  takeDeliveries,
} from "../../db/webhooks/deliveries.ts";
import { recordTestEvent } from "../../db/webhooks/test-events.ts";
import { insertEndpoint } from "../../db/webhooks/webhooks.ts";
import { seedUser } from "../support/passkey-rows.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { untilBlocked } from "../support/until-blocked.ts";

setDefaultTimeout(120_000);

const RESULT = { status: 200, error: undefined, response: undefined, durationMs: 1 };
let db: TestDatabase;
let sql: Sql;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 4 });
});
afterAll(async () => {
  await sql?.end();
  await db?.drop();
});
beforeEach(async () => {
  await sql`delete from webhook_endpoints`;
});

const take = () =>
  sql.begin((tx) => takeDeliveries(tx, { limit: 100, leaseS: 60, perEndpoint: 100, perUser: 100 }));

/** In flight, with its lease over. */
async function lateDelivery(): Promise<TakenDelivery> {
  const userId = await seedUser(sql);
  const given = { id: newWebhookEndpointId(), userId, url: "https://example.test", description: "" };
  await insertEndpoint(sql, { ...given, eventTypes: [], sealedSecret: Buffer.from("a secret") }, 100);
  await recordTestEvent(sql, { endpointId: given.id, userId, sampleType: "payment_link.paid" });
  const [taken] = await take();
  if (!taken) throw new Error("nothing was taken");
  await sql`update webhook_deliveries set lease_until = now() where id = ${taken.id}`;
  return taken;
}

/** What is taken by a call that begins before the result is committed, and ends after. */
async function takenBeside(record: (tx: Tx) => Promise<unknown>): Promise<number> {
  let taking: ReturnType<typeof take> | undefined;
  await sql.begin(async (tx) => {
    await record(tx);
    taking = take();
    taking.catch(() => undefined);
    await untilBlocked(sql, taking);
  });
  return (await taking)?.length ?? -1;
}

test("race: a message whose delivery is being recorded is not sent again", async () => {
  const taken = await lateDelivery();
  expect(await takenBeside((tx) => markDelivered(tx, taken, RESULT))).toBe(0);
  expect([...(await sql`select state, attempts from webhook_deliveries where id = ${taken.id}`)]).toEqual([
    { state: "DELIVERED", attempts: 1 },
  ]);
});

test("race: a message whose failed attempt is being recorded is sent again when its retry is due, not before", async () => {
  const taken = await lateDelivery();
  const failed = { ...RESULT, status: 500, error: "answered 500" };
  expect(await takenBeside((tx) => markFailedTry(tx, taken, failed, 60))).toBe(0);
  await sql`update webhook_deliveries set next_try_at = now() where id = ${taken.id}`;
  expect(await take()).toMatchObject([{ id: taken.id, attempts: 2 }]);
});
