/** Differences in production: secure cookies, HSTS, no test mode, rate limits on. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { join } from "node:path";
import { newUserId } from "../../core/domain/ids.ts";
import { hmacOtp } from "../../core/domain/otp.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { serviceProgram } from "../support/compiled-services.ts";
import { type Client, openClient } from "../support/http-client.ts";

let world: ApiWorld;
let client: Client;
const ROOT = join(import.meta.dir, "../..");
const strong = () => randomBytes(32).toString("hex");
const PEPPER = "99aa88bb77cc66dd55ee44ff33002211fedcba98765432100123456789zyxwvu";

beforeAll(async () => {
  world = await startApiWorld({
    env: {
      NODE_ENV: "production",
      TEST_MODE: "0",
      RATE_LIMITS: "1",
      NETWORKS: "base-sepolia",
      OTP_PEPPER: PEPPER,
      WEBHOOK_PRIVATE_TARGETS: "1",
      JWT_SECRET: createHash("sha256").update("production").digest("base64"),
    },
  });
  client = openClient(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

/** Registers and sets a known code: production has no outbox. */
async function register(email: string): Promise<string> {
  const { body } = await client.post("/v1/identity/register", { email });
  const [otp] = await world.sql<{ id: string }[]>`select id from otps where user_id = ${body.userId}`;
  const codeHmac = hmacOtp([PEPPER], { id: otp?.id ?? "", userId: body.userId }, "424242");
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

test("test mode is unavailable: no routes, and its header is ignored", async () => {
  expect((await client.post("/v1/test/token", { email: "a@example.com" })).status).toBe(404);
  expect((await client.post("/v1/test/outbox", { email: "a@example.com" })).status).toBe(404);
  const email = "b@example.com";
  const own = openClient(world.baseUrl);
  await own.post("/v1/email-verification/verify", { email, otp: await register(email) });
  const authorization = `Bearer ${own.cookies.get("authToken")}`;
  const answer = await openClient(world.baseUrl).get("/v1/auth/me", { "x-test-mode": "true", authorization });
  expect(answer.status).toBe(401);
});

describe("at start", () => {
  const warnings = () =>
    world
      .log()
      .split("\n")
      .filter((line) => line.includes('"level":"warn"'));

  test("an insecure setting is logged as a warning, others are not", () => {
    expect(warnings().filter((line) => line.includes("WEBHOOK_PRIVATE_TARGETS=1"))).toHaveLength(1);
    expect(world.log()).not.toContain("RATE_LIMITS=0");
  });

  test("error: refuses to start while stored passkeys belong to another RP id, and names it", async () => {
    const userId = newUserId();
    const [secrets, { PATH, HOME }] = [[strong(), strong()] as const, process.env];
    const start = async (rpId: string, more: Record<string, string> = {}) => {
      const { command, args } = serviceProgram("api");
      const child = Bun.spawn([command, ...args], {
        env: {
          ...{ PATH, HOME, NODE_ENV: "production", DATABASE_URL: world.databaseUrl, PORT: "0" },
          ...{ NETWORKS: "base-sepolia", RPC_URL_BASE_SEPOLIA: world.chainOf("base-sepolia").rpcUrl },
          ...{ JWT_SECRET: secrets[0], OTP_PEPPER: secrets[1] },
          ...{ BASE_URL: "https://pay.example.com", RP_ID: rpId, ...more },
        },
        cwd: ROOT,
        stdout: "pipe",
        stderr: "pipe",
      });
      const reader = child.stdout.getReader();
      let log = "";
      // either it logs that it listens, or it ends
      while (!log.includes('"listening"')) {
        const { done, value } = await reader.read();
        if (done) break;
        log += new TextDecoder().decode(value);
      }
      const isListening = log.includes('"listening"');
      if (isListening) child.kill("SIGTERM");
      const [code, output] = [await child.exited, await new Response(child.stderr).text()];
      return { isListening, code, output };
    };
    expect((await start("example.com")).isListening).toBe(true);
    await world.sql`insert into users (id, email) values (${userId}, 'rp@example.com')`;
    await world.sql`
      insert into passkeys (id, user_id, cose_key, public_key_x, public_key_y, device_type, backed_up, rp_id)
      select 'rp-' || n, ${userId}, ''::bytea, ${randomBytes(32)}, ${randomBytes(32)}, 'multiDevice', true,
        case when n = 1 then 'pay.example.com' else 'example.com' end
      from generate_series(1, 3) as n`;
    for (const [rpId, found] of [
      ["example.com", '1 of "pay.example.com"'],
      ["pay.example.com", '2 of "example.com"'],
    ] as const) {
      const refused = await start(rpId);
      expect(refused).toMatchObject({ isListening: false, code: 78 });
      expect(refused.output).toContain(`RP_ID is "${rpId}"`);
      expect(refused.output).toContain(found);
    }
    expect((await start("pay.example.com", { NODE_ENV: "test" })).isListening).toBe(true);
    await world.sql`delete from passkeys where id = 'rp-1'`;
    expect((await start("example.com")).isListening).toBe(true);
    await world.sql`delete from users where id = ${userId}`;
  }, 120_000);
});
