/** Request limits: every class, counted once for all processes, by user or by address. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newLinkId, newPaymentId } from "../../core/domain/ids.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { type Merchant, newEmail, signIn, signUp } from "../support/sign-up.ts";

let world: ApiWorld;
let merchant: Merchant;

beforeAll(async () => {
  world = await startApiWorld({
    processes: 2,
    env: { RATE_LIMITS: "1", TRUSTED_PROXIES: "127.0.0.1,::1,10.0.0.0/8" },
  });
  merchant = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

let lastAddress = 0;
/** An address nobody used before. */
const newAddress = () => {
  lastAddress += 1;
  return `203.0.${Math.floor(lastAddress / 250)}.${(lastAddress % 250) + 1}`;
};
const from = (address: string) => ({ "x-forwarded-for": address });
const remaining = (answer: Answer) => Number(answer.headers.get("x-ratelimit-remaining"));

function expectLimited(answer: Answer, limit: number): void {
  expect(answer.status).toBe(429);
  expect(answer.body.error.code).toBe("RATE_LIMITED");
  expect(answer.headers.get("x-ratelimit-limit")).toBe(String(limit));
  expect(answer.headers.get("x-ratelimit-remaining")).toBe("0");
  expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
}

/** Sends `count` requests over both processes in turn. */
async function send(count: number, one: (client: Client) => Promise<Answer>): Promise<Answer[]> {
  const clients = world.urls.map((url) => openClient(url));
  const answers: Answer[] = [];
  for (let index = 0; index < count; index++) {
    const client = clients[index % clients.length];
    if (client) answers.push(await one(client));
  }
  return answers;
}

function answerOf(answers: readonly Answer[], index: number): Answer {
  const answer = answers[index];
  if (!answer) throw new Error(`there are ${answers.length} answers`);
  return answer;
}

describe("authentication endpoints: 10 a minute", () => {
  test.each([
    ["/v1/identity/register", () => ({ email: newEmail() })],
    ["/v1/email-verification/verify", () => ({ email: newEmail(), otp: "123456" })],
    ["/v1/email-verification/resend", () => ({ email: newEmail() })],
    ["/v1/auth/options", () => ({ email: newEmail() })],
    ["/v1/auth/verify", () => ({})],
  ])("%s, counted over both processes, bad requests too", async (path, body) => {
    const address = newAddress();
    const beganS = Date.now() / 1_000;
    let countedS = Number.POSITIVE_INFINITY;
    const answers = await send(11, async (client) => {
      const answer = await client.post(path, body(), from(address));
      countedS = Math.min(countedS, Date.now() / 1_000);
      return answer;
    });
    for (const [index, answer] of answers.slice(0, 10).entries()) {
      expect(answer.status).not.toBe(429);
      expect(answer.headers.get("x-ratelimit-limit")).toBe("10");
      expect(remaining(answer)).toBe(9 - index);
    }
    const eleventh = answerOf(answers, 10);
    expectLimited(eleventh, 10);
    // a minute after the first one, however long the others took
    expect(Number(eleventh.headers.get("x-ratelimit-reset"))).toBeWithin(beganS + 59, countedS + 61);
    expect(Number(eleventh.headers.get("retry-after"))).toBeWithin(1, 61);
    const elsewhere = await openClient(world.baseUrl).post(path, body(), from(newAddress()));
    expect(elsewhere.status).not.toBe(429);
  });

  test("Google's authorize: 10 in 60 seconds", async () => {
    const address = newAddress();
    const answers = await send(11, (client) => client.get("/v1/auth/google/authorize", from(address)));
    expect(answers.slice(0, 10).every(({ status }) => status === 404)).toBe(true);
    const eleventh = answerOf(answers, 10);
    expectLimited(eleventh, 10);
  });
});

describe("a signed-in user's limits", () => {
  test("wallet setup: 10 an hour, whatever the address", async () => {
    const client = await signIn(merchant);
    const answers: Answer[] = [];
    for (let index = 0; index < 10; index++)
      answers.push(await client.post("/v1/wallets/setup/start", {}, from(newAddress())));
    // one of the ten went to the setup itself
    expect(answers.slice(0, 9).every(({ status }) => status === 409)).toBe(true);
    const last = answerOf(answers, 9);
    expectLimited(last, 10);
    expect(Number(last.headers.get("retry-after"))).toBeWithin(3_500, 3_601);
  });

  test("balance: 100 an hour", async () => {
    const client = await signIn(merchant);
    const answers = await Promise.all(Array.from({ length: 110 }, () => client.get("/v1/wallets/balance")));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(100);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(10);
  });

  test("invitations: 20 an hour", async () => {
    const client = await signIn(merchant);
    const invite = () => client.post("/v1/members/invitations", { email: newEmail(), role: "viewer" });
    for (let index = 0; index < 20; index++) expect((await invite()).status).toBe(201);
    expectLimited(await invite(), 20);
  });

  test("general: 1000 an hour, shared by routes and processes, headers on every answer", async () => {
    const client = await signIn(merchant);
    const first = await client.get("/v1/auth/me");
    expect(first.headers.get("x-ratelimit-limit")).toBe("1000");
    const second = await client.get("/v1/auth/status");
    expect(remaining(second)).toBe(remaining(first) - 1);
    await world.sql`
      update rate_counters set count = 1000 where key = ${`general:${merchant.userId}`}`;
    expectLimited(await client.get("/v1/auth/me"), 1_000);
    await world.sql`
      update rate_counters set ends_at = now() where key = ${`general:${merchant.userId}`}`;
    const deadline = Date.now() + 45_000;
    // a refusal is remembered for a second
    while ((await client.get("/v1/auth/me")).status === 429 && Date.now() < deadline) await Bun.sleep(20);
    expect(remaining(await client.get("/v1/auth/me"))).toBeGreaterThan(990);
  });

  test("strangers on cookie routes are counted by address", async () => {
    const address = newAddress();
    await world.sql`
      insert into rate_counters (key, count, ends_at) values (${`general:ip:${address}`}, 999, now() + interval '1 hour')`;
    const client = openClient(world.baseUrl);
    expect((await client.get("/v1/auth/me", from(address))).status).toBe(401);
    expectLimited(await client.get("/v1/auth/me", from(address)), 1_000);
  });
});

test("a body that cannot be read is counted like any other, and refused after the caller", async () => {
  const address = newAddress();
  const client = openClient(world.baseUrl);
  for (const [index, body] of ["{", '{"email":"\\ud800"}', "[".repeat(40)].entries()) {
    const answer = await client.post("/v1/identity/register", body, from(address));
    expect(answer.status).toBe(400);
    expect(remaining(answer)).toBe(9 - index);
  }
  const stranger = await client.post("/v1/payment-links", "{", from(address));
  expect(stranger.status).toBe(401);
  expect(remaining(stranger)).toBe(999);
  const own = { ...from(address), "idempotency-key": "unread" };
  const refused = await merchant.client.post("/v1/payment-links", "{", own);
  expect(refused.status).toBe(400);
  expect(refused.body.error.details).toEqual({ field: "body", issue: "invalid_json" });
  expect(refused.headers.get("x-ratelimit-limit")).toBe("50");
  // every part of whose body is optional: nothing is done
  const other = await signUp(world.baseUrl);
  const setUp = await other.client.post("/v1/wallets/setup/start", "{", from(newAddress()));
  expect(setUp.body.error.details).toEqual({ field: "body", issue: "invalid_json" });
});

describe("whose counter", () => {
  test("X-Forwarded-For counts only from trusted proxies, from the right", async () => {
    const client = openClient(world.baseUrl);
    const ask = (forwarded: string) => client.get("/v1/networks", from(forwarded));
    const address = newAddress();
    const first = remaining(await ask(address));
    expect(remaining(await ask(`6.6.6.6, ${address}`))).toBe(first - 1);
    expect(remaining(await ask(`7.7.7.7, ${address}, 10.1.2.3`))).toBe(first - 2);
  });

  test("addresses of one IPv6 /64 share a counter", async () => {
    const client = openClient(world.baseUrl);
    const first = remaining(await client.get("/v1/networks", from("2001:db8:9:9::1")));
    expect(remaining(await client.get("/v1/networks", from("2001:db8:9:9:ffff::2")))).toBe(first - 1);
    expect(remaining(await client.get("/v1/networks", from("2001:db8:9:8::1")))).toBe(999);
  });

  test("race: of 300 concurrent requests over two processes exactly the limit passes", async () => {
    const address = newAddress();
    const clients = world.urls.map((url) => openClient(url));
    const answers = await Promise.all(
      Array.from({ length: 300 }, (_, index) =>
        clients[index % 2]?.post("/v1/auth/options", { email: "nobody@example.com" }, from(address)),
      ),
    );
    expect(answers.filter((answer) => answer?.status === 404)).toHaveLength(10);
    expect(answers.filter((answer) => answer?.status === 429)).toHaveLength(290);
  });

  test("the counter survives a restart of the processes", async () => {
    const address = newAddress();
    await send(10, (client) =>
      client.post("/v1/auth/options", { email: "nobody@example.com" }, from(address)),
    );
    const [row] = await world.sql<{ count: number }[]>`
      select count from rate_counters where key = ${`authentication:/v1/auth/options:ip:${address}`}`;
    expect(row?.count).toBe(10);
  });
});

test("an /mcp tool that reads for its caller counts for the caller's address, like the caller's own reads", async () => {
  const address = newAddress();
  const { client } = await signUp(world.baseUrl);
  const { key } = (await client.post("/v1/api-keys", { name: "agent", scopes: ["links:read"] })).body.data;
  const { id } = (await client.post("/v1/payment-links", { amount: 1, description: "Ended" })).body;
  await client.post(`/v1/payment-links/${id}/cancel`);
  const answer = await fetch(`${world.baseUrl}/mcp`, {
    method: "POST",
    headers: {
      ...{ authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...{ accept: "application/json, text/event-stream", ...from(address) },
    },
    body: JSON.stringify({
      ...{ jsonrpc: "2.0", id: 1, method: "tools/call" },
      params: { name: "wait_for_payment", arguments: { id, timeoutSeconds: 30 } },
    }),
  });
  expect(await answer.text()).toContain("CANCELLED");
  const path = `/api/v1/public/payment-links/${id}/data`;
  expect(remaining(await openClient(world.baseUrl).get(path, from(address)))).toBe(238);
});

test("the state of a payment: 600 a minute, by address, at both of its paths", async () => {
  const address = newAddress();
  await world.sql`
    insert into rate_counters (key, count, ends_at) values (${`x402Payment:ip:${address}`}, 598, now() + interval '1 minute')`;
  const client = openClient(world.baseUrl);
  const path = `/x402/${newLinkId()}/payments/${newPaymentId()}`;
  const last = await client.get(path, from(address));
  expect([last.status, remaining(last)]).toEqual([404, 1]);
  expect((await client.get(`/v1${path}`, from(address))).status).toBe(404);
  const refused = await client.get(`/v1${path}`, from(address));
  expectLimited(refused, 600);
  expect(refused.headers.get("access-control-allow-origin")).toBe("*");
  expect((await client.get(path, from(newAddress()))).status).toBe(404);
});

test("health is never limited and has no rate limit headers", async () => {
  const client = openClient(world.baseUrl);
  const address = newAddress();
  for (let index = 0; index < 50; index++) {
    const answer = await client.get("/health/live", from(address));
    expect(answer.status).toBe(200);
    expect(answer.headers.get("x-ratelimit-limit")).toBeNull();
  }
});
