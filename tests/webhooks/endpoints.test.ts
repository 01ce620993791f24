import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type MerchantWorld, startMerchantWorld } from "../links/merchant-world.ts";
import { waitFor } from "../links/payer-side.ts";
import { openClient } from "../support/http-client.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { startReceiver } from "./receiver.ts";

let world: MerchantWorld;
let ann: Merchant;
let bob: Merchant;
const PATH = "/v1/webhook-endpoints";

// as in production: public addresses only
beforeAll(async () => {
  world = await startMerchantWorld({ processes: ["api", "worker"] });
  [ann, bob] = await Promise.all([signUp(world.baseUrl), signUp(world.baseUrl)]);
}, 120_000);
afterAll(() => world?.stop());

describe("endpoints", () => {
  test("are created, listed, changed and deleted by their owner; the secret is shown once", async () => {
    const made = await ann.client.post(PATH, {
      url: "https://shop.example.com/hooks",
      description: "Shop",
      eventTypes: ["payment_link.paid"],
    });
    expect(made.status).toBe(201);
    const { id, secret } = made.body.data;
    expect(made.body.meta.requestId).toMatch(/^req_/);
    const one = await ann.client.get(`${PATH}/${id}`);
    expect(one.body.data).toMatchObject({
      id,
      url: "https://shop.example.com/hooks",
      enabled: true,
      eventTypes: ["payment_link.paid"],
    });
    expect(one.text).not.toContain(secret);
    const [row] = await world.sql`select sealed_secret from webhook_endpoints where id = ${id}`;
    expect(Buffer.from(row?.sealedSecret).toString("latin1")).not.toContain(secret.slice(6));
    const changed = await ann.client.patch(`${PATH}/${id}`, {
      description: "",
      eventTypes: [],
      enabled: false,
    });
    expect(changed.body.data).toMatchObject({
      description: "",
      eventTypes: [],
      enabled: false,
      disabledReason: "by_owner",
      url: "https://shop.example.com/hooks",
    });
    expect((await ann.client.get(PATH)).body.data.map((endpoint: { id: string }) => endpoint.id)).toEqual([
      id,
    ]);
    expect((await ann.client.delete(`${PATH}/${id}`)).status).toBe(200);
    expect((await ann.client.get(`${PATH}/${id}`)).status).toBe(404);
  });

  test("error: another user's are 404 on every route", async () => {
    const { body } = await ann.client.post(PATH, { url: "https://shop.example.com/" });
    const { id } = body.data;
    const answers = await Promise.all([
      bob.client.get(`${PATH}/${id}`),
      bob.client.patch(`${PATH}/${id}`, { enabled: false }),
      bob.client.delete(`${PATH}/${id}`),
      bob.client.post(`${PATH}/${id}/rotate-secret`),
      bob.client.get(`${PATH}/${id}/deliveries`),
      bob.client.get("/v1/webhook-deliveries/whd_00000000000000000000000000000000"),
      bob.client.post("/v1/webhook-deliveries/whd_00000000000000000000000000000000/redeliver"),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(Array(7).fill(404));
    expect((await bob.client.get(PATH)).body.data).toEqual([]);
    expect((await ann.client.get(`${PATH}/${id}`)).body.data.enabled).toBe(true);
  });

  test("error: another user's deliveries are 404", async () => {
    const { body } = await ann.client.post(PATH, { url: "https://nobody.invalid/" });
    await ann.client.post("/v1/payment-links", { amount: 1, description: "d" });
    const log = await waitFor("a delivery", async () => {
      const { body: found } = await ann.client.get(`${PATH}/${body.data.id}/deliveries`);
      return found.data.length > 0 ? found.data : undefined;
    });
    expect((await bob.client.get(`/v1/webhook-deliveries/${log[0].id}`)).status).toBe(404);
    expect((await bob.client.post(`/v1/webhook-deliveries/${log[0].id}/redeliver`)).status).toBe(404);
    const failed = await waitFor("its failure", async () => {
      const { body: one } = await ann.client.get(`/v1/webhook-deliveries/${log[0].id}`);
      return one.data.lastError ? one.data : undefined;
    });
    expect(failed.lastError).toBe("the name nobody.invalid does not resolve");
    await ann.client.delete(`${PATH}/${body.data.id}`);
  }, 120_000);

  test("error: at most twenty, even when twenty-five are created concurrently", async () => {
    const kim = await signUp(world.baseUrl);
    const answers = await Promise.all(
      Array.from({ length: 25 }, (_, n) => kim.client.post(PATH, { url: `https://example.com/${n}` })),
    );
    expect(answers.filter(({ status }) => status === 201).length).toBe(20);
    expect(answers.filter(({ status }) => status === 409).length).toBe(5);
  });

  test("error: 401 without a session, 403 for a key without the scope", async () => {
    const nobody = openClient(world.baseUrl);
    expect((await nobody.get(PATH)).status).toBe(401);
    const { body } = await ann.client.post("/v1/api-keys", { name: "k", scopes: ["links:read"] });
    expect((await nobody.get(PATH, { authorization: `Bearer ${body.data.key}` })).status).toBe(403);
  });

  test.each([
    [{}, "url"],
    [{ url: "" }, "url"],
    [{ url: "nonsense" }, "url"],
    [{ url: "ftp://example.com/" }, "url"],
    [{ url: "http://example.com/" }, "url"],
    [{ url: "https://user:pw@example.com/" }, "url"],
    [{ url: "https://example.com/#x" }, "url"],
    [{ url: "https://example.com/\r\nx" }, "url"],
    [{ url: " https://example.com/" }, "url"],
    [{ url: "https://example.com/\u202ex" }, "url"],
    [{ url: "https://localhost/" }, "url"],
    [{ url: "https://db/" }, "url"],
    [{ url: "https://printer.local/" }, "url"],
    [{ url: "https://metadata.google.internal./" }, "url"],
    [{ url: "https://127.0.0.1/" }, "url"],
    [{ url: "https://2130706433/" }, "url"],
    [{ url: "https://0x7f.1/" }, "url"],
    [{ url: "https://169.254.169.254/latest/meta-data" }, "url"],
    [{ url: "https://[::1]/" }, "url"],
    [{ url: "https://[::ffff:10.0.0.1]/" }, "url"],
    [{ url: `https://example.com/${"x".repeat(2_000)}` }, "url"],
    [{ url: "https://example.com:22/" }, "url"],
    [{ url: "https://example.com:25/" }, "url"],
    [{ url: "https://example.com:80/" }, "url"],
    [{ url: "https://example.com:442/" }, "url"],
    [{ url: "https://example.com:444/" }, "url"],
    [{ url: "https://example.com:1023/" }, "url"],
    [{ url: "https://example.com:0/" }, "url"],
    [{ url: "https://example.com/", eventTypes: ["nope"] }, "eventTypes.0"],
    [{ url: "https://example.com/", description: "x".repeat(201) }, "description"],
  ])("error: %j is 400", async (body, field) => {
    const { status, body: answer } = await ann.client.post(PATH, body);
    expect([status, answer.error.details.field]).toEqual([400, field]);
  });
});

test.each(["https://example.com:443/", "https://example.com:1024/", "https://example.com:65535/"])(
  "%s is accepted as an endpoint",
  async (url) => {
    const kim = await signUp(world.baseUrl);
    expect((await kim.client.post(PATH, { url })).status).toBe(201);
  },
);

test("error: a port that was allowed earlier is refused at delivery", async () => {
  const { body } = await ann.client.post(PATH, { url: "https://example.com/" });
  await world.sql`update webhook_endpoints set url = 'https://127.0.0.1:1023/' where id = ${body.data.id}`;
  await ann.client.post("/v1/payment-links", { amount: 1, description: "d" });
  await waitFor("the refusal", async () => {
    const { body: log } = await ann.client.get(`${PATH}/${body.data.id}/deliveries`);
    return log.data[0]?.lastError === "port 1023 is not allowed";
  });
  await ann.client.delete(`${PATH}/${body.data.id}`);
}, 120_000);

describe("a name that resolves to a private address", () => {
  test("is refused at delivery, whatever it resolved to at registration", async () => {
    const receiver = startReceiver();
    const { body } = await ann.client.post(PATH, { url: "https://shop.example.com/" });
    // as if its DNS record had changed: it was public, and resolves to this machine now
    await world.sql`update webhook_endpoints set url = ${`https://localhost:${new URL(receiver.url).port}/`} where id = ${body.data.id}`;
    await ann.client.post("/v1/payment-links", { amount: 1, description: "d" });
    await waitFor("the refusal", async () => {
      const { body: log } = await ann.client.get(`${PATH}/${body.data.id}/deliveries`);
      return log.data[0]?.lastError === "the name localhost resolves to an address that is not public";
    });
    await world.sql`update webhook_endpoints set url = ${receiver.url} where id = ${body.data.id}`;
    await world.sql`update webhook_deliveries set next_try_at = now() where endpoint_id = ${body.data.id}`;
    await world.sql`select graphile_worker.add_job('deliver_webhooks', '{}'::json)`;
    await waitFor("the other refusal", async () => {
      const { body: log } = await ann.client.get(`${PATH}/${body.data.id}/deliveries`);
      return log.data[0]?.lastError === "only https is allowed";
    });
    expect(receiver.received).toEqual([]);
    await receiver.stop();
  }, 120_000);
});
