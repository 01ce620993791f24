/** Sessions: cookie, token, row, expiry, and forged requests. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import { type ApiWorld, JWT_SECRET, startApiWorld } from "../support/api-world.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { type Merchant, signIn, signUp, verifiedUser } from "../support/sign-up.ts";

let world: ApiWorld;
let merchant: Merchant;

beforeAll(async () => {
  world = await startApiWorld({ processes: 2 });
  merchant = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
const decode = (part: string | undefined) => JSON.parse(Buffer.from(part ?? "", "base64url").toString());

function withToken(token: string, baseUrl = world.baseUrl): Client {
  const client = openClient(baseUrl);
  client.cookies.set("authToken", token);
  return client;
}

const tokenOf = (client: Client) => client.cookies.get("authToken") ?? "";
const sidOf = (client: Client): string => decode(tokenOf(client).split(".")[1]).sid;

/** Shifts a session's times as if it had started `seconds` earlier. */
async function age(client: Client, seconds: number): Promise<void> {
  await world.sql`
    update sessions
    set expires_at = expires_at - make_interval(secs => ${seconds}),
      absolute_end_at = absolute_end_at - make_interval(secs => ${seconds})
    where id = ${sidOf(client)}`;
}

describe("the token", () => {
  test("contains user, session, issuer, audience and one hour of validity", async () => {
    const client = await signIn(merchant);
    const [header, payload] = tokenOf(client)
      .split(".")
      .map((part, index) => (index < 2 ? decode(part) : part));
    expect(header).toEqual({ alg: "HS256", typ: "session+jwt" });
    expect(payload).toEqual({
      iss: world.baseUrl,
      aud: world.baseUrl,
      sub: merchant.userId,
      sid: expect.stringMatching(/^ses_[\w-]{22}$/),
      iat: expect.any(Number),
      exp: expect.any(Number),
    });
    expect(payload.exp - payload.iat).toBeWithin(3_598, 3_601);
  });

  test("error: every forged token is 401", async () => {
    const client = await signIn(merchant);
    const good = tokenOf(client);
    const [header = "", payload = "", signature = ""] = good.split(".");
    const claims = decode(payload);
    const hmac = (text: string, secret = JWT_SECRET, algorithm = "sha256") =>
      `${text}.${createHmac(algorithm, secret).update(text).digest("base64url")}`;
    const forge = (head: object, body: object, secret?: string, algorithm?: string) =>
      hmac(`${encode(head)}.${encode(body)}`, secret, algorithm);
    const ours = { alg: "HS256", typ: "session+jwt" };
    const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const rsaText = `${encode({ alg: "RS256", typ: "session+jwt" })}.${payload}`;
    const forged: Record<string, string> = {
      "alg none": `${encode({ alg: "none", typ: "session+jwt" })}.${payload}.`,
      "alg none, kept signature": `${encode({ alg: "none" })}.${payload}.${signature}`,
      "alg HS512": forge({ ...ours, alg: "HS512" }, claims, JWT_SECRET, "sha512"),
      "alg RS256 by a stranger": `${rsaText}.${sign("sha256", Buffer.from(rsaText), privateKey).toString("base64url")}`,
      "HS256 with a public key": forge(
        ours,
        claims,
        publicKey.export({ type: "spki", format: "pem" }).toString(),
      ),
      "another secret": forge(ours, claims, `${JWT_SECRET}0`),
      "an empty secret": forge(ours, claims, ""),
      "another typ": forge({ alg: "HS256", typ: "JWT" }, claims),
      "a key in the header": forge(
        { ...ours, jwk: { kty: "oct", k: Buffer.from("f".repeat(32)).toString("base64url") } },
        claims,
        "f".repeat(32),
      ),
      "alg HS384": forge({ ...ours, alg: "HS384" }, claims, JWT_SECRET, "sha384"),
      "no typ": forge({ alg: "HS256" }, claims),
      "a critical extension": forge({ ...ours, crit: ["b64"], b64: false }, claims),
      "a kid that is a path": forge({ ...ours, kid: "../../dev/null" }, claims, ""),
      "another issuer": forge(ours, { ...claims, iss: "https://evil.example" }),
      "another audience": forge(ours, { ...claims, aud: "https://evil.example" }),
      "no exp": forge(ours, { ...claims, exp: undefined }),
      "exp as text": forge(ours, { ...claims, exp: String(claims.exp) }),
      "an expired exp": forge(ours, { ...claims, exp: Math.floor(Date.now() / 1_000) - 1 }),
      "an iat of tomorrow": forge(ours, { ...claims, iat: claims.iat + 86_400 }),
      "no sid": forge(ours, { ...claims, sid: undefined }),
      "an unknown sid": forge(ours, { ...claims, sid: "ses_AAAAAAAAAAAAAAAAAAAAAA" }),
      "another user's sub": forge(ours, { ...claims, sub: `user_${crypto.randomUUID()}` }),
      "further claims": forge(ours, { ...claims, admin: true }),
      "a changed payload": `${header}.${encode({ ...claims, exp: claims.exp + 1 })}.${signature}`,
      "a cut signature": good.slice(0, -4),
      "a signature with padding": `${good}=`,
      "the last character's spare bits": withSpareBits(good),
      "no signature": `${header}.${payload}.`,
      "four parts": `${good}.AAAA`,
      "not a token": "undefined",
      "a very long one": `${header}.${"A".repeat(9_000)}.${signature}`,
    };
    for (const [name, token] of Object.entries(forged)) {
      const answer = await withToken(token).get("/v1/auth/me");
      expect(`${name}: ${answer.status}`).toBe(`${name}: 401`);
      expect(answer.body.error.code).toBe("UNAUTHORIZED");
    }
    expect((await withToken(forge(ours, claims)).get("/v1/auth/me")).status).toBe(200);
  });

  test("error: two different session cookies are treated as none", async () => {
    const token = tokenOf(await signIn(merchant));
    const headers = { cookie: `authToken=${token}; authToken=${token}x` };
    expect((await openClient(world.baseUrl).get("/v1/auth/me", headers)).status).toBe(401);
  });
});

describe("the lifetime of a session", () => {
  test("error: 401 without a cookie on every cookie route", async () => {
    const client = openClient(world.baseUrl);
    for (const path of [
      "/v1/auth/me",
      "/v1/auth/status",
      "/v1/wallets/balance",
      "/v1/api-keys",
      "/v1/security-events",
    ])
      expect((await client.get(path)).status).toBe(401);
    for (const path of [
      "/v1/auth/logout",
      "/v1/wallets/setup/start",
      "/v1/wallets/setup/complete",
      "/v1/api-keys",
    ])
      expect((await client.post(path, {})).status).toBe(401);
  });

  test("an unauthenticated caller gets 401 before validation errors", async () => {
    const answer = await openClient(world.baseUrl).post("/v1/wallets/setup/complete", { nonsense: true });
    expect(answer.status).toBe(401);
  });

  test("logout ends it immediately on every process and clears the cookie", async () => {
    const client = await signIn(merchant);
    const token = tokenOf(client);
    for (const url of world.urls) expect((await withToken(token, url).get("/v1/auth/me")).status).toBe(200);
    const answer = await client.post("/v1/auth/logout");
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({ success: true, message: "Signed out" });
    expect(answer.headers.getSetCookie()).toEqual([
      "authToken=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict",
    ]);
    for (const url of world.urls) expect((await withToken(token, url).get("/v1/auth/me")).status).toBe(401);
    expect((await withToken(token).post("/v1/auth/logout")).status).toBe(401);
  });

  test("a new sign-in creates a new session id and ends the browser's old session", async () => {
    const client = await signIn(merchant);
    const old = tokenOf(client);
    const options = await client.post("/v1/auth/options", { email: merchant.email });
    await client.post("/v1/auth/verify", {
      challengeId: options.body.challengeId,
      email: merchant.email,
      authenticationResponse: await merchant.passkey.authenticate(options.body),
    });
    expect(tokenOf(client)).not.toBe(old);
    expect((await withToken(old).get("/v1/auth/me")).status).toBe(401);
    expect((await client.get("/v1/auth/me")).status).toBe(200);
  });

  test("two browsers have two sessions; ending one keeps the other", async () => {
    const [one, two] = [await signIn(merchant), await signIn(merchant)];
    await one.post("/v1/auth/logout");
    expect((await two.get("/v1/auth/me")).status).toBe(200);
  });

  test("is renewed with 30 minutes left or less, and not before", async () => {
    const client = await signIn(merchant);
    await age(client, 1_790);
    expect((await client.get("/v1/auth/me")).headers.getSetCookie()).toEqual([]);
    await age(client, 20);
    const old = tokenOf(client);
    const renewed = await client.get("/v1/auth/status");
    expect(renewed.headers.getSetCookie()[0]).toMatch(/^authToken=.*Max-Age=3(599|600);/);
    expect(sidOf(client)).toBe(sidOf(withToken(old)));
    const [row] = await world.sql<{ leftS: number }[]>`
      select extract(epoch from expires_at - now())::int as left_s from sessions where id = ${sidOf(client)}`;
    expect(row?.leftS).toBeWithin(3_590, 3_601);
    expect((await client.get("/v1/auth/me")).status).toBe(200);
  });

  test("ends after an hour without activity", async () => {
    const client = await signIn(merchant);
    await age(client, 3_601);
    expect((await client.get("/v1/auth/me")).status).toBe(401);
  });

  test("ends 24 hours after sign-in whatever its activity", async () => {
    const client = await signIn(merchant);
    await age(client, 3_000);
    await world.sql`
      update sessions set absolute_end_at = now() + interval '12 minutes' where id = ${sidOf(client)}`;
    const renewed = await client.get("/v1/auth/me");
    expect(renewed.headers.getSetCookie()[0]).toMatch(/Max-Age=7(19|20);/);
    expect((await client.get("/v1/auth/me")).headers.getSetCookie()).toEqual([]);
    await age(client, 721);
    expect((await client.get("/v1/auth/me")).status).toBe(401);
  });

  test("every route renews, also with 20 concurrent requests", async () => {
    const client = await signIn(merchant);
    await age(client, 2_000);
    const answers = await Promise.all(Array.from({ length: 20 }, () => client.get("/v1/auth/me")));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
  });
});

describe("requests from other sites", () => {
  const post = async (headers: Record<string, string>, body = "{}") =>
    (await signIn(merchant)).post("/v1/wallets/setup/start", body, headers);

  test.each([
    [{ origin: "https://evil.example" }],
    [{ origin: "null" }],
    [{ "sec-fetch-site": "cross-site" }],
    [{ "sec-fetch-site": "same-site" }],
    [{ origin: "https://evil.example", "sec-fetch-site": "none" }],
    [{ origin: "https://evil.example", "sec-fetch-site": "same-origin" }],
  ])("error: 403 for %j", async (headers) => {
    const answer = await post(headers);
    expect(answer.status).toBe(403);
    expect(answer.body.error).toMatchObject({ code: "FORBIDDEN", details: { field: "origin" } });
  });

  test.each([
    [{ "content-type": "application/x-www-form-urlencoded" }, "network=base"],
    [{ "content-type": "text/plain" }, "{}"],
    [{ "content-type": "multipart/form-data; boundary=x" }, "--x--"],
    [{ "content-type": "application/jsonp" }, "{}"],
    [{ "content-type": "" }, "{}"],
  ])("error: 400 for %j", async (headers, body) => {
    const answer = await post(headers, body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code: "VALIDATION_ERROR", details: { field: "content-type" } });
  });

  test("our own pages and non-browser clients are accepted", async () => {
    // the wallet exists: 409 comes after the check
    for (const headers of [
      { origin: world.baseUrl, "sec-fetch-site": "same-origin" },
      { origin: world.baseUrl },
      { "sec-fetch-site": "same-origin" },
      { "sec-fetch-site": "none" },
      { "content-type": "application/json; charset=utf-8" },
    ])
      expect((await post(headers)).status).toBe(409);
  });

  test("a refused request has no effect: the session stays live after a forged logout", async () => {
    const client = await signIn(merchant);
    expect((await client.post("/v1/auth/logout", undefined, { origin: "https://evil.example" })).status).toBe(
      403,
    );
    expect((await client.get("/v1/auth/me")).status).toBe(200);
  });
});

describe("test mode", () => {
  const headersOf = (token: string) => ({ "x-test-mode": "true", authorization: `Bearer ${token}` });

  test("a token from /v1/test/token is a session in a header", async () => {
    const client = openClient(world.baseUrl);
    const { status, body } = await client.post("/v1/test/token", { email: merchant.email });
    expect(status).toBe(200);
    expect(body).toMatchObject({ success: true, tokenType: "Bearer", userId: merchant.userId });
    expect((await client.get("/v1/auth/me", headersOf(body.token))).body.id).toBe(merchant.userId);
    const unmarked = await client.get("/v1/auth/me", { authorization: `Bearer ${body.token}` });
    expect([unmarked.status, unmarked.body.error.message]).toEqual([
      401,
      expect.stringContaining("X-Test-Mode: true"),
    ]);
    expect(
      (await client.get("/v1/auth/me", { ...headersOf(body.token), "x-test-mode": "false" })).status,
    ).toBe(401);
    expect((await client.get("/v1/auth/me", headersOf(`${body.token}x`))).status).toBe(401);
    expect((await client.post("/v1/auth/logout", {}, headersOf(body.token))).status).toBe(200);
    expect((await client.get("/v1/auth/me", headersOf(body.token))).status).toBe(401);
  });

  test("error: 404 for an unknown address", async () => {
    const client = openClient(world.baseUrl);
    expect((await client.post("/v1/test/token", { email: "nobody@example.com" })).status).toBe(404);
    expect((await client.post("/v1/test/outbox", { email: "nobody@example.com" })).status).toBe(404);
  });

  test("the outbox shows whether the mail was sent", async () => {
    const { email } = await verifiedUser(world.baseUrl);
    const client = openClient(world.baseUrl);
    expect((await client.post("/v1/test/outbox", { email })).status).toBe(404);
  });
});

test("PATCH /v1/auth/me changes the name that payers see, within its bounds", async () => {
  const client = await signIn(merchant);
  const rename = async (displayName: unknown) => client.patch("/v1/auth/me", { displayName });
  expect((await rename("  Ada's Café ☕ ")).body.displayName).toBe("Ada's Café ☕");
  expect((await rename("x".repeat(100))).status).toBe(200);
  for (const bad of ["", "   ", "x".repeat(101), "a\u0000b", "a\u202eb", "a\nb", 7, undefined, {}]) {
    const answer = await rename(bad);
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.field).toBe("displayName");
  }
  expect((await rename(null)).body.displayName).toBeNull();
});

const BASE64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** Another text of the same bytes: 32 of them leave two bits of the last character unused. */
function withSpareBits(token: string): string {
  return token.slice(0, -1) + BASE64URL[BASE64URL.indexOf(token.slice(-1)) + 1];
}
