/** Rotation of each secret without downtime: the new key is added last, moves to the front, and the old one is removed. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { newWebhookEndpointId } from "../../core/domain/ids.ts";
import { seal } from "../../core/domain/seal-secrets.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { resealWebhookSecrets } from "../../worker/webhooks/reseal-secrets.ts";
import { waitFor } from "../links/payer-side.ts";
import { type Client, openClient } from "../support/http-client.ts";
import { type Merchant, newEmail, readCode, signIn, signUp } from "../support/sign-up.ts";
import { startWorld, type World } from "../support/world.ts";
import { isSigned, type Receiver, startReceiver } from "../webhooks/receiver.ts";

const newKey = () => randomBytes(32).toString("hex");
const [OLD, NEW] = [newKey(), newKey()];
/** Read at each start of a process. */
const env: Record<string, string> = {
  NODE_ENV: "test",
  RATE_LIMITS: "0",
  WEBHOOK_PRIVATE_TARGETS: "1",
  JWT_SECRET: newKey(),
  OTP_PEPPER: newKey(),
};

let world: World;
let sql: Sql;
let merchant: Merchant;
let receiver: Receiver;

beforeAll(async () => {
  world = await startWorld({ env, processes: ["api", "worker"] });
  sql = world.sql;
  merchant = await signUp(world.baseUrl);
  receiver = startReceiver();
}, 120_000);
afterEach(() => world?.startMissing());
afterAll(async () => {
  await receiver?.stop();
  await world?.stop();
});

async function restartWith(
  changes: Record<string, string>,
  names: readonly ("api" | "worker")[] = ["api", "worker"],
): Promise<void> {
  Object.assign(env, changes);
  await Promise.all(names.map(world.restart));
}

/** Only the api reads tokens. */
const restartApiWith = (secrets: string) => restartWith({ JWT_SECRET: secrets }, ["api"]);

const isSignedIn = async (client: Client) => (await client.get("/v1/auth/me")).status === 200;

test("JWT_SECRET: old tokens are valid while their key is in the list, at any position, and not afterwards", async () => {
  await restartApiWith(OLD);
  const old = await signIn(merchant);
  const renewer = await signUp(world.baseUrl);
  await restartApiWith(`${OLD},${NEW}`);
  const between = await signIn(merchant);
  expect(await isSignedIn(old)).toBe(true);
  await restartApiWith(`${NEW},${OLD}`);
  const young = await signIn(merchant);
  await sql`
    update sessions set expires_at = now() + interval '20 minutes' where user_id = ${renewer.userId}`;
  for (const client of [old, between, young, renewer.client]) expect(await isSignedIn(client)).toBe(true);
  await restartApiWith(NEW);
  for (const client of [young, renewer.client]) expect(await isSignedIn(client)).toBe(true);
  // signed with the key that was first at that time
  for (const client of [old, between]) expect(await isSignedIn(client)).toBe(false);
}, 120_000);

describe("OTP_PEPPER", () => {
  async function register(): Promise<{ client: Client; email: string; code: string }> {
    const [client, email] = [openClient(world.baseUrl), newEmail()];
    await client.post("/v1/identity/register", { email });
    return { client, email, code: await readCode(client, email) };
  }
  const verify = async ({ client, email, code }: Awaited<ReturnType<typeof register>>) =>
    (await client.post("/v1/email-verification/verify", { email, otp: code })).status;

  test("a code made before the rotation is sent and verifies during it, and not after its pepper is removed", async () => {
    await restartWith({ OTP_PEPPER: OLD });
    const [one, two] = [await register(), await register()];
    await world.kill("worker", "SIGTERM");
    const waiting = await register();
    Object.assign(env, { OTP_PEPPER: `${NEW},${OLD}` });
    await world.restart("api");
    await world.start("worker");
    await waitFor("the mail", async () => {
      const [row] = await sql<{ sentAt: Date | null }[]>`
        select sent_at from otps where user_id = (select id from users where email = ${waiting.email})`;
      return row?.sentAt ?? undefined;
    });
    for (const code of [one, waiting]) expect(await verify(code)).toBe(200);
    const three = await register();
    await restartWith({ OTP_PEPPER: NEW });
    expect(await verify(three)).toBe(200);
    expect(await verify(two)).toBe(400);
  }, 120_000);
});

describe("webhook secrets", () => {
  const reseal = async () => {
    const { PATH, HOME } = process.env;
    const child = Bun.spawn(
      [process.execPath, "--no-env-file", join(import.meta.dir, "../../worker/reseal-main.ts")],
      {
        env: { PATH, HOME, DATABASE_URL: world.db.url, ...env },
        stdout: "pipe",
      },
    );
    return { code: await child.exited, output: await new Response(child.stdout).text() };
  };

  /** Creates an event and returns whether its message carries a signature with this secret. */
  async function isNextSignedWith(secret: string): Promise<boolean> {
    const before = receiver.received.length;
    await merchant.client.post("/v1/payment-links", { amount: 1, description: "d" });
    await waitFor("the message", async () => receiver.received.length > before);
    const message = receiver.received.at(-1);
    return message !== undefined && isSigned(message, secret);
  }

  test("sealed with the old pepper still sign under WEBHOOK_SEAL_KEYS, are resealed, and then no longer need it", async () => {
    await restartWith({ OTP_PEPPER: OLD });
    merchant.client = await signIn(merchant);
    const { body } = await merchant.client.post("/v1/webhook-endpoints", {
      url: receiver.url,
      eventTypes: ["payment_link.created"],
    });
    const { id, secret } = body.data;
    expect(await isNextSignedWith(secret)).toBe(true);
    const sealKey = newKey();
    await restartWith({ WEBHOOK_SEAL_KEYS: sealKey });
    expect(await isNextSignedWith(secret)).toBe(true);
    // a rotation's old secret, sealed with the old key, and its new one, sealed with the new key
    const rotated = await merchant.client.post(`/v1/webhook-endpoints/${id}/rotate-secret`);
    expect(await isNextSignedWith(secret)).toBe(true);
    const first = await reseal();
    expect(first).toMatchObject({
      code: 0,
      output: expect.stringContaining("1 secret(s) re-encrypted with the newest key, 1 already were"),
    });
    expect((await reseal()).output).toContain("0 secret(s) re-encrypted with the newest key, 2 already were");
    await restartWith({ OTP_PEPPER: NEW });
    for (const one of [secret, rotated.body.data.secret]) expect(await isNextSignedWith(one)).toBe(true);
  }, 120_000);

  test("error: those that no key opens are counted and left unchanged, and the command fails", async () => {
    const id = newWebhookEndpointId();
    const sealed = seal([newKey()], { purpose: "webhook secret", id }, "whsec_x");
    await sql`
      insert into webhook_endpoints (id, user_id, url, sealed_secret, enabled)
      values (${id}, ${merchant.userId}, 'https://example.com/', ${sealed}, false)`;
    const { code, output } = await reseal();
    expect(code).toBe(1);
    expect(output).toContain(`1 cannot be decrypted with any of the given keys, for example those of ${id}`);
    const [row] = await sql<{ sealedSecret: Uint8Array }[]>`
      select sealed_secret from webhook_endpoints where id = ${id}`;
    expect(Buffer.from(row?.sealedSecret ?? []).equals(sealed)).toBe(true);
    await sql`delete from webhook_endpoints where id = ${id}`;
  });

  test("race: a secret replaced during its resealing keeps its new value", async () => {
    const id = newWebhookEndpointId();
    const place = { purpose: "webhook secret", id } as const;
    const [older, newest] = [newKey(), newKey()];
    const replaced = seal([newest], place, "whsec_replaced");
    await sql`
      insert into webhook_endpoints (id, user_id, url, sealed_secret, enabled)
      values (${id}, ${merchant.userId}, 'https://example.com/', ${seal([older], place, "whsec_old")}, false)`;
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let isHeld = () => {};
    const begun = new Promise<void>((resolve) => {
      isHeld = resolve;
    });
    const change = sql.begin(async (tx) => {
      await tx`update webhook_endpoints set sealed_secret = ${replaced} where id = ${id}`;
      isHeld();
      await held;
    });
    await begun;
    const resealing = resealWebhookSecrets(sql, [newest, older, env.OTP_PEPPER ?? ""]);
    await waitFor("the reseal to wait for the row", async () => {
      const [row] = await sql<{ waiting: number }[]>`
        select count(*)::int as waiting from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%update webhook_endpoints%'`;
      return (row?.waiting ?? 0) > 0;
    });
    release();
    await change;
    await resealing;
    const [row] = await sql<{ sealedSecret: Uint8Array }[]>`
      select sealed_secret from webhook_endpoints where id = ${id}`;
    expect(Buffer.from(row?.sealedSecret ?? []).equals(replaced)).toBe(true);
  }, 120_000);
});
