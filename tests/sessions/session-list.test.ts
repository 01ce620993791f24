/** Sessions as their user lists and ends them, and passkey names. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describeUserAgent } from "../../api/http/user-agent.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { type Merchant, signIn, signUp, verifiedUser } from "../support/sign-up.ts";

let world: ApiWorld;

beforeAll(async () => {
  world = await startApiWorld({ processes: 2, env: { TRUSTED_PROXIES: "127.0.0.0/8,::1" } });
}, 120_000);
afterAll(() => world?.stop());

const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0";

type Listed = { id: string; current: boolean; userAgent: string | null; ip: string | null } & Record<
  "createdAt" | "lastSeenAt" | "expiresAt" | "method",
  string
>;

const sidOf = (client: Client): string =>
  JSON.parse(Buffer.from(client.cookies.get("authToken")?.split(".")[1] ?? "", "base64url").toString()).sid;

const list = async (client: Client): Promise<Listed[]> => {
  const answer = await client.get("/v1/auth/sessions");
  expect(answer.status).toBe(200);
  return answer.body.data;
};

/** Each process's response to this client's cookie. */
async function statusesOf(client: Client): Promise<number[]> {
  const cookie = `authToken=${client.cookies.get("authToken")}`;
  return Promise.all(
    world.urls.map(async (url) => (await openClient(url).get("/v1/auth/me", { cookie })).status),
  );
}

async function twoBrowsers(): Promise<{ merchant: Merchant; one: Client; two: Client }> {
  const merchant = await signUp(world.baseUrl);
  return { merchant, one: merchant.client, two: await signIn(merchant) };
}

describe("GET /v1/auth/sessions", () => {
  test("lists the user's live sessions, the current one first, and no other user's", async () => {
    const { merchant, one, two } = await twoBrowsers();
    await signUp(world.baseUrl);
    const sessions = await list(one);
    expect(sessions.map(({ id, current, method }) => ({ id, current, method }))).toEqual([
      { id: sidOf(one), current: true, method: "wallet_setup" },
      { id: sidOf(two), current: false, method: "passkey" },
    ]);
    expect((await list(two)).map(({ id }) => id)).toEqual([sidOf(two), sidOf(one)]);
    const [row] = await world.sql<{ createdAt: Date; expiresAt: Date }[]>`
      select created_at, expires_at from sessions where id = ${sidOf(two)} and user_id = ${merchant.userId}`;
    expect(sessions[1]).toMatchObject({
      createdAt: row?.createdAt.toISOString(),
      lastSeenAt: row?.createdAt.toISOString(),
      expiresAt: row?.expiresAt.toISOString(),
      ip: expect.stringMatching(/^(127\.0\.0\.1|::1)$/),
    });
  });

  test.each(["expires_at", "absolute_end_at"])("omits one whose %s has passed", async (column) => {
    const { one, two } = await twoBrowsers();
    await world.sql`
      update sessions
      set ${world.sql(column)} = now() + interval '30 seconds'
      where id = ${sidOf(two)}`;
    expect(await list(one)).toHaveLength(2);
    await world.sql`update sessions set ${world.sql(column)} = now() where id = ${sidOf(two)}`;
    expect(await list(one)).toHaveLength(1);
  });

  test("shows where it was last used from, updated at most once a minute", async () => {
    const { one, two } = await twoBrowsers();
    const seen = async () => (await list(one)).find(({ id }) => id === sidOf(two));
    const use = (address: string) =>
      two.get("/v1/auth/me", { "user-agent": FIREFOX, "x-forwarded-for": address });
    const age = (seconds: number) => world.sql`
      update sessions set last_seen_at = now() - make_interval(secs => ${seconds}) where id = ${sidOf(two)}`;
    await age(40);
    await use("203.0.113.7");
    expect((await seen())?.ip).not.toBe("203.0.113.7");
    await age(61);
    const before = Date.now();
    await use("203.0.113.7");
    const noted = await seen();
    expect(noted).toMatchObject({ ip: "203.0.113.7", userAgent: "Firefox on Linux" });
    expect(new Date(noted?.lastSeenAt ?? 0).getTime()).toBeGreaterThan(before - 2_000);
  });

  test("error: 403 before the wallet exists and for an API key", async () => {
    const pending = await verifiedUser(world.baseUrl);
    expect((await pending.client.get("/v1/auth/sessions")).status).toBe(403);
    const { client } = await signUp(world.baseUrl);
    const { body } = await client.post("/v1/api-keys", { name: "k", scopes: ["links:read"] });
    const headers = { authorization: `Bearer ${body.data.key}` };
    expect((await openClient(world.baseUrl).get("/v1/auth/sessions", headers)).status).toBe(403);
  });
});

describe("DELETE /v1/auth/sessions/{id}", () => {
  test("ends it immediately on every process, keeps the others, and records it", async () => {
    const { one, two } = await twoBrowsers();
    expect(await statusesOf(two)).toEqual([200, 200]);
    const answer = await one.delete(`/v1/auth/sessions/${sidOf(two)}`);
    expect(answer.status).toBe(200);
    expect(answer.body.data).toEqual({ id: sidOf(two), ended: true });
    expect(answer.headers.getSetCookie()).toEqual([]);
    expect(await statusesOf(two)).toEqual([401, 401]);
    expect(await statusesOf(one)).toEqual([200, 200]);
    const { body } = await one.get("/v1/security-events?limit=1");
    expect(body.data[0].type).toBe("session_ended");
    expect((await one.delete(`/v1/auth/sessions/${sidOf(two)}`)).status).toBe(404);
  });

  test("error: 404 for another user's session, which stays live", async () => {
    const { one } = await twoBrowsers();
    const stranger = await signUp(world.baseUrl);
    expect((await one.delete(`/v1/auth/sessions/${sidOf(stranger.client)}`)).status).toBe(404);
    expect((await one.delete("/v1/auth/sessions/ses_AAAAAAAAAAAAAAAAAAAAAA")).status).toBe(404);
    expect(await statusesOf(stranger.client)).toEqual([200, 200]);
  });

  test("ending the current session is a sign-out and clears the cookie", async () => {
    const { one, two } = await twoBrowsers();
    const cookie = two.cookies.get("authToken") ?? "";
    const answer = await two.delete(`/v1/auth/sessions/${sidOf(two)}`);
    expect(answer.status).toBe(200);
    expect(answer.headers.getSetCookie()[0]).toStartWith("authToken=; Max-Age=0;");
    two.cookies.set("authToken", cookie);
    expect(await statusesOf(two)).toEqual([401, 401]);
    expect(await statusesOf(one)).toEqual([200, 200]);
  });
});

describe("POST /v1/auth/sessions/revoke-others", () => {
  test("immediately ends all of the user's sessions except the current one on every process", async () => {
    const { merchant, one, two } = await twoBrowsers();
    const three = await signIn(merchant);
    const stranger = await signUp(world.baseUrl);
    const answer = await one.post("/v1/auth/sessions/revoke-others");
    expect(answer.status).toBe(200);
    expect(answer.body.data).toEqual({ ended: 2 });
    for (const ended of [two, three]) expect(await statusesOf(ended)).toEqual([401, 401]);
    for (const kept of [one, stranger.client]) expect(await statusesOf(kept)).toEqual([200, 200]);
    expect((await one.post("/v1/auth/sessions/revoke-others")).body.data).toEqual({ ended: 0 });
    const { body } = await one.get("/v1/security-events?limit=2");
    expect(body.data.map(({ type, details }: Record<string, unknown>) => ({ type, details }))).toEqual([
      { type: "other_sessions_ended", details: { count: 0 } },
      { type: "other_sessions_ended", details: { count: 2 } },
    ]);
  });
});

test("the SQL statement in docs/OPERATIONS.md ends all sessions of a user, on every process", async () => {
  const { merchant, one, two } = await twoBrowsers();
  const stranger = await signUp(world.baseUrl);
  const papers = readFileSync(join(import.meta.dir, "../../docs/OPERATIONS.md"), "utf8");
  const statement = /delete from sessions where[^;]*;/.exec(papers)?.[0] ?? "";
  expect(statement).toContain("'merchant@example.com'");
  await world.sql.unsafe(statement.replace("merchant@example.com", merchant.email));
  for (const ended of [one, two]) expect(await statusesOf(ended)).toEqual([401, 401]);
  expect(await statusesOf(stranger.client)).toEqual([200, 200]);
});

describe("/v1/auth/passkeys", () => {
  test("are listed and named only by their owner", async () => {
    const merchant = await signUp(world.baseUrl);
    const stranger = await signUp(world.baseUrl);
    const read = async () => (await merchant.client.get("/v1/auth/passkeys")).body.data;
    expect(await read()).toEqual([
      {
        id: merchant.passkey.credentialId,
        name: null,
        synced: expect.any(Boolean),
        backedUp: expect.any(Boolean),
        createdAt: expect.any(String),
        lastUsedAt: null,
        signsIn: true,
      },
    ]);
    const path = `/v1/auth/passkeys/${merchant.passkey.credentialId}`;
    expect((await stranger.client.patch(path, { name: "mine now" })).status).toBe(404);
    expect((await merchant.client.patch(path, { name: "  Laptop " })).body.data.name).toBe("Laptop");
    expect((await merchant.client.patch(path, { name: "x".repeat(100) })).status).toBe(200);
    for (const name of ["", " ", "x".repeat(101), "a\u202eb", 7, undefined])
      expect((await merchant.client.patch(path, { name })).status).toBe(400);
    expect((await read())[0].name).toBe("x".repeat(100));
    expect((await merchant.client.patch(path, { name: null })).body.data.name).toBeNull();
  });
});

test.each<[string, string | null]>([
  [FIREFOX, "Firefox on Linux"],
  [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/129.0.0.0 Safari/537.36",
    "Chrome on Windows",
  ],
  [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/129.0.0.0 Safari/537.36 Edg/129.0.0.0",
    "Edge on Windows",
  ],
  [
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15",
    "Safari on macOS",
  ],
  [
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/129.0 Mobile/15E148 Safari/604.1",
    "Chrome on iOS",
  ],
  [
    "Mozilla/5.0 (Linux; Android 14; SM-S921B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/26.0 Chrome/122.0.0.0 Mobile Safari/537.36",
    "Samsung Internet on Android",
  ],
  ["curl/8.9.1", "curl/8.9.1"],
  ["x".repeat(300), "x".repeat(60)],
])("%s is %s", (userAgent, described) => {
  expect(describeUserAgent(userAgent)).toBe(described);
});
