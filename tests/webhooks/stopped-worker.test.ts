/** A worker that is stopped, as for an upgrade, while it delivers messages. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { signUp } from "../support/sign-up.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

/** Longer than whatever else a worker waits for when it ends. */
const ANSWER_MS = 4_000;
const MESSAGES = 12;

let world: MerchantWorld;
let receiver: Receiver;
beforeAll(async () => {
  world = await startMerchantWorld({ processes: ["api", "worker"], env: { WEBHOOK_PRIVATE_TARGETS: "1" } });
}, 120_000);
afterEach(() => receiver?.stop());
afterAll(() => world?.stop());

test("finishes what it is sending, begins nothing more, and leaves the rest to the next worker at once", async () => {
  const ann = await signUp(world.baseUrl);
  receiver = startReceiver();
  receiver.answer(async () => {
    await Bun.sleep(ANSWER_MS);
    return new Response("ok");
  });
  const { body } = await ann.client.post("/v1/webhook-endpoints", {
    url: receiver.url,
    eventTypes: ["payment_link.created"],
  });
  for (let n = 0; n < MESSAGES; n++)
    await ann.client.post("/v1/payment-links", { amount: 1, description: "d" });
  await waitFor("messages in flight", async () => receiver.inFlight().now === 2);
  await world.kill("worker", "SIGTERM");
  const rows = await world.sql<{ state: string; isLeased: boolean; n: bigint }[]>`
    select state, lease_until is not null as is_leased, count(*) as n
    from webhook_deliveries
    where endpoint_id = ${body.data.id}
    group by 1, 2
    order by 1`;
  const sent = BigInt(receiver.received.length);
  expect(receiver.received.length).toBeLessThan(MESSAGES);
  expect([...rows]).toEqual([
    { state: "DELIVERED", isLeased: false, n: sent },
    { state: "PENDING", isLeased: false, n: BigInt(MESSAGES) - sent },
  ]);
  const jobs = await world.sql`select from graphile_worker.jobs where key = 'deliver_webhooks:now'`;
  expect(jobs.length).toBe(1);
  receiver.answer(() => new Response("ok"));
  await world.start("worker");
  await waitFor("the rest", async () => receiver.received.length >= MESSAGES);
  const ids = receiver.received.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
}, 120_000);
