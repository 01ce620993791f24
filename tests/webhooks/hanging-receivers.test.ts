/** Receivers that accept a message and never answer: whose messages they delay, and whose not. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

let world: MerchantWorld;
let ann: Merchant;
let receiver: Receiver;
let slow: PromiseWithResolvers<void>;

beforeAll(async () => {
  world = await startMerchantWorld({ processes: ["api", "worker"], env: { WEBHOOK_PRIVATE_TARGETS: "1" } });
}, 120_000);
afterAll(() => world?.stop());
beforeEach(async () => {
  ann = await signUp(world.baseUrl);
  receiver = startReceiver();
  slow = Promise.withResolvers();
  receiver.answer(async () => {
    await slow.promise;
    return new Response("late");
  });
});
afterEach(async () => {
  slow.resolve();
  await receiver.stop();
  await world.startMissing();
});

async function addEndpoint(url = receiver.url, merchant = ann): Promise<string> {
  const { body } = await merchant.client.post("/v1/webhook-endpoints", {
    url,
    eventTypes: ["payment_link.created"],
  });
  return body.data.id;
}

async function makeEvent(merchant = ann): Promise<void> {
  await merchant.client.post("/v1/payment-links", { amount: 1, description: "d" });
}

/** A message that hung for longer than a worker waits is sent again: how often each is received depends on the machine. */
async function isAllDelivered(): Promise<boolean> {
  await world.sql`
    update webhook_deliveries set next_try_at = now() where state = 'PENDING' and lease_until is null and next_try_at > now()`;
  await world.sql`select graphile_worker.add_job('deliver_webhooks', '{}'::json)`;
  const left = await world.sql`select from webhook_deliveries where state <> 'DELIVERED'`;
  return left.length === 0;
}

test("a merchant whose twenty receivers all hang delays no other merchant", async () => {
  for (let n = 0; n < 20; n++) await addEndpoint();
  await makeEvent();
  await waitFor("some that hang", async () => receiver.inFlight().now > 1);
  const bob = await signUp(world.baseUrl);
  const quick = startReceiver();
  await addEndpoint(quick.url, bob);
  await makeEvent(bob);
  await waitFor("the other merchant's message", async () => quick.received.length === 1);
  await waitFor("the places of the first", async () => receiver.inFlight().most >= 6);
  expect(receiver.inFlight().most).toBe(6);
  slow.resolve();
  await waitFor("all", isAllDelivered);
  expect(receiver.inFlight().most).toBe(6);
  await quick.stop();
}, 120_000);

test("a merchant's failing receivers delay one message each, and the healthy one gets all of its messages", async () => {
  const hanging = await Promise.all(Array.from({ length: 4 }, () => addEndpoint()));
  await world.sql`update webhook_endpoints set failing_since = now() where id in ${world.sql(hanging)}`;
  const quick = startReceiver();
  await addEndpoint(quick.url);
  for (let n = 0; n < 5; n++) await makeEvent();
  await waitFor("all of the sound one", async () => quick.received.length === 5);
  await waitFor("those that hang", async () => receiver.inFlight().most >= 4);
  expect(receiver.inFlight().most).toBe(4);
  slow.resolve();
  await waitFor("the others", isAllDelivered);
  await quick.stop();
}, 120_000);

test("a receiver that hangs times out after ten seconds, and delays no other one of its merchant", async () => {
  const hanging = await addEndpoint();
  const quick = startReceiver();
  const healthy = await addEndpoint(quick.url);
  // all are due when the worker begins: the ten seconds are not spent on making them
  await world.kill("worker", "SIGTERM");
  for (let n = 0; n < 6; n++) await makeEvent();
  await world.start("worker");
  await waitFor("the quick one", async () => quick.received.length === 6);
  await waitFor("the timeout", async () => {
    const rows = await world.sql`
      select from webhook_deliveries
      where endpoint_id = ${hanging} and last_error = 'no answer within 10 seconds'`;
    return rows.length > 0;
  });
  expect(receiver.inFlight().most).toBe(2);
  // all of it before the first attempt at the one that hangs had ended
  const ends = await world.sql`
    select
      count(*) filter (where endpoint_id = ${healthy})::int as count,
      max(attempt.created_at) filter (where endpoint_id = ${healthy})
        < min(attempt.created_at) filter (where endpoint_id = ${hanging}) as is_before
    from webhook_attempts attempt
    join webhook_deliveries delivery on delivery.id = attempt.delivery_id`;
  expect([...ends]).toEqual([{ count: 6, isBefore: true }]);
  await quick.stop();
}, 120_000);
