/** Test events: a sample message to one endpoint, through the same queue, signature and log as every event. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { isSigned, type Receiver, startReceiver } from "./receiver.ts";

let world: MerchantWorld;
let ann: Merchant;
let receiver: Receiver;

beforeAll(async () => {
  world = await startMerchantWorld({ env: { WEBHOOK_PRIVATE_TARGETS: "1" }, processes: ["api", "worker"] });
  ann = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());
beforeEach(() => {
  receiver = startReceiver();
});
afterEach(() => receiver.stop());

async function addEndpoint(body: Record<string, unknown> = {}): Promise<{ id: string; secret: string }> {
  const eventTypes = ["payment_link.cancelled"];
  const answer = await ann.client.post("/v1/webhook-endpoints", { url: receiver.url, eventTypes, ...body });
  expect(answer.status).toBe(201);
  return answer.body.data;
}

describe("a test event", () => {
  test("goes only to the endpoint it was requested for, whatever types that selected, under its own type", async () => {
    const endpoint = await addEndpoint();
    const other = startReceiver();
    try {
      await addEndpoint({ url: other.url, eventTypes: [] });
      const sent = await ann.client.post(`/v1/webhook-endpoints/${endpoint.id}/test`);
      expect(sent).toMatchObject({ status: 202, body: { data: { eventType: "webhook.test" } } });
      const message = await waitFor("a message", async () => receiver.received[0]);
      expect(isSigned(message, endpoint.secret)).toBe(true);
      expect(message.id).toBe(sent.body.data.eventId);
      const made = await ann.client.post("/v1/payment-links", { amount: 1, description: "real" });
      const link = (await ann.client.get(`/v1/payment-links/${made.body.id}`)).body;
      const { sample, ...data } = message.json.data;
      expect({ ...message.json, data }).toEqual({
        ...{ type: "webhook.test", timestamp: expect.any(String) },
        data: { test: true, sampleType: "payment_link.paid", subjectId: endpoint.id },
      });
      expect(sample).toMatchObject({ type: "payment_link.paid", data: { link: { status: "PAID" } } });
      expect(Object.keys(sample.data.link)).toEqual(Object.keys(link));
      const deliveries = await world.sql`
        select endpoint_id from webhook_deliveries
        where event_id in (select id from events where user_id = ${ann.userId} and type = 'webhook.test')`;
      expect([...deliveries]).toEqual([{ endpointId: endpoint.id }]);
    } finally {
      other.stop();
    }
  });

  test("shows the requested type; error: 400 for an unknown type, 409 while disabled, 404 for another's", async () => {
    const endpoint = await addEndpoint();
    const path = `/v1/webhook-endpoints/${endpoint.id}/test`;
    await ann.client.post(path, { type: "transaction.confirmed" });
    const message = await waitFor("a message", async () => receiver.received[0]);
    expect(message.json.data.sample).toMatchObject({
      ...{ type: "transaction.confirmed", data: { transaction: { status: "CONFIRMED" } } },
    });
    for (const type of ["webhook.test", "nonsense"])
      expect((await ann.client.post(path, { type })).status).toBe(400);
    await ann.client.patch(`/v1/webhook-endpoints/${endpoint.id}`, { enabled: false });
    expect(await ann.client.post(path)).toMatchObject({
      ...{ status: 409, body: { error: { details: { issue: "disabled" } } } },
    });
    expect((await (await signUp(world.baseUrl)).client.post(path)).status).toBe(404);
  });
});
