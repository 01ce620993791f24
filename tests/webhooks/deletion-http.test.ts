/** What the owner of a webhook endpoint sees of it once it is deleted, and its receiver. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { isSigned, type Receiver, startReceiver } from "./receiver.ts";

let world: MerchantWorld;
let ann: Merchant;
let receiver: Receiver;

beforeAll(async () => {
  world = await startMerchantWorld({ processes: ["api", "worker"], env: { WEBHOOK_PRIVATE_TARGETS: "1" } });
  ann = await signUp(world.baseUrl);
  receiver = startReceiver();
}, 120_000);
afterAll(async () => {
  await receiver?.stop();
  await world?.stop();
});

async function addEndpoint(): Promise<{ id: string; secret: string }> {
  const given = { url: receiver.url, eventTypes: ["payment_link.created"] };
  const answer = await ann.client.post("/v1/webhook-endpoints", given);
  expect(answer.status).toBe(201);
  return answer.body.data;
}

const makeEvent = () => ann.client.post("/v1/payment-links", { amount: 1.5, description: "d" });

test("a deleted endpoint disappears from every route immediately, receives nothing more, and housekeeping removes its log", async () => {
  const endpoint = await addEndpoint();
  const path = `/v1/webhook-endpoints/${endpoint.id}`;
  await makeEvent();
  const delivered = await waitFor("the log", async () => {
    const [first] = (await ann.client.get(`${path}/deliveries`)).body.data;
    return first?.state === "DELIVERED" ? first : undefined;
  });
  const { body } = await ann.client.delete(path);
  expect(body.data).toEqual({ id: endpoint.id, deleted: true });
  const answers = [
    await ann.client.get(path),
    await ann.client.patch(path, { enabled: true }),
    await ann.client.delete(path),
    await ann.client.post(`${path}/rotate-secret`),
    await ann.client.post(`${path}/test`),
    await ann.client.get(`${path}/deliveries`),
    await ann.client.get(`/v1/webhook-deliveries/${delivered.id}`),
    await ann.client.post(`/v1/webhook-deliveries/${delivered.id}/redeliver`),
  ];
  expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(404));
  expect((await ann.client.get("/v1/webhook-endpoints")).body.data).toEqual([]);
  const next = await addEndpoint();
  const count = receiver.received.length;
  await makeEvent();
  await waitFor("the next endpoint's message", async () => receiver.received.length > count);
  expect(receiver.received.slice(count).map((message) => isSigned(message, next.secret))).toEqual([true]);
  await world.sql`select graphile_worker.add_job('housekeeping', '{}'::json)`;
  await waitFor("the end of its row", async () => {
    const rows = await world.sql`select id from webhook_endpoints where id = ${endpoint.id}`;
    return rows.length === 0;
  });
  expect(await world.sql`select id from webhook_deliveries where endpoint_id = ${endpoint.id}`).toHaveLength(
    0,
  );
}, 120_000);
