/** The job that mails a receipt: never two for one payment, and none lost that a mail server has only postponed. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { openLog } from "../../core/runtime/log.ts";
import type { Mailer } from "../../worker/mail/mailer.ts";
import { sendReceiptEmail } from "../../worker/mail/send-receipt-email.ts";
import { accepted, type BooksLab, makeTransfer, openBooks, read, undoAbove } from "../support/ledger-lab.ts";
import { seedLink } from "../support/seed.ts";
import { type ScriptedServer, startScriptedServer } from "./scripted-server.ts";

let lab: BooksLab;
let server: ScriptedServer;
let mailer: Mailer;

beforeAll(async () => {
  lab = await openBooks();
  server = await startScriptedServer();
});
beforeEach(() => {
  server.received.length = 0;
  server.reply = "accepts";
  mailer = server.openMailer();
});
afterEach(() => mailer.close());
afterAll(async () => {
  await server?.stop();
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
  expect(server.received).toHaveLength(1);
  expect(server.received[0]?.includes("application/pdf")).toBe(true);
  expect(/\r\nReceipt number: TEST-R-\d{4}-00001\r\n/.test(server.received[0] ?? "")).toBe(true);
  expect(server.received[0]?.includes("logo.png")).toBe(false);
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
  expect(server.received[0]?.includes("logo.png")).toBe(true);
});

test("a receipt that the server refuses temporarily is mailed by a later attempt", async () => {
  const { run } = await paidLink();
  server.reply = "refuses temporarily";
  await expect(run()).rejects.toThrow("temporarily");
  server.reply = "accepts";
  await run();
  expect(server.received).toHaveLength(1);
});

test("a receipt that the server may have, or refuses permanently, is not mailed again", async () => {
  for (const first of ["breaks the connection", "refuses permanently"] as const) {
    const { run } = await paidLink();
    server.reply = first;
    await run();
    server.reply = "accepts";
    server.received.length = 0;
    await run();
    expect(server.received).toHaveLength(0);
  }
});

test("no receipt is mailed for a payment that a reorganisation has removed", async () => {
  const { run } = await paidLink();
  await undoAbove(lab, block - 1);
  await run();
  expect(server.received).toHaveLength(0);
});
