/** The real worker: mails despite failures, and the eager wallet deployment. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { callRpcText } from "../../local/chain/rpc.ts";
import { findFreePort } from "../../local/free-port.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { openClient } from "../support/http-client.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { newEmail, newPasskey } from "../support/sign-up.ts";
import { type Service, startService } from "../support/world.ts";

let db: TestDatabase;
let sql: Sql;
let chain: TestChain;
let smtpPort: number;
let mailbox: TestMailbox;
let service: Service;

beforeAll(async () => {
  [db, chain, smtpPort] = await Promise.all([createTestDatabase(), startTestChain(), findFreePort()]);
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  mailbox = await startTestMailbox({ smtpPort });
  const smtp = { smtpUrl: mailbox.smtpUrl };
  service = await startService({ db, chain, smtp, processes: ["api", "worker"], env: { RATE_LIMITS: "0" } });
}, 120_000);
afterAll(async () => {
  await service?.stop();
  await sql?.end({ timeout: 1 });
  await Promise.all([mailbox?.stop(), chain?.stop(), db?.drop()]);
});

const register = (email: string) => openClient(service.baseUrl).post("/v1/identity/register", { email });

describe("mail", () => {
  test("a code arrives by SMTP soon after the registration", async () => {
    const email = newEmail();
    await register(email);
    const mail = await mailbox.waitForMail(email);
    expect(mail.text).toMatch(/Your code: \d{6}/);
    const { body } = await openClient(service.baseUrl).post("/v1/test/outbox", { email });
    expect(body.text).toBe(mail.text.replaceAll("\r\n", "\n"));
    expect(body.mail.sentAt).toBeString();
  });

  test("a mail server outage and a killed worker lose no mail and send none twice", async () => {
    await mailbox.stop();
    const emails = Array.from({ length: 20 }, newEmail);
    await Promise.all(emails.map(register));
    // until the worker has failed once
    const deadline = Date.now() + 45_000;
    const tried = async () => {
      const [row] = await sql<{ count: number }[]>`
        select count(*)::int as count from graphile_worker.jobs where task_identifier = 'send_otp_email' and attempts > 0`;
      return row?.count ?? 0;
    };
    while ((await tried()) < emails.length && Date.now() < deadline) await Bun.sleep(20);
    expect(await tried()).toBe(emails.length);
    await service.kill("worker");
    await service.start("worker");
    mailbox = await startTestMailbox({ smtpPort });
    for (const email of emails) await mailbox.waitForMail(email, { timeoutMs: 60_000 });
    await service.kill("worker");
    await service.start("worker");
    const jobs = () => sql`select 1 from graphile_worker.jobs where task_identifier = 'send_otp_email'`;
    while ((await jobs()).length > 0 && Date.now() < deadline + 60_000) await Bun.sleep(50);
    for (const email of emails) expect(mailbox.messages(email)).toHaveLength(1);
  }, 120_000);

  test("no code appears in the worker's log", async () => {
    const email = newEmail();
    await register(email);
    const code = /Your code: (\d{6})/.exec((await mailbox.waitForMail(email)).text)?.[1];
    expect(code).toBeString();
    expect(service.logOf("worker")).not.toMatch(new RegExp(`[^\\d.]${code}[^\\d.]`));
    expect(service.logOf("worker")).not.toContain(email);
  });
});

test("a wallet on a testnet is deployed soon after its setup", async () => {
  const client = openClient(service.baseUrl);
  const email = newEmail();
  await register(email);
  const otp = /Your code: (\d{6})/.exec((await mailbox.waitForMail(email)).text)?.[1];
  await client.post("/v1/email-verification/verify", { email, otp });
  const started = await client.post("/v1/wallets/setup/start", {});
  const passkey = await newPasskey(service.baseUrl);
  const done = await client.post("/v1/wallets/setup/complete", {
    challengeId: started.body.challengeId,
    passkeyResponse: await passkey.register(started.body.passkeyChallenge),
  });
  expect(done.body.wallet.deployed).toBe(false);
  const address: Hex = done.body.wallet.address;
  const deadline = Date.now() + 45_000;
  const isDeployed = async () => (await client.get("/v1/auth/me")).body.wallets[0].deployed === true;
  while (!(await isDeployed()) && Date.now() < deadline) await Bun.sleep(100);
  expect(await isDeployed()).toBe(true);
  expect(await callRpcText(chain.rpcUrl, "eth_getCode", [address, "latest"])).toHaveLength(2 + 61 * 2);
}, 120_000);
