/** Registration and requests for another code over HTTP, with the resulting rows. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { ageCodes, newEmail, readCode, signUp, verifiedUser } from "../support/sign-up.ts";

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
const ISO = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

describe("POST /v1/identity/register", () => {
  test("creates a user in REGISTERED and queues a mail", async () => {
    const email = newEmail();
    const answer = await client.post(REGISTER, { email });
    expect(answer.status).toBe(201);
    expect(answer.body).toMatchObject({
      success: true,
      email,
      status: "REGISTERED",
      emailVerificationSent: true,
      redirectTo: "/email-verification",
      user: { email, status: "REGISTERED", hasWallet: false },
    });
    expect(answer.body.userId).toMatch(
      /^user_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    );
    expect(answer.body.user.id).toBe(answer.body.userId);
    expect(answer.body.user.createdAt).toMatch(ISO);
    expect(answer.headers.getSetCookie()).toEqual([]);
    const jobs = await world.sql`
      select 1 from graphile_worker.jobs where key = ${`send_otp_email:${answer.body.userId}`}`;
    expect(jobs).toHaveLength(1);
  });

  test("trims and lower-cases the address: one account regardless of case", async () => {
    const email = newEmail();
    const first = await client.post(REGISTER, { email: `  ${email.toUpperCase()} ` });
    expect(first.body.email).toBe(email);
    const again = await client.post(REGISTER, { email });
    expect(again.status).toBe(200);
    expect(again.body.userId).toBe(first.body.userId);
  });

  test("behavior: registering again while REGISTERED returns the same user, with a new code only after the cool-down", async () => {
    const email = newEmail();
    const first = await client.post(REGISTER, { email });
    const again = await client.post(REGISTER, { email });
    expect(again.status).toBe(200);
    expect(again.body).toMatchObject({ userId: first.body.userId, emailVerificationSent: false });
    const code = await readCode(client, email);
    await ageCodes(world.sql, email, 61);
    const later = await client.post(REGISTER, { email });
    expect(later.body.emailVerificationSent).toBe(true);
    expect(await world.sql`select 1 from otps where user_id = ${first.body.userId}`).toHaveLength(2);
    expect((await client.post(VERIFY, { email, otp: code })).status).toBe(
      code === (await readCode(client, email)) ? 200 : 400,
    );
  });

  test("behavior: 20 concurrent registrations of one address create one user and one code", async () => {
    const email = newEmail();
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        client.post(REGISTER, { email: index % 2 ? email : email.toUpperCase() }),
      ),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(19);
    expect(answers.filter(({ body }) => body.emailVerificationSent)).toHaveLength(1);
    const userId = answers[0]?.body.userId;
    expect(await world.sql`select 1 from otps where user_id = ${userId}`).toHaveLength(1);
    expect(await world.sql`select 1 from users where email = ${email}`).toHaveLength(1);
  });

  test("error: 409 once the address is verified", async () => {
    const { email } = await verifiedUser(world.baseUrl);
    for (const user of [email, (await signUp(world.baseUrl)).email]) {
      const answer = await client.post(REGISTER, { email: user });
      expect(answer.status).toBe(409);
      expect(answer.body.error).toMatchObject({ code: "CONFLICT", details: { field: "email" } });
    }
  });

  test.each([
    [{}, "email"],
    [{ email: "" }, "email"],
    [{ email: "no-at-sign" }, "email"],
    [{ email: "a@b" }, "email"],
    [{ email: `${"a".repeat(250)}@example.com` }, "email"],
    [{ email: "a@example.com\r\nBcc: x@example.com" }, "email"],
    [{ email: "a\u0000@example.com" }, "email"],
    [{ email: 7 }, "email"],
    [{ email: null }, "email"],
    [{ email: ["a@example.com"] }, "email"],
    [{ email: { toString: 1 } }, "email"],
    [[], "body"],
    ["text", "body"],
    [null, "body"],
  ])("error: 400 for %j names the field", async (body, field) => {
    const answer = await client.post(REGISTER, JSON.stringify(body));
    expect(answer.status).toBe(400);
    expect(answer.body.error).toMatchObject({ code: "VALIDATION_ERROR", details: { field } });
    expect(answer.body.meta.requestId).toBe(answer.headers.get("x-request-id"));
  });

  test("accepts 254 characters and refuses 255", async () => {
    const ending = `@${"b".repeat(60)}.${"c".repeat(60)}.${"d".repeat(60)}.com`;
    const of = (length: number) => `${"a".repeat(length - ending.length)}${ending}`;
    expect((await client.post(REGISTER, { email: of(254) })).status).toBe(201);
    expect((await client.post(REGISTER, { email: of(255) })).status).toBe(400);
  });
});

describe("POST /v1/email-verification/resend", () => {
  test("queues a new code after the cool-down; the older code becomes invalid", async () => {
    const email = newEmail();
    const { body } = await client.post(REGISTER, { email });
    await ageCodes(world.sql, email, 61);
    const answer = await client.post(RESEND, { userId: body.userId });
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({ success: true, emailVerificationSent: true, retryAfterSeconds: 60 });
    const live = await world.sql`
      select 1 from otps where user_id = ${body.userId} and superseded_at is null`;
    expect(live).toHaveLength(1);
    const jobs = await world.sql`
      select 1 from graphile_worker.jobs where key = ${`send_otp_email:${body.userId}`}`;
    expect(jobs).toHaveLength(1);
  });

  test("error: 429 with Retry-After in the cool-down", async () => {
    const email = newEmail();
    await client.post(REGISTER, { email });
    const answer = await client.post(RESEND, { email });
    expect(answer.status).toBe(429);
    expect(answer.body.error.code).toBe("RATE_LIMITED");
    const retryAfter = Number(answer.headers.get("retry-after"));
    expect(retryAfter).toBeGreaterThan(20);
    expect(retryAfter).toBeLessThanOrEqual(60);
  });

  test("error: the sixth code within an hour is refused until the first is an hour old", async () => {
    const email = newEmail();
    await client.post(REGISTER, { email });
    for (let sent = 1; sent < 5; sent++) {
      await ageCodes(world.sql, email, 61);
      expect((await client.post(RESEND, { email })).status).toBe(200);
    }
    await ageCodes(world.sql, email, 61);
    const refused = await client.post(RESEND, { email });
    expect(refused.status).toBe(429);
    // the first is 5 * 61 seconds old
    expect(Number(refused.headers.get("retry-after"))).toBeWithin(3_600 - 5 * 61 - 60, 3_600 - 5 * 61 + 1);
    await ageCodes(world.sql, email, 3_600 - 5 * 61);
    expect((await client.post(RESEND, { email })).status).toBe(200);
  });

  test("answers the same for an unverified, an unknown and an ACTIVE address; only the first gets mail", async () => {
    const waiting = newEmail();
    await client.post(REGISTER, { email: waiting });
    await ageCodes(world.sql, waiting, 61);
    const merchant = await signUp(world.baseUrl);
    const unknown = newEmail();
    const answers = [];
    for (const email of [waiting, unknown, merchant.email])
      answers.push(await client.post(RESEND, { email }));
    for (const answer of answers) {
      expect(answer.status).toBe(200);
      expect(answer.text).toBe(answers[0]?.text ?? "");
    }
    const again = [];
    for (const email of [waiting, unknown, merchant.email]) again.push(await client.post(RESEND, { email }));
    expect(again.map(({ status }) => status)).toEqual([429, 429, 429]);
    expect(await world.sql`select 1 from users where email = ${unknown}`).toHaveLength(0);
    const codes = await world.sql`select 1 from otps where user_id = ${merchant.userId}`;
    expect(codes).toHaveLength(1);
  });

  test("repeated requests do not distinguish an unverified from an unknown address, in the cool-down or within the hour", async () => {
    const waiting = newEmail();
    await client.post(REGISTER, { email: waiting });
    await ageCodes(world.sql, waiting, 3_601);
    const unknown = newEmail();
    const key = `resend:${createHash("sha256").update(unknown).digest("base64url")}`;
    /** Moves the cool-down of both addresses into the past. */
    const letTimePass = async () => {
      await ageCodes(world.sql, waiting, 61);
      await world.sql`
        update rate_counters set ends_at = ends_at - interval '61 seconds' where key like ${`${key}%`}`;
    };
    const answerTo = async (email: string) => {
      const { status, headers } = await client.post(RESEND, { email });
      const waitS = Number(headers.get("retry-after"));
      return { status, minutes: Math.ceil(waitS / 60) };
    };
    for (let sent = 1; sent <= 6; sent++) {
      for (let asked = 0; asked < 3; asked++)
        expect(await answerTo(unknown)).toEqual(await answerTo(waiting));
      await letTimePass();
    }
  });

  test("takes as long for an unknown address as for a known one", async () => {
    const time = async (email: string) => {
      const started = performance.now();
      await client.post(RESEND, { email });
      return performance.now() - started;
    };
    const known: number[] = [];
    const unknown: number[] = [];
    // the quickest of each: other work on the machine only adds to a time
    const apartMs = () => Math.abs(Math.min(...known) - Math.min(...unknown));
    for (let round = 0; round < 15 || (round < 90 && apartMs() >= 8); round++) {
      const email = newEmail();
      await client.post(REGISTER, { email });
      await ageCodes(world.sql, email, 61);
      known.push(await time(email));
      unknown.push(await time(newEmail()));
    }
    expect(apartMs()).toBeLessThan(8);
  });

  test("error: 400 without an address", async () => {
    const answer = await client.post(RESEND, {});
    expect(answer.status).toBe(400);
    expect(answer.body.error.details.field).toBe("email");
  });
});

test("codes are unreadable in the database and in the log", async () => {
  const email = newEmail();
  const { body } = await client.post(REGISTER, { email });
  const code = await readCode(client, email);
  const [dump] = await world.sql<{ text: string }[]>`
    select coalesce(string_agg(o::text, ' '), '') as text from otps o where user_id = ${body.userId}`;
  expect(dump?.text).not.toContain(code);
  const [jobs] = await world.sql<{ text: string }[]>`
    select string_agg(payload::text, ' ') as text from graphile_worker._private_jobs`;
  expect(jobs?.text).not.toContain(`"${code}"`);
  expect(world.log()).not.toMatch(new RegExp(`[^\\d.]${code}[^\\d.]`));
});
