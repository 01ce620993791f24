/** Sign-in with Google, against a local OpenID Connect server with configurable claims. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { OAuth2Server } from "oauth2-mock-server";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { newEmail, signUp } from "../support/sign-up.ts";
import { type Claims, testLinking } from "./google-link-cases.ts";

const idp = new OAuth2Server();
let world: ApiWorld;
let claims: Claims;
let tamper: ((token: { header: Claims; payload: Claims }) => void) | undefined;
let tokenRequests = 0;
let subjects = 0;

beforeAll(async () => {
  await idp.issuer.keys.generate("RS256");
  await idp.start(0, "127.0.0.1");
  const { port } = idp.address();
  idp.issuer.url = `http://127.0.0.1:${port}`;
  idp.service.on("beforeTokenSigning", (token: { header: Claims; payload: Claims }) => {
    if (token.payload.nonce === undefined && token.payload.aud !== "client-1") return;
    Object.assign(token.payload, claims);
    tamper?.(token);
  });
  idp.service.on("beforeResponse", () => {
    tokenRequests += 1;
  });
  world = await startApiWorld({
    env: {
      GOOGLE_CLIENT_ID: "client-1",
      GOOGLE_CLIENT_SECRET: "secret-1",
      GOOGLE_ISSUER: `http://127.0.0.1:${port}`,
    },
  });
}, 120_000);
afterAll(async () => {
  await world?.stop();
  await idp.stop();
});
beforeEach(() => {
  tamper = undefined;
});

/** Sets the provider's claims about the person who signs in. */
function person(email: string, more: Claims = {}): void {
  subjects += 1;
  claims = { sub: `sub-${subjects}`, email, email_verified: true, ...more };
}

const newGmail = () => newEmail().replace("@example.com", "@gmail.com");

/** Goes to the provider and returns the callback's address without calling it. */
async function visit(client: Client): Promise<string> {
  const begun = await client.get("/v1/auth/google/authorize");
  expect(begun.status).toBe(302);
  const back = await fetch(begun.headers.get("location") ?? "", { redirect: "manual" });
  const callback = new URL(back.headers.get("location") ?? "");
  expect(callback.origin + callback.pathname).toBe(`${world.baseUrl}/v1/auth/google/callback`);
  return callback.pathname + callback.search;
}

async function signInWithGoogle(): Promise<{ client: Client; answer: Answer }> {
  const client = openClient(world.baseUrl);
  return { client, answer: await client.get(await visit(client)) };
}

function expectSignedOut(answer: Answer, client: Client, location: string): void {
  expect(answer.status).toBe(302);
  expect(answer.headers.get("location")).toBe(`${world.baseUrl}${location}`);
  expect(client.cookies.has("authToken")).toBe(false);
}

describe("GET /v1/auth/google/authorize", () => {
  test("redirects to the provider with state, PKCE and nonce, the state in a Lax cookie for 10 minutes", async () => {
    const answer = await openClient(world.baseUrl).get("/v1/auth/google/authorize");
    expect(answer.status).toBe(302);
    const url = new URL(answer.headers.get("location") ?? "");
    expect(url.origin + url.pathname).toBe(`${idp.issuer.url}/authorize`);
    expect(Object.fromEntries(url.searchParams)).toMatchObject({
      response_type: "code",
      client_id: "client-1",
      redirect_uri: `${world.baseUrl}/v1/auth/google/callback`,
      code_challenge_method: "S256",
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
      prompt: "select_account",
    });
    expect(url.searchParams.get("scope")?.split(" ")).toContain("openid");
    const [cookie] = answer.headers.getSetCookie();
    expect(cookie).toMatch(
      /^googleState=[\w-]{43}; Max-Age=600; Path=\/v1\/auth\/google\/callback; HttpOnly; SameSite=Lax$/,
    );
    expect(url.href).not.toContain("secret-1");
  });
});

describe("GET /v1/auth/google/callback", () => {
  test("a new address becomes a WALLET_SETUP_PENDING user, signed in, sent to the dashboard", async () => {
    const email = newEmail();
    person(email.toUpperCase());
    const { client, answer } = await signInWithGoogle();
    expect(answer.status).toBe(302);
    expect(answer.headers.get("location")).toBe(`${world.baseUrl}/dashboard`);
    expect(answer.headers.getSetCookie().find((line) => line.startsWith("authToken="))).toContain(
      "SameSite=Strict",
    );
    expect(client.cookies.has("googleState")).toBe(false);
    const me = await client.get("/v1/auth/me");
    expect(me.body).toMatchObject({ email, status: "WALLET_SETUP_PENDING", permissions: [] });
    const again = await signInWithGoogle();
    expect((await again.client.get("/v1/auth/me")).body.id).toBe(me.body.id);
  });

  test("issuer and subject identify the account: a changed address opens it, another subject with that address does not", async () => {
    const email = newEmail();
    person(email);
    const first = await signInWithGoogle();
    const { id } = (await first.client.get("/v1/auth/me")).body;
    const named = async () => {
      const rows = await world.sql<{ email: string }[]>`select email from identities where user_id = ${id}`;
      return rows.map((row) => row.email);
    };
    expect(await named()).toEqual([email]);
    claims = { ...claims, email: newEmail() };
    const moved = await signInWithGoogle();
    expect((await moved.client.get("/v1/auth/me")).body).toMatchObject({ id, email });
    expect(await named()).toEqual([String(claims.email)]);
    person(email);
    const { client, answer } = await signInWithGoogle();
    expectSignedOut(answer, client, "/sign-in?error=link_required");
  });

  test.each([
    ["gmail.com", () => newGmail(), {}],
    ["a Workspace domain", () => newEmail(), { hd: "example.com" }],
  ])(
    "error: an account of %s that has a Google identity is not opened by another subject of its address",
    async (_name, address, more) => {
      const merchant = await signUp(world.baseUrl, address());
      person(merchant.email, more);
      const owner = await signInWithGoogle();
      expect((await owner.client.get("/v1/auth/me")).body.id).toBe(merchant.userId);
      const owners = claims;
      person(merchant.email, more);
      const successor = await signInWithGoogle();
      expectSignedOut(successor.answer, successor.client, "/sign-in?error=link_required");
      const identities = await world.sql`select subject from identities where user_id = ${merchant.userId}`;
      expect(identities.map(({ subject }) => subject)).toEqual([owners.sub]);
      claims = owners;
      const again = await signInWithGoogle();
      expect((await again.client.get("/v1/auth/me")).body.id).toBe(merchant.userId);
      const events = await world.sql<{ type: string }[]>`
      select type from security_events where user_id = ${merchant.userId} and type like 'identity%' order by id`;
      expect(events.map(({ type }) => type)).toEqual(["identity_linked", "identity_refused"]);
    },
  );

  test("an identity of another issuer does not prevent linking", async () => {
    const merchant = await signUp(world.baseUrl, newGmail());
    await world.sql`
      insert into identities (issuer, subject, user_id)
      values ('https://other.example', ${`other-${merchant.userId}`}, ${merchant.userId})`;
    person(merchant.email);
    const { client } = await signInWithGoogle();
    expect((await client.get("/v1/auth/me")).body.id).toBe(merchant.userId);
  });

  test("race: six concurrent first sign-ins of one person all succeed", async () => {
    const clients = Array.from({ length: 6 }, () => openClient(world.baseUrl));
    person(newGmail());
    const callbacks: string[] = [];
    for (const client of clients) callbacks.push(await visit(client));
    const answers = await Promise.all(clients.map((client, index) => client.get(callbacks[index] ?? "")));
    expect(answers.map(({ headers }) => headers.get("location"))).toEqual(
      answers.map(() => `${world.baseUrl}/dashboard`),
    );
  });

  test("links an ACTIVE gmail.com account, for which Google is authoritative", async () => {
    const merchant = await signUp(world.baseUrl, newGmail());
    person(merchant.email);
    const { client } = await signInWithGoogle();
    expect((await client.get("/v1/auth/me")).body).toMatchObject({ id: merchant.userId, status: "ACTIVE" });
  });

  test("links an account of the Workspace domain that Google names, and no other", async () => {
    const merchant = await signUp(world.baseUrl);
    person(merchant.email, { hd: "example.org" });
    const refused = await signInWithGoogle();
    expectSignedOut(refused.answer, refused.client, "/sign-in?error=link_requires_passkey");
    person(merchant.email, { hd: "example.com" });
    const { client } = await signInWithGoogle();
    expect((await client.get("/v1/auth/me")).body.id).toBe(merchant.userId);
    const events = await world.sql<{ type: string }[]>`
      select type from security_events where user_id = ${merchant.userId} and type like 'identity%' order by id`;
    expect(events.map(({ type }) => type)).toEqual(["identity_refused", "identity_linked"]);
  });

  test("verifies a REGISTERED gmail.com account and discards everything set up before", async () => {
    const email = newGmail();
    const { body } = await openClient(world.baseUrl).post("/v1/identity/register", { email });
    await world.sql`
      insert into sessions (id, user_id, method, expires_at, absolute_end_at)
      values (${`ses_${email}`}, ${body.userId}, 'test', now() + interval '1 hour', now() + interval '1 day')`;
    person(email);
    const { client } = await signInWithGoogle();
    expect((await client.get("/v1/auth/me")).body).toMatchObject({
      id: body.userId,
      status: "WALLET_SETUP_PENDING",
    });
    expect(await world.sql`select 1 from sessions where id = ${`ses_${email}`}`).toHaveLength(0);
  });

  test("error: a REGISTERED account of another domain is not linked", async () => {
    const email = newEmail();
    await openClient(world.baseUrl).post("/v1/identity/register", { email });
    person(email);
    const { client, answer } = await signInWithGoogle();
    expectSignedOut(answer, client, "/sign-in?error=link_requires_passkey");
  });

  test.each([
    ["unverified", { email_verified: false }],
    ["verified as text", { email_verified: "true" }],
    ["without a statement that it is verified", { email_verified: undefined }],
  ])("error: an address that is %s is refused", async (_name, more) => {
    person(newGmail(), more);
    const { client, answer } = await signInWithGoogle();
    expectSignedOut(answer, client, "/sign-in?error=email_not_verified");
  });

  test.each<[string, (token: { header: Claims; payload: Claims }) => void]>([
    ["another nonce", ({ payload }) => Object.assign(payload, { nonce: "other" })],
    ["no nonce", ({ payload }) => delete payload.nonce],
    ["another audience", ({ payload }) => Object.assign(payload, { aud: "client-2" })],
    ["another issuer", ({ payload }) => Object.assign(payload, { iss: "https://evil.example" })],
    ["an end in the past", ({ payload }) => Object.assign(payload, { exp: 1 })],
    ["no subject", ({ payload }) => delete payload.sub],
  ])("error: an ID token with %s is refused", async (_name, change) => {
    person(newGmail());
    tamper = change;
    const { client, answer } = await signInWithGoogle();
    expectSignedOut(answer, client, "/sign-in?error=provider_error");
  });

  test("error: 400 for a state that is missing, another browser's, used or expired; the provider is not called", async () => {
    person(newGmail());
    const client = openClient(world.baseUrl);
    const callback = await visit(client);
    const state = client.cookies.get("googleState") ?? "";
    const asked = tokenRequests;
    expect((await openClient(world.baseUrl).get(callback)).status).toBe(400);
    const stranger = openClient(world.baseUrl);
    await visit(stranger);
    expect((await stranger.get(callback)).status).toBe(400);
    expect((await client.get("/v1/auth/google/callback?code=x")).status).toBe(400);
    client.cookies.set("googleState", state);
    expect((await client.get(callback)).status).toBe(302);
    client.cookies.set("googleState", state);
    expect((await client.get(callback)).status).toBe(400);
    const late = openClient(world.baseUrl);
    const lateCallback = await visit(late);
    await world.sql`update oauth_flows set expires_at = now()`;
    const answer = await late.get(lateCallback);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code: "VALIDATION_ERROR", details: { field: "state" } });
    expect(late.cookies.has("authToken")).toBe(false);
    expect(tokenRequests - asked).toBe(1);
  });

  test("race: one callback called 20 times concurrently signs in once", async () => {
    person(newGmail());
    const client = openClient(world.baseUrl);
    const callback = await visit(client);
    const cookie = `googleState=${client.cookies.get("googleState")}`;
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => openClient(world.baseUrl).get(callback, { cookie })),
    );
    expect(answers.filter(({ status }) => status === 302)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(19);
  });

  test.each([
    ["access_denied", "access_denied"],
    ["server_error", "provider_error"],
    ["<script>", "provider_error"],
  ])("the provider's error %s redirects to the sign-in page", async (error, shown) => {
    const client = openClient(world.baseUrl);
    const callback = new URL(await visit(client), world.baseUrl);
    const { searchParams } = callback;
    searchParams.delete("code");
    searchParams.set("error", error);
    const answer = await client.get(callback.pathname + callback.search);
    expectSignedOut(answer, client, `/sign-in?error=${shown}`);
  });

  test("parameters cannot change the redirect target", async () => {
    person(newGmail());
    const client = openClient(world.baseUrl);
    const callback = await visit(client);
    const answer = await client.get(
      `${callback}&redirect=https://evil.example&redirect_uri=https://evil.example`,
    );
    expect(answer.headers.get("location")).toBe(`${world.baseUrl}/dashboard`);
  });
});

describe("linking", () =>
  testLinking({
    world: () => world,
    person,
    claims: () => claims,
    tamper: (change) => {
      tamper = change;
    },
    signInWithGoogle,
  }));

test("unconfigured: 404 on the routes to the provider, and no linked accounts", async () => {
  const plain = await startApiWorld();
  const client = openClient(plain.baseUrl);
  for (const path of [
    "/v1/auth/google/authorize",
    "/v1/auth/google/callback?state=x&code=y",
    "/v1/auth/google/callback",
  ]) {
    const answer = await client.get(path);
    expect(answer.status).toBe(404);
    expect(answer.body.error.code).toBe("NOT_FOUND");
  }
  const owner = await signUp(plain.baseUrl);
  expect((await owner.client.post("/v1/auth/google/link")).status).toBe(404);
  expect((await owner.client.get("/v1/auth/google/accounts")).body.data).toEqual([]);
  await plain.stop();
}, 120_000);
