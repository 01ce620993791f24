/** The job that mails a receipt: never two for one payment, and none lost that a mail server has only postponed. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { once } from "node:events";
import type { Socket } from "node:net";
import { SMTPServer } from "smtp-server";
import { openLog } from "../../core/runtime/log.ts";
import { type Mailer, openMailer } from "../../worker/mail/mailer.ts";
import { sendReceiptEmail } from "../../worker/mail/send-receipt-email.ts";
import { accepted, type BooksLab, makeTransfer, openBooks, read, undoAbove } from "../support/ledger-lab.ts";
import { seedLink } from "../support/seed.ts";

const REFUSALS = { "refuses for now": 451, "refuses for good": 550 } as const;
let lab: BooksLab;
let server: SMTPServer;
let mailer: Mailer;
let reply: "accepts" | keyof typeof REFUSALS | "breaks the connection";
const received: string[] = [];
const sockets = new Set<Socket>();

beforeAll(async () => {
  lab = await openBooks();
  server = new SMTPServer({
    ...{ authOptional: true, disabledCommands: ["STARTTLS", "AUTH"], disableReverseLookup: true },
    closeTimeout: 200,
    onRcptTo(_to, _session, done) {
      const responseCode = reply in REFUSALS ? REFUSALS[reply as keyof typeof REFUSALS] : undefined;
      done(responseCode && Object.assign(new Error("no"), { responseCode }));
    },
    onData(stream, _session, done) {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", () => {
        received.push(Buffer.concat(chunks).toString("latin1"));
        if (reply === "accepts") done();
        else for (const socket of sockets) socket.destroy();
      });
    },
  });
  server.on("error", () => {});
  const listener = server.listen(0, "127.0.0.1");
  listener.on("connection", (socket: Socket) => sockets.add(socket));
  await once(listener, "listening");
});
beforeEach(() => {
  received.length = 0;
  reply = "accepts";
  const address = server.server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  mailer = openMailer({ smtpUrl: `smtp://127.0.0.1:${port}`, mailFrom: "no-reply@pay.example.com" });
});
afterEach(() => mailer.close());
afterAll(async () => {
  await new Promise<void>((resolve) => server.close(() => resolve()));
  await lab?.stop();
});

let block = 100;

/** A link with a customer, paid; a function that runs the job of its receipt. */
async function paidLink(): Promise<{ run: () => Promise<void> }> {
  const linkId = await seedLink(lab.sql, lab.merchant);
  await lab.sql`update payment_links set customer_email = 'ada@example.com' where id = ${linkId}`;
  block += 1;
  await read(lab, [makeTransfer(lab, block, { payment: await accepted(lab, linkId) })]);
  const [mail] = await lab.sql<{ id: string }[]>`select id from receipt_mails where link_id = ${linkId}`;
  if (!mail) throw new Error("no receipt is to be mailed");
  const deps = {
    sql: lab.sql,
    mailer,
    log: openLog("test", "silent"),
    config: { baseUrl: "https://pay.example.com" },
  };
  return { run: () => sendReceiptEmail(deps, { receiptId: mail.id }) };
}

test("a receipt is mailed once with its file, however often its job runs and how many workers run it", async () => {
  const { run } = await paidLink();
  await Promise.all([run(), run(), run()]);
  await run();
  expect(received).toHaveLength(1);
  expect(received[0]?.includes("application/pdf")).toBe(true);
  expect(/\r\nReceipt number: TEST-R-\d{4}-00001\r\n/.test(received[0] ?? "")).toBe(true);
  expect(received[0]?.includes("logo.png")).toBe(false);
});

test("the mail of a receipt contains the merchant's logo itself", async () => {
  const { run } = await paidLink();
  const logo = Buffer.from(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=",
    "base64",
  );
  const digest = new Bun.CryptoHasher("md5").update(logo).digest("hex");
  await lab.sql`insert into merchant_pages (user_id, logo, logo_digest) values (${lab.merchant.userId}, ${logo}, ${digest})`;
  await run();
  await lab.sql`delete from merchant_pages`;
  expect(received[0]?.includes("logo.png")).toBe(true);
});

test("a receipt that the server refuses for now is mailed by a later attempt", async () => {
  const { run } = await paidLink();
  reply = "refuses for now";
  await expect(run()).rejects.toThrow("temporarily");
  reply = "accepts";
  await run();
  expect(received).toHaveLength(1);
});

test("a receipt that the server may have, or refuses for good, is not mailed again", async () => {
  for (const first of ["breaks the connection", "refuses for good"] as const) {
    const { run } = await paidLink();
    reply = first;
    await run();
    reply = "accepts";
    received.length = 0;
    await run();
    expect(received).toHaveLength(0);
  }
});

test("no receipt is mailed for a payment that a reorganisation has removed", async () => {
  const { run } = await paidLink();
  await undoAbove(lab, block - 1);
  await run();
  expect(received).toHaveLength(0);
});
