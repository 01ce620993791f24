/** Verification of e-mail codes over HTTP, with the resulting rows. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { ageCodes, newEmail, newPasskey, readCode, signUp, verifiedUser } from "../support/sign-up.ts";

let world: ApiWorld;
let client: Client;

beforeAll(async () => {
  world = await startApiWorld();
  client = openClient(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

const REGISTER = "/v1/identity/register";
const VERIFY = "/v1/email-verification/verify";
const RESEND = "/v1/email-verification/resend";

const statusOf = async (email: string) =>
  (await world.sql<{ status: string }[]>`select status from users where email = ${email}`)[0]?.status;

/** A code different from this one. */
const wrong = (code: string) => String((Number(code) + 1) % 1_000_000).padStart(6, "0");

describe("POST /v1/email-verification/verify", () => {
  test("moves REGISTERED to WALLET_SETUP_PENDING and signs in", async () => {
    const email = newEmail();
    await client.post(REGISTER, { email });
    const own = openClient(world.baseUrl);
    const answer = await own.post(VERIFY, { email, otp: await readCode(client, email) });
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      success: true,
      verified: true,
      redirectTo: "/wallet-setup",
      user: { email, status: "WALLET_SETUP_PENDING", hasWallet: false },
    });
    const [cookie] = answer.headers.getSetCookie();
    expect(cookie).toMatch(
      /^authToken=[\w-]+\.[\w-]+\.[\w-]+; Max-Age=3(599|600); Path=\/; HttpOnly; SameSite=Strict$/,
    );
    const me = await own.get("/v1/auth/me");
    expect(me.body).toMatchObject({ email, status: "WALLET_SETUP_PENDING", permissions: [] });
    expect(me.body.wallet).toBeUndefined();
    const status = await own.get("/v1/auth/status");
    expect(status.body).toEqual({
      status: "WALLET_SETUP_PENDING",
      completedSteps: ["registration", "email_verification"],
    });
  });

  test("accepts `code` as `otp` and `userId` as `email`", async () => {
    const email = newEmail();
    const { body } = await client.post(REGISTER, { email });
    const code = await readCode(client, email);
    const answer = await openClient(world.baseUrl).post(VERIFY, { userId: body.userId, code });
    expect(answer.status).toBe(200);
  });

  test("behavior: a user with an unfinished setup signs in with a new code, status unchanged", async () => {
    const { email } = await verifiedUser(world.baseUrl);
    await ageCodes(world.sql, email, 61);
    expect((await client.post(RESEND, { email })).status).toBe(200);
    const own = openClient(world.baseUrl);
    const answer = await own.post(VERIFY, { email, otp: await readCode(client, email) });
    expect(answer.status).toBe(200);
    expect(answer.body.user.status).toBe("WALLET_SETUP_PENDING");
    expect((await own.get("/v1/auth/me")).status).toBe(200);
  });

  test("error: the same message for wrong, used, expired, superseded and unknown codes", async () => {
    const email = newEmail();
    await client.post(REGISTER, { email });
    const code = await readCode(client, email);
    const texts = new Set<string>();
    const expectRefusal = async (body: object) => {
      const answer = await client.post(VERIFY, body);
      expect(answer.status).toBe(400);
      expect(answer.headers.getSetCookie()).toEqual([]);
      texts.add(JSON.stringify(answer.body.error));
    };
    await expectRefusal({ email, otp: wrong(code) });
    await expectRefusal({ email: newEmail(), otp: code });
    await expectRefusal({ userId: `user_${crypto.randomUUID()}`, otp: code });
    await ageCodes(world.sql, email, 61);
    await client.post(RESEND, { email });
    const newer = await readCode(client, email);
    if (newer !== code) await expectRefusal({ email, otp: code });
    await ageCodes(world.sql, email, 600);
    await expectRefusal({ email, otp: newer });
    const done = await verifiedUser(world.baseUrl);
    await expectRefusal({ email: done.email, otp: code });
    expect([...texts]).toEqual([
      JSON.stringify({
        code: "VALIDATION_ERROR",
        message: "The code is wrong or has expired",
        details: { field: "otp", issue: "invalid_or_expired" },
      }),
    ]);
    expect(await statusOf(email)).toBe("REGISTERED");
  });

  test("accepts a code just before its expiry and not at it", async () => {
    const email = newEmail();
    await client.post(REGISTER, { email });
    const otp = await readCode(client, email);
    await ageCodes(world.sql, email, 595);
    expect((await client.post(VERIFY, { email, otp })).status).toBe(200);
  });

  test("error: five wrong attempts invalidate the code; the right one is then refused with 429", async () => {
    const email = newEmail();
    await client.post(REGISTER, { email });
    const code = await readCode(client, email);
    for (let tries = 0; tries < 5; tries++)
      expect((await client.post(VERIFY, { email, otp: wrong(code) })).status).toBe(400);
    const answer = await client.post(VERIFY, { email, otp: code });
    expect(answer.status).toBe(429);
    expect(answer.body.error).toMatchObject({ code: "RATE_LIMITED", details: { field: "otp" } });
    expect(Number(answer.headers.get("retry-after"))).toBeWithin(50, 61);
    expect(await statusOf(email)).toBe("REGISTERED");
  });

  test("error: Retry-After of a code without attempts says when another one can be sent, also at the hour's last", async () => {
    const email = newEmail();
    await client.post(REGISTER, { email });
    for (let codes = 1; codes < 5; codes++) {
      await ageCodes(world.sql, email, 100);
      expect((await client.post(RESEND, { email })).status).toBe(200);
    }
    const code = await readCode(client, email);
    const retryAfterS = async () => {
      const answer = await client.post(VERIFY, { email, otp: code });
      return [answer.status, Number(answer.headers.get("retry-after"))];
    };
    for (let tries = 0; tries < 5; tries++) await client.post(VERIFY, { email, otp: wrong(code) });
    const [status, waitS = 0] = await retryAfterS();
    expect(status).toBe(429);
    const resent = await client.post(RESEND, { email });
    expect(resent.status).toBe(429);
    expect(Number(resent.headers.get("retry-after"))).toBeWithin(waitS - 5, waitS + 1);
    expect(waitS).toBeGreaterThan(3_000);
  });

  test("a right code is accepted at the fifth attempt", async () => {
    const email = newEmail();
    await client.post(REGISTER, { email });
    const code = await readCode(client, email);
    for (let tries = 0; tries < 4; tries++) await client.post(VERIFY, { email, otp: wrong(code) });
    expect((await client.post(VERIFY, { email, otp: code })).status).toBe(200);
  });

  test("race: 200 concurrent wrong guesses use exactly 5 attempts", async () => {
    const email = newEmail();
    const { body } = await client.post(REGISTER, { email });
    const code = await readCode(client, email);
    const answers = await Promise.all(
      Array.from({ length: 200 }, () => client.post(VERIFY, { email, otp: wrong(code) })),
    );
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(5);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(195);
    const [otp] = await world.sql<{ attempts: number }[]>`
      select attempts from otps where user_id = ${body.userId}`;
    expect(otp?.attempts).toBe(5);
    expect((await client.post(VERIFY, { email, otp: code })).status).toBe(429);
  });

  test("race: the right code sent 50 times concurrently signs in once", async () => {
    const email = newEmail();
    await client.post(REGISTER, { email });
    const otp = await readCode(client, email);
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => openClient(world.baseUrl).post(VERIFY, { email, otp })),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
    const sessions = await world.sql`
      select 1 from sessions where user_id = (select id from users where email = ${email})`;
    expect(sessions).toHaveLength(1);
  });

  test("race: a code verified while another is requested gets a 2xx or 4xx, never a 500", async () => {
    for (let round = 0; round < 8; round++) {
      const email = newEmail();
      await client.post(REGISTER, { email });
      const otp = await readCode(client, email);
      await ageCodes(world.sql, email, 61);
      const answers = await Promise.all([
        openClient(world.baseUrl).post(VERIFY, { email, otp }),
        client.post("/v1/auth/options", { email }),
        client.post(REGISTER, { email }),
      ]);
      expect(answers.filter(({ status }) => status >= 500)).toEqual([]);
    }
  });

  test("a session that a code began ends when a passkey activates the user elsewhere", async () => {
    const { client: phone, email } = await verifiedUser(world.baseUrl);
    await ageCodes(world.sql, email, 61);
    await client.post(RESEND, { email });
    const desktop = openClient(world.baseUrl);
    const verified = await desktop.post(VERIFY, { email, otp: await readCode(client, email) });
    expect(verified.status).toBe(200);
    const passkey = await newPasskey(world.baseUrl);
    const { body } = await desktop.post("/v1/wallets/setup/start", {});
    const activated = await desktop.post("/v1/wallets/setup/complete", {
      challengeId: body.challengeId,
      passkeyResponse: await passkey.register(body.passkeyChallenge),
    });
    expect(activated.status).toBe(200);
    expect((await desktop.get("/v1/auth/me")).status).toBe(200);
    expect((await phone.get("/v1/auth/me")).status).toBe(401);
  });

  test("error: an ACTIVE user gets 409 and no cookie, even with a live code", async () => {
    const merchant = await signUp(world.baseUrl);
    await world.sql`
      update otps
      set consumed_at = null, attempts = 0
      where user_id = ${merchant.userId}`;
    const answer = await client.post(VERIFY, { email: merchant.email, otp: "123456" });
    expect(answer.status).toBe(409);
    expect(answer.headers.getSetCookie()).toEqual([]);
  });

  test("data set up before verification is discarded by it", async () => {
    const email = newEmail();
    const { body } = await client.post(REGISTER, { email });
    await world.sql`
      insert into sessions (id, user_id, method, expires_at, absolute_end_at)
      values (${`ses_${email}`}, ${body.userId}, 'test', now() + interval '1 hour', now() + interval '1 day')`;
    await client.post(VERIFY, { email, otp: await readCode(client, email) });
    expect(await world.sql`select 1 from sessions where id = ${`ses_${email}`}`).toHaveLength(0);
  });

  test.each([
    [{ otp: "123456" }, "email"],
    [{ email: "a@example.com" }, "otp"],
    [{ email: "a@example.com", otp: 123456 }, "otp"],
    [{ email: "a@example.com", otp: "12345" }, "otp"],
    [{ email: "a@example.com", otp: "1234567" }, "otp"],
    [{ email: "a@example.com", otp: "12345a" }, "otp"],
    [{ email: "a@example.com", otp: "１２３４５６" }, "otp"],
    [{ email: "a@example.com", otp: " 123456" }, "otp"],
    [{ userId: "user_1' or 1=1", otp: "123456" }, "userId"],
  ])("error: 400 for %j names the field", async (body, field) => {
    const answer = await client.post(VERIFY, body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code: "VALIDATION_ERROR", details: { field } });
  });
});
