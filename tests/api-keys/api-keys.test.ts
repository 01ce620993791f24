/** API keys and the security trail. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { type Merchant, signIn, signUp, verifiedUser } from "../support/sign-up.ts";

let world: ApiWorld;
let merchant: Merchant;
let other: Merchant;

beforeAll(async () => {
  world = await startApiWorld();
  merchant = await signUp(world.baseUrl);
  other = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

const ALL_SCOPES = ["links:read", "links:write", "transactions:read", "exports", "webhooks"];
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const make = (client: Client, body: unknown) => client.post("/v1/api-keys", body);

describe("POST /v1/api-keys", () => {
  test("shows the key once and stores its SHA-256", async () => {
    const { status, body } = await make(merchant.client, {
      name: " Shop ",
      scopes: ["links:read", "links:read"],
    });
    expect(status).toBe(201);
    expect(body.data).toMatchObject({
      name: "Shop",
      scopes: ["links:read"],
      lastUsedAt: null,
      revokedAt: null,
    });
    expect(body.data.id).toMatch(/^key_[\w-]{22}$/);
    expect(body.data.key).toMatch(/^sk_[\w-]{43}$/);
    expect(body.data.key).toStartWith(body.data.prefix);
    const listed = await merchant.client.get("/v1/api-keys");
    expect(listed.text).not.toContain(body.data.key);
    expect(listed.body.pagination).toEqual({ hasNextPage: false, nextCursor: null, limit: 100 });
    const [row] = await world.sql<{ keyHash: Uint8Array; text: string }[]>`
      select key_hash, k::text as text from api_keys k where id = ${body.data.id}`;
    expect(Buffer.from(row?.keyHash ?? [])).toEqual(createHash("sha256").update(body.data.key).digest());
    expect(row?.text).not.toContain(body.data.key.slice(12));
  });

  test.each([
    [{ name: "x", scopes: [] }, "scopes"],
    [{ name: "x", scopes: ["everything"] }, "scopes.0"],
    [{ name: "", scopes: ["exports"] }, "name"],
    [{ name: "x".repeat(101), scopes: ["exports"] }, "name"],
    [{ scopes: ["exports"] }, "name"],
    [{ name: "x" }, "scopes"],
  ])("error: 400 for %j", async (body, field) => {
    const answer = await make(merchant.client, body);
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.field).toBe(field);
  });

  test("error: 403 before the wallet exists and for an API key, 401 without a session and for a revoked key", async () => {
    const pending = await verifiedUser(world.baseUrl);
    expect((await make(pending.client, { name: "x", scopes: ["exports"] })).status).toBe(403);
    expect((await make(openClient(world.baseUrl), { name: "x", scopes: ["exports"] })).status).toBe(401);
    const { body } = await make(merchant.client, { name: "x", scopes: ALL_SCOPES });
    const byKey = openClient(world.baseUrl);
    const ask = async () => [
      await byKey.post("/v1/api-keys", { name: "y", scopes: ["exports"] }, bearer(body.data.key)),
      await byKey.get("/v1/auth/me", bearer(body.data.key)),
      await byKey.get("/v1/wallets/owners", bearer(body.data.key)),
    ];
    for (const answer of await ask()) {
      expect(answer.status).toBe(403);
      expect(answer.body.error.details).toEqual({ field: "authorization", issue: "session_required" });
    }
    await merchant.client.delete(`/v1/api-keys/${body.data.id}`);
    expect((await ask()).map(({ status }) => status)).toEqual([401, 401, 401]);
  });

  test("error: 409 for the fifty-first live key, also with concurrent requests", async () => {
    const { client } = await signUp(world.baseUrl);
    const answers = await Promise.all(
      Array.from({ length: 55 }, (_, index) => make(client, { name: `k${index}`, scopes: ["exports"] })),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(50);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(5);
  });
});

describe("a key's scope", () => {
  const link = async () => {
    const { body } = await merchant.client.post("/v1/payment-links", { amount: 1, description: "Tea" });
    return `/v1/payment-links/${body.id}`;
  };
  const ask = async (scope: string, path: string) => {
    const { body } = await make(merchant.client, { name: scope, scopes: [scope] });
    return openClient(world.baseUrl).get(path, bearer(body.data.key));
  };

  test("wallet:read reads the balance, but not the owners", async () => {
    const { status, body } = await ask("wallet:read", "/v1/wallets/balance");
    expect(status).toBe(200);
    expect(body.wallet.address).toBe(merchant.walletAddress);
    for (const path of ["/v1/wallets/owners", "/v1/wallets/recovery", "/v1/wallets/sends"]) {
      const refused = await ask("wallet:read", path);
      expect([refused.status, refused.body.error.details.issue]).toEqual([403, "session_required"]);
    }
    const other = await ask("links:read", "/v1/wallets/balance");
    expect(other.status).toBe(403);
    expect(other.body.error.message).toContain("wallet:read");
  });

  test("payments:read reads a link's payments and receipts, but not the link itself", async () => {
    const path = await link();
    for (const scope of ["payments:read", "links:read"]) {
      expect((await ask(scope, `${path}/payments`)).status).toBe(200);
      // there is no receipt of an unpaid link
      expect((await ask(scope, `${path}/receipt`)).status).toBe(409);
    }
    expect((await ask("payments:read", path)).status).toBe(403);
    const other = await ask("exports", `${path}/payments`);
    expect(other.status).toBe(403);
    expect(other.body.error.message).toContain("links:read or payments:read");
  });
});

describe("a refused credential", () => {
  const refusal = async (headers: Record<string, string>, path = "/v1/payment-links") => {
    const { status, body } = await openClient(world.baseUrl).get(path, headers);
    expect([status, body.error.code]).toEqual([401, "UNAUTHORIZED"]);
    return body.error.message as string;
  };

  test("is named by the message: a revoked or unknown key, a header that holds none, a session that has ended", async () => {
    const { body } = await make(merchant.client, { name: "gone", scopes: ["links:read", "facilitator"] });
    await merchant.client.delete(`/v1/api-keys/${body.data.id}`);
    for (const key of [body.data.key, `sk_${"a".repeat(43)}`]) {
      expect(await refusal(bearer(key))).toBe("This API key is unknown or revoked");
      expect(await refusal(bearer(key), "/v1/api-keys")).toBe("This API key is unknown or revoked");
    }
    for (const authorization of [body.data.key, `Basic ${body.data.key}`, "Bearer sk_cut", "Bearer "])
      expect(await refusal({ authorization })).toStartWith("The Authorization header must be `Bearer` and");
    expect(await refusal({ cookie: "authToken=a.b.c" })).toStartWith("The session is unknown or has ended");
    expect(await refusal({})).toBe("Authentication is required");
    expect(await refusal({ authorization: "Basic eDp5" }, "/v1/api-keys")).toBe("Authentication is required");
  });
});

describe("DELETE /v1/api-keys/{id}", () => {
  test("revokes immediately, once, and only the owner's key", async () => {
    const { body } = await make(merchant.client, { name: "short-lived", scopes: ["links:read"] });
    expect((await other.client.delete(`/v1/api-keys/${body.data.id}`)).status).toBe(404);
    const revoked = await merchant.client.delete(`/v1/api-keys/${body.data.id}`);
    expect(revoked.status).toBe(200);
    expect(revoked.body.data.revokedAt).toBeString();
    expect((await merchant.client.delete(`/v1/api-keys/${body.data.id}`)).status).toBe(404);
    expect((await merchant.client.delete("/v1/api-keys/nonsense")).status).toBe(400);
  });
});

describe("GET /v1/security-events", () => {
  test("error: 403 until the user is ACTIVE", async () => {
    const { client } = await verifiedUser(world.baseUrl);
    const answer = await client.get("/v1/security-events");
    expect(answer.status).toBe(403);
    expect(answer.body.error.code).toBe("FORBIDDEN");
  });

  test("lists the user's own events, newest first, page by page", async () => {
    const user = await signUp(world.baseUrl);
    const client = await signIn(user);
    const { body: created } = await make(client, { name: "Told", scopes: ["exports"] });
    await client.delete(`/v1/api-keys/${created.data.id}`);
    const types: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const page = await client.get(`/v1/security-events?limit=3${cursor ? `&cursor=${cursor}` : ""}`);
      expect(page.status).toBe(200);
      expect(page.body.pagination.limit).toBe(3);
      types.push(...page.body.data.map(({ type }: { type: string }) => type));
      cursor = page.body.pagination.nextCursor;
      expect(page.body.pagination.hasNextPage).toBe(cursor !== null);
    }
    expect(types).toEqual([
      "api_key_revoked",
      "api_key_created",
      "sign_in",
      "sign_in",
      "passkey_added",
      "sign_in",
      "email_verified",
      "otp_sent",
    ]);
    const { body } = await client.get("/v1/security-events?limit=1");
    expect(body.data[0]).toMatchObject({
      clientAddress: expect.stringMatching(/^(127\.0\.0\.1|::1)$/),
      requestId: expect.stringMatching(/^req_/),
      details: { keyId: created.data.id, name: "Told" },
    });
    expect(JSON.stringify(body)).not.toContain(created.data.key);
  });

  test("error: 400 for limits and cursors out of bounds", async () => {
    for (const query of [
      "limit=0",
      "limit=101",
      "limit=x",
      "cursor=%00",
      "cursor=bm9wZQ",
      `cursor=${"A".repeat(65)}`,
    ])
      expect((await merchant.client.get(`/v1/security-events?${query}`)).status).toBe(400);
    expect((await merchant.client.get("/v1/security-events?limit=100")).status).toBe(200);
  });

  test("the database refuses to change or remove a row, except together with its user", async () => {
    const change = world.sql`update security_events set type = 'sign_in' where user_id = ${merchant.userId}`;
    await expect(change.execute()).rejects.toThrow("append-only");
    const removal = world.sql`delete from security_events where user_id = ${merchant.userId}`;
    await expect(removal.execute()).rejects.toThrow("append-only");
    const leaving = await verifiedUser(world.baseUrl);
    await world.sql`delete from users where id = ${leaving.userId}`;
    expect(await world.sql`select 1 from security_events where user_id = ${leaving.userId}`).toHaveLength(0);
  });
});
