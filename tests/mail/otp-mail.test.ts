/** Sends the mail of a code through a real SMTP server, exactly once despite failures. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { hmacOtp, sealOtp } from "../../core/domain/otp.ts";
import { openLog } from "../../core/runtime/log.ts";
import { replaceOtp } from "../../db/accounts/otps.ts";
import { insertUser } from "../../db/accounts/users.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { openMailer } from "../../worker/mail/mailer.ts";
import { sendOtpEmail } from "../../worker/mail/send-otp-email.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const PEPPER = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";
const FROM = "USDC Payments <no-reply@pay.example.com>";

let db: TestDatabase;
let sql: Sql;
let mailbox: TestMailbox;
let counter = 0;

beforeAll(async () => {
  [db, mailbox] = await Promise.all([createTestDatabase(), startTestMailbox()]);
  sql = openDatabase(db.url, { name: "test" });
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await Promise.all([mailbox?.stop(), db?.drop()]);
});

type Code = { otpId: string; userId: string; email: string; code: string };

async function newCode(user?: { userId: string; email: string }): Promise<Code> {
  counter += 1;
  const code = String(100_000 + counter);
  const email = user?.email ?? `reader-${counter}@example.com`;
  const userId = user?.userId ?? `user_${crypto.randomUUID()}`;
  if (!user) await insertUser(sql, { id: userId, email });
  const otp = { id: `otp_${crypto.randomUUID()}`, userId };
  const codeHmac = hmacOtp([PEPPER], otp, code);
  await sql.begin((tx) =>
    replaceOtp(tx, { ...otp, codeHmac, sealedCode: sealOtp([PEPPER], otp, code), requestId: "req_test" }),
  );
  return { otpId: otp.id, userId, email, code };
}

/** Runs the job once against the mail server at `smtpUrl`. */
function run(given: Code, smtpUrl = mailbox.smtpUrl): Promise<void> {
  const mailer = openMailer({ smtpUrl, mailFrom: FROM });
  const config = { otpPeppers: [PEPPER] as const, baseUrl: "https://pay.example.com" };
  const log = openLog("test", "silent");
  return sendOtpEmail({ sql, mailer, log, config }, { otpId: given.otpId, userId: given.userId });
}

const sentAt = async ({ otpId }: Code) =>
  (await sql<{ sentAt: Date | null }[]>`select sent_at from otps where id = ${otpId}`)[0]?.sentAt;

/** A mail server with configured behaviour. Counts the messages it received completely. */
async function startServer(options: SMTPServerOptions): Promise<{ url: string; stop: () => Promise<void> }> {
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS", "AUTH"],
    disableReverseLookup: true,
    closeTimeout: 200,
    ...options,
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

describe("send_otp_email", () => {
  test("sends text and HTML to the address, from us, with a Message-ID derived from the code's row", async () => {
    const given = await newCode();
    await run(given);
    const mail = await mailbox.waitForMail(given.email);
    expect(mail.subject).toBe(`${given.code} is your code for pay.example.com`);
    expect(mail.text).toContain(`Your code: ${given.code}`);
    expect(mail.html).toContain(given.code);
    expect(mail.from).toBe(FROM);
    expect(mail.headers["message-id"]).toBe(`<${given.otpId}@pay.example.com>`);
    expect(await sentAt(given)).toBeInstanceOf(Date);
  });

  test("sends one mail when run twice", async () => {
    const given = await newCode();
    await run(given);
    await run(given);
    expect(mailbox.messages(given.email)).toHaveLength(1);
  });

  test("sends one mail when run eight times concurrently", async () => {
    const given = await newCode();
    await Promise.all(Array.from({ length: 8 }, () => run(given)));
    await mailbox.waitForMail(given.email);
    expect(mailbox.messages(given.email)).toHaveLength(1);
  });

  test("does not mail a code that was superseded, used or has expired", async () => {
    const older = await newCode();
    const newer = await newCode(older);
    await run(older);
    expect(mailbox.messages(older.email)).toHaveLength(0);
    await sql`update otps set consumed_at = now() where id = ${newer.otpId}`;
    await run(newer);
    const late = await newCode();
    await sql`update otps set expires_at = now() where id = ${late.otpId}`;
    await run(late);
    expect([...mailbox.messages(older.email), ...mailbox.messages(late.email)]).toEqual([]);
  });

  test("fails and is retried while the mail server is down, and sends once when it is back", async () => {
    const given = await newCode();
    for (let attempt = 0; attempt < 3; attempt++) {
      await expect(run(given, "smtp://127.0.0.1:1")).rejects.toThrow();
      expect(await sentAt(given)).toBeNull();
    }
    await run(given);
    await run(given);
    expect(mailbox.messages(given.email)).toHaveLength(1);
  });

  test("refused temporarily (451): the mail stays unsent, and the job fails so that it is retried", async () => {
    const given = await newCode();
    const server = await startServer({
      onRcptTo: (_address, _session, done) => done(Object.assign(new Error("later"), { responseCode: 451 })),
    });
    await expect(run(given, server.url)).rejects.toThrow("temporarily");
    await server.stop();
    expect(await sentAt(given)).toBeNull();
    await run(given);
    expect(mailbox.messages(given.email)).toHaveLength(1);
  });

  test("ends without a mail on a permanent refusal (550)", async () => {
    const given = await newCode();
    const server = await startServer({
      onRcptTo: (_address, _session, done) => done(Object.assign(new Error("nobody"), { responseCode: 550 })),
    });
    await run(given, server.url);
    await server.stop();
    expect(await sentAt(given)).toBeNull();
  });

  test("never resends after the connection broke once the server had the message", async () => {
    const given = await newCode();
    const sockets = new Set<Socket>();
    let taken = 0;
    const server = await startServer({
      onData(stream) {
        stream.on("data", () => {});
        stream.on("end", () => {
          taken += 1;
          for (const socket of sockets) socket.destroy();
        });
      },
    });
    // in front of the server, to cut the connection silently
    const proxy = createServer((near) => {
      const { port } = new URL(server.url);
      const far = Bun.connect({
        hostname: "127.0.0.1",
        port: Number(port),
        socket: {
          data: (_socket, bytes) => void near.write(bytes),
          close: () => void near.destroy(),
        },
      });
      sockets.add(near);
      near.on("data", async (bytes) => void (await far).write(bytes));
      near.on("error", () => {});
    }).listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const address = proxy.address();
    const port = typeof address === "object" && address ? address.port : 0;
    await run(given, `smtp://127.0.0.1:${port}`);
    expect(taken).toBe(1);
    expect(await sentAt(given)).toBeInstanceOf(Date);
    await run(given);
    expect(mailbox.messages(given.email)).toHaveLength(0);
    proxy.close();
    await server.stop();
  });

  test("never resends after a kill -9 while the server holds the message", async () => {
    const given = await newCode();
    const reached = Promise.withResolvers<void>();
    const server = await startServer({
      onData(stream) {
        stream.on("data", () => {});
        stream.on("end", () => reached.resolve());
      },
    });
    const child = Bun.spawn([process.execPath, join(import.meta.dir, "send-one-mail.ts")], {
      env: {
        ...process.env,
        DATABASE_URL: db.url,
        SMTP_URL: server.url,
        OTP_PEPPER: PEPPER,
        OTP_ID: given.otpId,
      },
      stdout: "inherit",
      stderr: "inherit",
    });
    await reached.promise;
    child.kill("SIGKILL");
    await child.exited;
    await server.stop();
    await run(given);
    expect(mailbox.messages(given.email)).toHaveLength(0);
    // and its owner requests another one
    const next = await newCode(given);
    await run(next);
    expect(mailbox.messages(given.email)).toHaveLength(1);
  });

  test("does not let an address add recipients or headers", async () => {
    const given = await newCode();
    const [row] = await sql<{ email: string }[]>`
      update users set email = ${'"a bcc: evil@example.com"@example.com'} where id = ${given.userId} returning email`;
    await run(given).catch(() => undefined);
    expect(mailbox.messages("evil@example.com")).toHaveLength(0);
    expect(row?.email).toContain("evil");
  });
});
