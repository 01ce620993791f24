/** Actions that require a passkey assertion within the last 15 minutes. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { type Merchant, signIn, signUp } from "../support/sign-up.ts";

let world: ApiWorld;
let merchant: Merchant;
let endpointId: string;

beforeAll(async () => {
  world = await startApiWorld();
  merchant = await signUp(world.baseUrl);
  const { body } = await merchant.client.post("/v1/webhook-endpoints", {
    url: "https://hooks.example.com/a",
  });
  endpointId = body.data.id;
}, 120_000);
afterAll(() => world?.stop());

const LIMIT_S = 15 * 60;

const sessionIdOf = (client: Client): string =>
  JSON.parse(Buffer.from(client.cookies.get("authToken")?.split(".")[1] ?? "", "base64url").toString()).sid;

/** Sets the session's last passkey use to `seconds` ago; null: never. */
async function setPasskeyAge(client: Client, seconds: number | null): Promise<void> {
  const rows = await world.sql`
    update sessions
    set passkey_at = now() - make_interval(secs => ${seconds}::float8)
    where id = ${sessionIdOf(client)}
    returning id`;
  expect(rows).toHaveLength(1);
}

function expectRefused(answer: Answer): void {
  expect(answer.status).toBe(403);
  expect(answer.body.error).toMatchObject({ code: "FORBIDDEN", details: { issue: "passkey_required" } });
}

const GUARDED: Record<string, (client: Client, headers?: Record<string, string>) => Promise<Answer>> = {
  "POST /v1/api-keys": (client, headers) =>
    client.post("/v1/api-keys", { name: "shop", scopes: ["links:read"] }, headers),
  "POST /v1/webhook-endpoints": (client, headers) =>
    client.post("/v1/webhook-endpoints", { url: "https://hooks.example.com/b" }, headers),
  "PATCH /v1/webhook-endpoints/{id}": (client, headers) =>
    client.patch(`/v1/webhook-endpoints/${endpointId}`, { url: "https://hooks.example.com/c" }, headers),
  "POST /v1/webhook-endpoints/{id}/rotate-secret": (client, headers) =>
    client.post(`/v1/webhook-endpoints/${endpointId}/rotate-secret`, undefined, headers),
};

describe.each(Object.keys(GUARDED))("%s", (name) => {
  const call = GUARDED[name] ?? (() => Promise.reject(new Error(name)));

  test("is allowed just within 15 minutes after a sign-in with the passkey", async () => {
    const client = await signIn(merchant);
    await setPasskeyAge(client, LIMIT_S - 20);
    expect((await call(client)).status).toBeWithin(200, 202);
  });

  test("error: 403 passkey_required just after 15 minutes, or without a passkey; signing in again lifts it", async () => {
    const client = await signIn(merchant);
    await setPasskeyAge(client, LIMIT_S + 1);
    expectRefused(await call(client));
    await setPasskeyAge(client, null);
    expectRefused(await call(client));
    expect((await call(await signIn(merchant))).status).toBeWithin(200, 202);
  });

  test("a test bearer counts as fresh", async () => {
    const client = openClient(world.baseUrl);
    const { body } = await client.post("/v1/test/token", { email: merchant.email });
    const headers = { "x-test-mode": "true", authorization: `Bearer ${body.token}` };
    expect((await call(client, headers)).status).toBeWithin(200, 202);
  });

  test("error: a test token sent as a cookie does not count as fresh", async () => {
    const client = openClient(world.baseUrl);
    const { body } = await client.post("/v1/test/token", { email: merchant.email });
    client.cookies.set("authToken", body.token);
    expectRefused(await call(client));
  });
});

test("an API key with the scope changes webhook endpoints: its creation required a fresh passkey", async () => {
  const { body } = await merchant.client.post("/v1/api-keys", { name: "ops", scopes: ["webhooks"] });
  const answer = await openClient(world.baseUrl).post(
    `/v1/webhook-endpoints/${endpointId}/rotate-secret`,
    undefined,
    { authorization: `Bearer ${body.data.key}` },
  );
  expect(answer.status).toBe(200);
});

test("refuses before validation and writes nothing", async () => {
  const client = await signIn(merchant);
  await setPasskeyAge(client, LIMIT_S + 1);
  const count = async () =>
    (await world.sql`select 1 from api_keys where user_id = ${merchant.userId}`).length;
  const before = await count();
  expectRefused(await client.post("/v1/api-keys", { nonsense: true }));
  expectRefused(await client.post("/v1/api-keys", { name: "x", scopes: ["exports"] }));
  expect(await count()).toBe(before);
});

test("listing, revoking and deleting need no fresh passkey", async () => {
  const { body } = await merchant.client.post("/v1/api-keys", { name: "gone", scopes: ["exports"] });
  const client = await signIn(merchant);
  await setPasskeyAge(client, null);
  for (const path of ["/v1/api-keys", "/v1/webhook-endpoints", `/v1/webhook-endpoints/${endpointId}`])
    expect((await client.get(path)).status).toBe(200);
  expect((await client.delete(`/v1/api-keys/${body.data.id}`)).status).toBe(200);
});

test("a wallet set up by registering a passkey counts as a fresh passkey", async () => {
  const fresh = await signUp(world.baseUrl);
  expect((await fresh.client.post("/v1/api-keys", { name: "first", scopes: ["exports"] })).status).toBe(201);
});
