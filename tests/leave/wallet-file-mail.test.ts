/** The wallet file by mail: sent once a wallet is set up, again after failures, and the same as the download. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { once } from "node:events";
import { createServer } from "node:net";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { openLog } from "../../core/runtime/log.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { openMailer } from "../../worker/mail/mailer.ts";
import { sendWalletFile } from "../../worker/mail/send-wallet-file.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type Service, startService } from "../support/world.ts";

let db: TestDatabase;
let sql: Sql;
let chain: TestChain;
let mailbox: TestMailbox;
let service: Service;
let merchant: Merchant;

beforeAll(async () => {
  [db, chain, mailbox] = await Promise.all([createTestDatabase(), startTestChain(), startTestMailbox()]);
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  service = await startService({
    ...{ db, chain, smtp: mailbox, processes: ["api", "worker"] },
    env: { RATE_LIMITS: "0", WALLET_DEPLOYMENT: "lazy" },
  });
  merchant = await signUp(service.baseUrl);
}, 120_000);
afterAll(async () => {
  await service?.stop();
  await sql?.end({ timeout: 1 });
  await Promise.all([mailbox?.stop(), chain?.stop(), db?.drop()]);
});

/** Runs the job once against the mail server at `smtpUrl`. */
function run(userId: string, smtpUrl: string): Promise<void> {
  const mailer = openMailer({ smtpUrl, mailFrom: "no-reply@pay.example.com" });
  const config = { baseUrl: "https://pay.example.com" };
  return sendWalletFile({ sql, mailer, log: openLog("test", "silent"), config }, { userId });
}

/** A mail server with configured behaviour. */
async function startServer(options: SMTPServerOptions): Promise<{ url: string; stop: () => Promise<void> }> {
  const server = new SMTPServer({
    ...{ authOptional: true, disabledCommands: ["STARTTLS", "AUTH"], disableReverseLookup: true },
    ...{ closeTimeout: 200, ...options },
  });
  server.on("error", () => {});
  const listener = server.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const address = listener.address();
  const port = typeof address === "object" && address ? address.port : 0;
  return {
    url: `smtp://127.0.0.1:${port}`,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

const replying = (responseCode: number) =>
  startServer({ onRcptTo: (_to, _session, done) => done(Object.assign(new Error("no"), { responseCode })) });

describe("send_wallet_file", () => {
  test("mails the same file as the download, to the address of the account, soon after the setup", async () => {
    const wanted = (mails = mailbox.messages(merchant.email)) =>
      mails.find(({ subject }) => subject.startsWith("Your wallet file"));
    const deadline = Date.now() + 45_000;
    while (!wanted() && Date.now() < deadline) await Bun.sleep(20);
    const mail = wanted();
    expect(mail?.text).toContain(merchant.walletAddress);
    expect(mail?.html).toContain(merchant.walletAddress);
    const { text } = await merchant.client.get("/v1/wallets/recovery");
    expect(mail?.attachments).toEqual([
      { filename: `wallet-${merchant.walletAddress}.json`, mimeType: "application/json", text },
    ]);
  });

  test("fails on a temporary refusal, so that it is retried, and ends on a permanent one", async () => {
    const [temporary, permanent] = await Promise.all([replying(451), replying(550)]);
    await expect(run(merchant.userId, temporary.url)).rejects.toThrow("may not have been mailed");
    expect(await run(merchant.userId, permanent.url)).toBeUndefined();
    await Promise.all([temporary.stop(), permanent.stop()]);
  });

  test("fails when the connection breaks after the message: a second copy is better than none", async () => {
    const server = createServer((socket) => {
      let isReadingData = false;
      let message = "";
      socket.write("220 ready\r\n");
      socket.on("error", () => {});
      socket.on("data", (bytes) => {
        const text = bytes.toString();
        if (isReadingData) {
          message += text;
          if (message.endsWith("\r\n.\r\n")) socket.destroy();
          return;
        }
        isReadingData = text.startsWith("DATA");
        socket.write(isReadingData ? "354 go on\r\n" : "250 ok\r\n");
      });
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const port = typeof address === "object" && address ? address.port : 0;
    await expect(run(merchant.userId, `smtp://127.0.0.1:${port}`)).rejects.toThrow(
      "may not have been mailed",
    );
    server.close();
  });

  test("a repeated mail has the same Message-ID, one with changed content a new one", async () => {
    const mailNow = async () => {
      const count = mailbox.messages(merchant.email).length + 1;
      await run(merchant.userId, mailbox.smtpUrl);
      return (await mailbox.waitForMail(merchant.email, { count })).headers["message-id"];
    };
    const first = await mailNow();
    expect(first).toMatch(/^<wallet-[0-9a-f]{32}@pay\.example\.com>$/);
    expect(await mailNow()).toBe(first);
    await sql`update passkeys set transports = '{usb}' where id = ${merchant.passkey.credentialId}`;
    expect(await mailNow()).not.toBe(first);
  });

  test("sends nothing for a user who no longer exists", async () => {
    const before = mailbox.messages().length;
    await run(`user_${crypto.randomUUID()}`, mailbox.smtpUrl);
    expect(mailbox.messages()).toHaveLength(before);
  });
});
