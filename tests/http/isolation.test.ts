/** Two users try each other's data on every route the document has, in every way an id can be given. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

type Operation = {
  security?: Record<string, unknown>[];
  requestBody?: unknown;
  parameters?: { name: string; in: string }[];
};

let world: ApiWorld;
let victim: Merchant;
let thief: Merchant;
let operations: { method: string; path: string; operation: Operation }[];
/** What is the victim's, by the kind of id; and texts that must never reach the thief. */
const belongings: Record<string, string> = {};
let secrets: string[];

beforeAll(async () => {
  // without a worker nobody renders exports
  world = await startApiWorld({ env: { EXPORT_WAIT_MS: "20" } });
  victim = await signUp(world.baseUrl);
  thief = await signUp(world.baseUrl);
  const key = await victim.client.post("/v1/api-keys", { name: "canary-key-name", scopes: ["links:read"] });
  const link = await victim.client.post("/v1/payment-links", {
    amount: 12.5,
    description: "canary-link-text",
  });
  expect(link.status).toBeWithin(200, 202);
  const exported = await victim.client.post(
    "/v1/transactions/export",
    { format: "csv" },
    { prefer: "respond-async" },
  );
  expect(exported.status).toBe(202);
  await world.sql`
    insert into transactions (id, owner, network, type, status, amount_units, counterparty, description, detected_at)
    values ('txn_canary', owner_key(${victim.userId}), 'base-sepolia', 'RECEIVE', 'CONFIRMED', 1, ${`0x${"ab".repeat(20)}`},
      'canary-transaction', now())`;
  const sessions = await victim.client.get("/v1/auth/sessions");
  belongings.session = sessions.body.data[0].id;
  belongings.key = key.body.data.id;
  belongings.link = link.body.id;
  belongings.export = exported.body.data.export.id;
  secrets = [
    victim.email,
    victim.userId,
    victim.walletAddress,
    key.body.data.prefix,
    "canary-key-name",
    "canary-link-text",
    "canary-transaction",
    belongings.export ?? "",
    belongings.session ?? "",
    victim.passkey.credentialId,
  ];
  const { body } = await openClient(world.baseUrl).get("/openapi-full.json");
  operations = Object.entries<Record<string, Operation>>(body.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ method, path, operation })),
  );
}, 120_000);
afterAll(() => world?.stop());

const isGuarded = ({ operation }: { operation: Operation }) =>
  operation.security?.some((one) => "session" in one) ?? false;

/** Which of the victim's ids a path's parameter means. */
function idFor(path: string): string {
  if (path.includes("api-keys")) return belongings.key ?? "";
  if (path.includes("sessions")) return belongings.session ?? "";
  if (path.includes("passkeys")) return victim.passkey.credentialId;
  if (path.includes("exports")) return belongings.export ?? "";
  return belongings.link ?? "";
}

const userIdForms = (userId: string) => [
  `userId=${userId}`,
  `userId=${thief.userId}&userId=${userId}`,
  `userId=${userId}&userId=${thief.userId}`,
  `userId[]=${userId}`,
  `userId=${userId.toUpperCase()}`,
  `userId=${encodeURIComponent(` ${userId}`)}`,
  `user_id=${userId}`,
  "userId=",
  "userId=%00",
];

async function send(client: Client, method: string, url: string, body: unknown) {
  if (method === "get") return client.get(url);
  if (method === "delete") return client.delete(url);
  return method === "patch" ? client.patch(url, body) : client.post(url, body);
}

/** Of the victim's things the ones that show in a text. */
const leaks = (text: string, asked: string) =>
  secrets.filter((secret) => text.includes(secret) && !asked.includes(secret));

describe("a signed-in thief", () => {
  test("sees nothing of another user on any guarded route, whatever id is asked for", async () => {
    const faults: string[] = [];
    let requests = 0;
    for (const { method, path } of operations.filter(isGuarded)) {
      // these end or change the thief's own session
      if (path.endsWith("/logout")) continue;
      // it does not end; tests/events/stream.test.ts reads it beside another user who is busy
      if (path === "/v1/events/stream") continue;
      const target = path.replace(/\{[^}]+\}/g, idFor(path));
      for (const query of ["", ...userIdForms(victim.userId)]) {
        const url = query ? `${target}?${query}` : target;
        const body = {
          userId: victim.userId,
          displayName: "thief",
          format: "json",
          amount: 1,
          description: "x",
          name: "x",
          scopes: ["exports"],
        };
        const answer = await send(thief.client, method, url, body);
        requests += 1;
        const asked = url.includes(victim.userId) || method !== "get" ? victim.userId : "";
        const shown = leaks(answer.text, asked);
        if (shown.length > 0) faults.push(`${method} ${url} ${answer.status} shows ${shown}`);
        if (answer.status >= 500 && answer.body?.error?.code !== undefined)
          faults.push(`${method} ${url} ${answer.status} ${answer.text}`);
      }
    }
    expect(requests).toBeGreaterThan(100);
    expect(faults).toEqual([]);
  }, 120_000);

  test("gets 403 for another's userId and 404 for another's link", async () => {
    const { client } = thief;
    for (const path of [
      "/v1/payment-links",
      "/v1/payment-links/stats",
      `/v1/payment-links/${belongings.link}`,
    ])
      expect((await client.get(`${path}?userId=${victim.userId}`)).status).toBe(403);
    const body = { userId: victim.userId, amount: 1, description: "x" };
    expect((await client.post("/v1/payment-links", body)).status).toBe(403);
    expect((await client.get(`/v1/payment-links/${belongings.link}`)).status).toBe(404);
    expect((await client.post(`/v1/payment-links/${belongings.link}/cancel`)).status).toBe(404);
    expect((await client.get(`/v1/transactions/exports/${belongings.export}`)).status).toBe(404);
    expect((await client.get(`/v1/transactions/exports/${belongings.export}/download`)).status).toBe(404);
  });

  test("changed nothing of the victim's", async () => {
    const me = await victim.client.get("/v1/auth/me");
    expect(me.body).toMatchObject({
      id: victim.userId,
      displayName: null,
      walletAddress: victim.walletAddress,
    });
    const links = await victim.client.get("/v1/payment-links");
    expect(links.body.links).toHaveLength(1);
    expect(links.body.links[0]).toMatchObject({ id: belongings.link, status: "ACTIVE" });
    const keys = await victim.client.get("/v1/api-keys");
    expect(keys.body.data).toMatchObject([{ id: belongings.key, revokedAt: null }]);
    expect((await victim.client.get("/v1/transactions")).body.data.pagination.total).toBe(1);
  });
});

describe("a stranger", () => {
  test("gets 401 on every guarded route, without anybody's data in it", async () => {
    const client = openClient(world.baseUrl);
    for (const { method, path } of operations.filter(isGuarded)) {
      const answer = await send(client, method, path.replace(/\{[^}]+\}/g, idFor(path)), {});
      expect(`${method} ${path} ${answer.status}`).toBe(`${method} ${path} 401`);
      expect(leaks(answer.text, "")).toEqual([]);
    }
  });

  test("learns what a payer must know about a link, and no more", async () => {
    const { status, text, body } = await openClient(world.baseUrl).get(
      `/api/v1/public/payment-links/${belongings.link}/data`,
    );
    expect(status).toBe(200);
    expect(body).toMatchObject({
      linkId: belongings.link,
      amount: 12.5,
      recipientAddress: victim.walletAddress,
    });
    expect(text).not.toContain(victim.email);
    expect(text).not.toContain(victim.userId);
  });
});

test("an API key opens only what its scopes say", async () => {
  const { body } = await victim.client.post("/v1/api-keys", { name: "reader", scopes: ["links:read"] });
  const client = openClient(world.baseUrl);
  const headers = { authorization: `Bearer ${body.data.key}` };
  expect((await client.get("/v1/payment-links", headers)).status).toBe(200);
  expect((await client.get(`/v1/payment-links/${belongings.link}`, headers)).status).toBe(200);
  const denied = await client.post("/v1/payment-links", { amount: 1, description: "x" }, headers);
  expect(denied.status).toBe(403);
  expect(denied.body.error).toMatchObject({ code: "FORBIDDEN", details: { field: "scope" } });
  expect((await client.get("/v1/transactions", headers)).status).toBe(403);
  expect((await client.get("/v1/payment-links", { authorization: `Bearer ${body.data.key}x` })).status).toBe(
    401,
  );
  const [used] = await world.sql<{ lastUsedAt: Date | null }[]>`
    select last_used_at from api_keys where id = ${body.data.id}`;
  expect(used?.lastUsedAt).toBeInstanceOf(Date);
  await victim.client.delete(`/v1/api-keys/${body.data.id}`);
  expect((await client.get("/v1/payment-links", headers)).status).toBe(401);
});
