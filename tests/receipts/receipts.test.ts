/** Receipts of paid links: JSON, page and PDF, for merchant and payer, and by mail for the customer. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { getAddress } from "viem";
import { chooseFormat } from "../../api/receipts/receipt-format.ts";
import { RECEIPT_MAILS_PER_DAY } from "../../core/domain/receipt.ts";
import { noteReceiptMails } from "../../db/links/receipts.ts";
import { fetchFile } from "../exports/ask.ts";
import { pdfPageCount, pdfTexts } from "../exports/read-files.ts";
import { type PayerSide, startPayerSide, waitFor } from "../links/payer-side.ts";
import { sendUsdc } from "../links/payers.ts";
import { openClient } from "../support/http-client.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

const LINKS = "/v1/payment-links";
const PUBLIC = "/api/v1/public/payment-links";

let side: PayerSide;
let bob: Merchant;
let paid: { id: string; hash: string };
const order = {
  reference: "R-77",
  description: "Two coffees & a <book>",
  metadata: { cart: "c9" },
  customerEmail: "carla@customer.example",
};

beforeAll(async () => {
  side = await startPayerSide();
  bob = await signUp(side.world.baseUrl);
  paid = await payNew({ amount: 12.5, ...order });
}, 120_000);
afterAll(() => side?.world.stop());

async function payNew(fields: Record<string, unknown> & { amount: number }) {
  const { status, body } = await side.ann.client.post(LINKS, { description: "Order", ...fields });
  expect(status).toBe(201);
  const hash = await sendUsdc(side.rpcUrl, side.payer, side.wallet, BigInt(Math.round(fields.amount * 1e6)));
  await side.waitForStatus(body.id, "PAID");
  return { id: body.id as string, hash: hash as string };
}

const stranger = () => openClient(side.world.baseUrl);
const mailsTo = (address: string) => side.world.mailbox.messages(address);

describe("the receipt of a paid link", () => {
  test("as JSON states who paid whom how much for what; customer and metadata are shown only to the merchant", async () => {
    const own = await side.ann.client.get(`${LINKS}/${paid.id}/receipt`);
    expect(own.status).toBe(200);
    const facts = {
      linkId: paid.id,
      status: "PAID",
      paymentId: null,
      description: order.description,
      reference: "R-77",
      amount: 12.5,
      currency: "USDC",
      refundedAmount: 0,
      network: "base-sepolia",
      payer: getAddress(side.payer),
      recipient: getAddress(side.wallet),
      transactionHash: paid.hash,
      settledBy: "amount",
    };
    expect(own.body).toMatchObject({
      ...facts,
      customerEmail: order.customerEmail,
      metadata: order.metadata,
    });
    const { body } = await side.ann.client.get(`/v1/transactions?search=${paid.hash}`);
    expect(own.body.transactionId).toBe(body.data.transactions[0].id);
    const shown = await stranger().get(`${PUBLIC}/${paid.id}/receipt`);
    expect(shown.body).toMatchObject(facts);
    expect(shown.body).not.toHaveProperty("customerEmail");
    expect(shown.body).not.toHaveProperty("metadata");
  });

  test("is selected by transaction or payment, and unknown for another's", async () => {
    const { transactionId } = (await stranger().get(`${PUBLIC}/${paid.id}/receipt`)).body;
    const by = (query: string) => stranger().get(`${PUBLIC}/${paid.id}/receipt?${query}`);
    expect((await by(`transactionId=${transactionId}`)).status).toBe(200);
    expect((await by("transactionId=txn_other")).status).toBe(404);
    expect((await by("paymentId=pay_other")).status).toBe(404);
    expect((await by("format=xml")).status).toBe(400);
    expect((await bob.client.get(`${LINKS}/${paid.id}/receipt`)).status).toBe(404);
    expect((await stranger().get(`${LINKS}/${paid.id}/receipt`)).status).toBe(401);
    expect((await stranger().get(`${PUBLIC}/link_AAAAAAAAAAAAAAAAAAAAAA/receipt`)).status).toBe(404);
  });

  test("does not exist before the link is PAID: 409 naming the status", async () => {
    const { body } = await side.ann.client.post(LINKS, { amount: 999, description: "Open" });
    for (const answer of [
      await stranger().get(`${PUBLIC}/${body.id}/receipt`),
      await side.ann.client.get(`${LINKS}/${body.id}/receipt`),
    ])
      expect([answer.status, answer.body.error.details]).toEqual([409, { field: "status", issue: "ACTIVE" }]);
    expect((await fetch(`${side.world.baseUrl}/pay/${body.id}/receipt`)).status).toBe(409);
    // the moment it is not PAID any more there is none
    await side.world.sql`update payment_links set status = 'PENDING', paid_at = null where id = ${paid.id}`;
    expect((await stranger().get(`${PUBLIC}/${paid.id}/receipt`)).status).toBe(409);
    await side.world.sql`update payment_links set status = 'PAID', paid_at = now() where id = ${paid.id}`;
    expect((await stranger().get(`${PUBLIC}/${paid.id}/receipt`)).status).toBe(200);
  });

  test("as a page reads in the reader's language, escaped, without script, and is linked from the payment page", async () => {
    const page = await fetchFile(stranger(), `/pay/${paid.id}/receipt?lang=de`);
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(page.text).toContain("Gezahlter Betrag");
    const { documentNumber } = (await stranger().get(`${PUBLIC}/${paid.id}/receipt`)).body;
    expect(documentNumber).toStartWith("TEST-R-");
    expect(page.text).toContain(`<dt>Quittungsnummer</dt><dd><bdi>${documentNumber}</bdi></dd>`);
    expect(page.text).toContain("12,50 USDC");
    expect(page.text).toContain("Two coffees &amp; a &lt;book&gt;");
    expect(page.text).toContain(paid.hash);
    expect(page.text).not.toContain("<script");
    expect(page.text).not.toContain(order.customerEmail);
    const own = await fetchFile(side.ann.client, `${LINKS}/${paid.id}/receipt`, {
      headers: { accept: "text/html,*/*;q=0.8" },
    });
    expect(own.text).toContain(order.customerEmail);
    const pay = await fetchFile(stranger(), `/pay/${paid.id}?lang=en`);
    expect(pay.text).toContain(`href="/pay/${paid.id}/receipt"`);
    expect((await fetch(`${side.world.baseUrl}/pay/link_AAAAAAAAAAAAAAAAAAAAAA/receipt`)).status).toBe(404);
  });

  test("as PDF is one page with every fact, even for the longest order in any script", async () => {
    const pdf = await fetchFile(stranger(), `${PUBLIC}/${paid.id}/receipt?format=pdf`);
    expect(pdf.headers.get("content-type")).toBe("application/pdf");
    expect(pdfPageCount(pdf.bytes)).toBe(1);
    const texts = pdfTexts(pdf.bytes).join("\n");
    for (const text of ["12.50 USDC", "R-77", "Two coffees & a <book>", paid.hash, paid.id])
      expect(texts).toContain(text);
    expect(texts).not.toContain(order.customerEmail);
    const long = await payNew({ amount: 3.25, description: "界".repeat(500), reference: "W".repeat(100) });
    const big = await fetchFile(side.ann.client, `${LINKS}/${long.id}/receipt`, {
      headers: { accept: "application/pdf" },
    });
    expect([big.status, pdfPageCount(big.bytes)]).toEqual([200, 1]);
    expect(pdfTexts(big.bytes).join("")).toContain(long.hash);
  }, 120_000);
});

describe("the mail with the receipt", () => {
  test("reaches the customer once, with facts, link and PDF", async () => {
    const mail = await waitFor("the mail", async () => mailsTo(order.customerEmail)[0]);
    expect(mail.subject).toBe(`Receipt: 12.50 USDC to ${side.ann.email.split("@")[0]}`);
    expect(mail.text).toContain(`Transaction: ${paid.hash}`);
    // the PDF is attached
    expect(mail.headers["content-type"]).toStartWith("multipart/mixed");
    expect(mail.text).toContain("For: Two coffees & a <book>");
    const url = /Receipt: (http\S+)/.exec(mail.text)?.[1] ?? "";
    expect((await fetch(url)).status).toBe(200);
    const [row] = await side.world.sql<
      { id: string }[]
    >`select id from receipt_mails where link_id = ${paid.id}`;
    // the job again, as after a crash behind the hand-over
    await side.world.sql`
      select graphile_worker.add_job('send_receipt_email', ${JSON.stringify({ receiptId: row?.id })}::text::json)`;
    await waitFor("the queue to be empty", async () => {
      const jobs = await side.world.sql`
        select 1 from graphile_worker.jobs where task_identifier = 'send_receipt_email'`;
      return jobs.length === 0;
    });
    expect(mailsTo(order.customerEmail)).toHaveLength(1);
  }, 120_000);

  test("is in the language of the receipt, and so is the page it links to", async () => {
    const speak = (documentLanguage: string) =>
      side.ann.client.patch("/v1/settings/books", { documentLanguage });
    await speak("ar");
    const customerEmail = "layla@customer.example";
    await payNew({ amount: 6.5, customerEmail });
    const mail = await waitFor("the mail", async () => mailsTo(customerEmail)[0]);
    await speak("en");
    expect(mail.subject).toBe(`إيصال: 6.50 USDC إلى ${side.ann.email.split("@")[0]}`);
    expect(mail.html).toContain('<html lang="ar" dir="rtl">');
    const url = /إيصال: (http\S+)/.exec(mail.text)?.[1] ?? "";
    const page = await fetch(url, { headers: { "accept-language": "en" } });
    expect([page.status, await page.text()]).toEqual([
      200,
      expect.stringContaining('<html lang="ar" dir="rtl">'),
    ]);
    const [receipt] = (await side.ann.client.get("/v1/documents?limit=1")).body.documents;
    expect(receipt.language).toBe("ar");
    expect(mail.text).toContain(`رقم الإيصال: ${receipt.number}\n`);
    expect(mail.attachments.map(({ filename }) => filename)).toEqual([`${receipt.number}.pdf`]);
  }, 120_000);

  test("is queued once per link and transaction, for PAID links with a customer, within the merchant's daily maximum", async () => {
    const { sql } = side.world;
    const note = (id: string) => sql.begin((tx) => noteReceiptMails(tx, [id]));
    expect(await note(paid.id)).toEqual([]);
    const without = await payNew({ amount: 4.5 });
    expect(await note(without.id)).toEqual([]);
    const fill = (count: number) => sql`
      insert into receipt_mails (link_id, user_id, tx_hash, log_index)
      select ${without.id}, ${side.ann.userId}, 'filled ' || n, 0
      from generate_series(1, ${count}::int) n`;
    const [{ count } = { count: 0 }] = await sql<{ count: number }[]>`
      select count(*)::int as count from receipt_mails where user_id = ${side.ann.userId}`;
    await fill(RECEIPT_MAILS_PER_DAY - count);
    const over = await payNew({ amount: 5.5, customerEmail: "over@customer.example" });
    expect(await sql`select 1 from receipt_mails where link_id = ${over.id}`).toHaveLength(0);
    await sql`delete from receipt_mails where tx_hash = 'filled 1'`;
    expect(await note(over.id)).toHaveLength(1);
    await sql`delete from receipt_mails where link_id = ${over.id}`;
    await sql`update payment_links set status = 'PENDING', paid_at = null where id = ${over.id}`;
    expect(await note(over.id)).toEqual([]);
  }, 120_000);
});

test.each([
  ["", "json"],
  ["*/*", "json"],
  ["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "html"],
  ["application/pdf", "pdf"],
  ["text/html;q=0.5, application/pdf;q=0.6", "pdf"],
  ["text/html;q=0, application/json;q=0.1", "json"],
] as const)("Accept %p chooses %s", (accept, format) => {
  expect(chooseFormat(undefined, accept)).toBe(format);
  expect(chooseFormat("pdf", accept)).toBe("pdf");
});
