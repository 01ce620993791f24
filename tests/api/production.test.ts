/** What is different in production: secure cookies, HSTS, no test mode, limits on. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { hmacOtp } from "../../core/domain/otp.ts";
import { type ApiWorld, startApiWorld } from "./api-world.ts";
import { type Client, openClient } from "./http-client.ts";

let world: ApiWorld;
let client: Client;
const PEPPER = "99aa88bb77cc66dd55ee44ff33002211fedcba98765432100123456789zyxwvu";

beforeAll(async () => {
  world = await startApiWorld({
    env: {
      NODE_ENV: "production",
      TEST_MODE: "0",
      RATE_LIMITS: "1",
      NETWORKS: "base-sepolia",
      OTP_PEPPER: PEPPER,
      JWT_SECRET: createHash("sha256").update("production").digest("base64"),
    },
  });
  client = openClient(world.baseUrl);
}, 60_000);
afterAll(() => world?.stop());

/** Registers, and sets a code we know: in production nobody reads it back. */
async function register(email: string): Promise<string> {
  const { body } = await client.post("/v1/identity/register", { email });
  const [otp] = await world.sql<{ id: string }[]>`select id from otps where user_id = ${body.userId}`;
  const codeHmac = hmacOtp(PEPPER, { id: otp?.id ?? "", userId: body.userId }, "424242");
  await world.sql`update otps set code_hmac = ${codeHmac} where user_id = ${body.userId}`;
  return "424242";
}

test("the session cookie is Secure, httpOnly, SameSite=Strict, for the whole site and an hour", async () => {
  const otp = await register("a@example.com");
  const answer = await client.post("/v1/email-verification/verify", { email: "a@example.com", otp });
  expect(answer.status).toBe(200);
  expect(answer.headers.getSetCookie()).toEqual([
    expect.stringMatching(
      /^authToken=[\w.-]+; Max-Age=3(599|600); Path=\/; HttpOnly; Secure; SameSite=Strict$/,
    ),
  ]);
  const left = await client.post("/v1/auth/logout");
  expect(left.headers.getSetCookie()).toEqual([
    "authToken=; Max-Age=0; Path=/; HttpOnly; Secure; SameSite=Strict",
  ]);
});

test("answers carry HSTS and rate-limit headers", async () => {
  const { headers } = await client.get("/v1/networks");
  expect(headers.get("strict-transport-security")).toBe("max-age=31536000; includeSubDomains");
  expect(headers.get("x-ratelimit-limit")).toBe("1000");
});

test("test mode does not exist: no routes, and its header opens nothing", async () => {
  expect((await client.post("/v1/test/token", { email: "a@example.com" })).status).toBe(404);
  expect((await client.post("/v1/test/outbox", { email: "a@example.com" })).status).toBe(404);
  const email = "b@example.com";
  const own = openClient(world.baseUrl);
  await own.post("/v1/email-verification/verify", { email, otp: await register(email) });
  const authorization = `Bearer ${own.cookies.get("authToken")}`;
  const answer = await openClient(world.baseUrl).get("/v1/auth/me", { "x-test-mode": "true", authorization });
  expect(answer.status).toBe(401);
});
