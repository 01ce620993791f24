/** The mail with a receipt says everything in each language, and its headers are ones that every mail program reads. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { once } from "node:events";
import { SMTPServer } from "smtp-server";
import texts from "../../core/domain/document-texts.json" with { type: "json" };
import { LANGUAGE_TAGS, type Language } from "../../core/domain/language.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Receipt } from "../../core/domain/receipt.ts";
import { renderReceiptMail } from "../../core/domain/receipt-mail.ts";
import { parseMailMessage } from "../../local/mailbox/mail-message.ts";
import { openMailer } from "../../worker/mail/mailer.ts";

const hash: Hex = `0x${"3fa9c".repeat(13).slice(0, 64)}`;
const [payer, recipient]: Hex[] = [`0x${"5c1e".repeat(10)}`, `0x${"a70b".repeat(10)}`];
const receipt: Receipt = {
  ...{ linkId: "link_P72OKQub5BzTCjbZTmgPD0", paymentId: null, transactionId: "txn_P72OKQub5BzTCjbZTmgPD0" },
  ...{ network: "base-sepolia", merchantName: "Café Aurora", description: "Two coffees", metadata: {} },
  ...{ reference: "2026-1047", customerEmail: "ada@example.com", payer: payer as Hex },
  ...{ recipient: recipient as Hex, amountUnits: 1_012_500_000n, refundedUnits: 2_500_000n, txHash: hash },
  ...{ logIndex: 3, blockNumber: 1_234_567n, paidAt: new Date("2026-10-03T09:30:00Z"), settledBy: "tag" },
};
const URL_OF_RECEIPT = `https://pay.example.com/pay/${receipt.linkId}/receipt?transactionId=${receipt.transactionId}`;
const OTHERS = LANGUAGE_TAGS.filter((language) => language !== "en");

function render(language: Language, more: Partial<Receipt> = {}) {
  return renderReceiptMail(
    { ...receipt, ...more },
    {
      ...{ baseUrl: "https://pay.example.com", logoId: undefined, accent: null },
      ...{ documentNumber: "R-2026-00042", language, timeZone: "Europe/Berlin" },
    },
  );
}

describe("the words", () => {
  const placesOf = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(([place]) => place).toSorted();
  /** `[path, text]` of every text. */
  const flat = (words: object): [string, string][] =>
    Object.entries(words).flatMap(([name, value]) =>
      typeof value === "string"
        ? [[name, value] as [string, string]]
        : flat(value).map(([inner, text]): [string, string] => [`${name}.${inner}`, text]),
    );

  test("are in the languages of the payment page", () => {
    expect(Object.keys(texts).toSorted()).toEqual([...LANGUAGE_TAGS].toSorted());
  });

  test.each(OTHERS)("are as many in %s as in English, none empty, with the same placeholders", (language) => {
    const [own, english] = [flat(texts[language]), flat(texts.en)];
    expect(own.map(([name, text]) => [name, placesOf(text)])).toEqual(
      english.map(([name, text]) => [name, placesOf(text)]),
    );
    expect(own.filter(([, text]) => text.trim() === "" || text !== text.trim())).toEqual([]);
  });

  test.each(OTHERS)("of the mail in %s are not a copy of English", (language) => {
    const { line: _line, ...own } = texts[language].mail;
    const english = Object.values(texts.en.mail);
    expect(Object.values(own).filter((text) => english.includes(text))).toEqual([]);
  });
});

describe("the mail", () => {
  test("in English", () => {
    const { subject, text } = render("en");
    expect(subject).toBe("Receipt: 1,012.50 USDC to Café Aurora");
    expect(text).toBe(`Your payment of 1,012.50 USDC to Café Aurora has been confirmed.
Test network. No real money.

Receipt number: R-2026-00042
Paid to: Café Aurora
For: Two coffees
Reference: 2026-1047
Amount paid: 1,012.50 USDC
Amount refunded: 2.50 USDC
Paid on: October 3, 2026 at 11:30:00 GMT+2
Network: Base Sepolia (84532)
From address: ${payer}
To address: ${recipient}
Transaction: ${hash}
Block: 1234567
Payment link: ${receipt.linkId}
Transaction ID: ${receipt.transactionId}

Receipt: ${URL_OF_RECEIPT}&lang=en

You are receiving this e-mail because Café Aurora gave your address with this order. Nobody will ask you to pay again.
`);
  });

  test.each([
    ["de", "Quittung: 1.012,50 USDC an Café Aurora", "Bezahlt am: 3. Oktober 2026 um 11:30:00 MESZ"],
    ["pt-BR", "Recibo: 1.012,50 USDC para Café Aurora", "Número do recibo: R-2026-00042"],
    ["fr", "Reçu\u00a0: 1\u202f012,50 USDC à Café Aurora", "Réseau\u00a0: Base Sepolia (84532)"],
    ["ar", "إيصال: 1,012.50 USDC إلى Café Aurora", "رقم الإيصال: R-2026-00042"],
    ["zh-Hans", "收据：向 Café Aurora 付款 1,012.50 USDC", "收款方：Café Aurora"],
  ] as const)("in %s has its own subject, amount, time and punctuation", (language, subject, line) => {
    const mail = render(language);
    expect(mail.subject).toBe(subject);
    expect(mail.text.split("\n")).toContain(line);
  });

  test("of real money does not mention a test network", () => {
    const { text, html } = render("en", { network: "base" });
    for (const part of [text, html]) expect(part).not.toContain("Test network");
    expect(render("en").html).toContain("Test network. No real money.");
  });

  test.each(LANGUAGE_TAGS)("in %s has every fact and no unfilled placeholder", (language) => {
    const { subject, text, html } = render(language);
    const { mail, ...words } = texts[language];
    for (const part of [text, html]) {
      for (const value of ["R-2026-00042", "Two coffees", "2026-1047", "1234567", payer, recipient, hash])
        expect(part).toContain(value as string);
      for (const name of [mail.number, mail.paidTo, words.amountPaid, words.amountRefunded, words.paidOn])
        expect(part).toContain(name);
    }
    expect(`${subject}${text}${html}`).not.toMatch(/undefined|null|\{\w+\}/);
    expect(text).toContain(`${URL_OF_RECEIPT}&lang=${language}\n`);
    expect(html).toContain(`href="${URL_OF_RECEIPT.replace("&", "&#38;")}&#38;lang=${language}"`);
    const direction = language === "ar" ? "rtl" : "ltr";
    expect(html.split(`lang="${language}" dir="${direction}"`)).toHaveLength(3);
    expect(html.split(`text-align:${language === "ar" ? "left" : "right"}`)).toHaveLength(1);
  });

  test("does not mention a refund while there is none, and shows a logo only if there is one", () => {
    const { text, html } = render("en", { refundedUnits: 0n, reference: null });
    expect(text).not.toMatch(/refunded|Reference|null|false/);
    expect(html).not.toContain("<img");
    const frame = { baseUrl: "https://pay.example.com", accent: null, documentNumber: undefined };
    const mail = renderReceiptMail(receipt, { ...frame, logoId: "logo@1", language: "en", timeZone: "UTC" });
    expect(mail.html).toContain('<img src="cid:logo@1"');
    expect(mail.text).not.toContain("Receipt number");
  });

  test("shows a merchant's text in a direction of its own, isolated from the rest", () => {
    const merchantName = "\u202eevil\u2067 <b>&\r\nBcc: x@example.com {amount} $& \u0645\u0642\u0647\u0649";
    const { subject, text, html } = render("en", { merchantName });
    const shown = "evil <b>& Bcc: x@example.com {amount} $& \u0645\u0642\u0647\u0649";
    expect(subject).toBe(`Receipt: 1,012.50 USDC to ${shown}`);
    expect(text).toContain(`Paid to: ${shown}\n`);
    const escaped = shown.replace("&", "&#38;").replace("<b>", "&#60;b&#62;").replace("$&", "$&#38;");
    expect(html).toContain(` to <bdi>${escaped}</bdi> has been confirmed.`);
    expect(html).not.toContain("<b>");
  });
});

describe("the headers", () => {
  let received: Buffer[] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS"],
    onData(stream, _session, done) {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", () => {
        received.push(Buffer.concat(chunks));
        done();
      });
    },
  });
  let smtpUrl = "";
  beforeAll(async () => {
    const listener = server.listen(0, "127.0.0.1");
    await once(listener, "listening");
    const address = listener.address();
    smtpUrl = `smtp://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
  });
  afterAll(() => new Promise<void>((resolve) => server.close(() => resolve())));

  async function send(mail: { subject: string; text: string; html: string }): Promise<Buffer> {
    received = [];
    const mailer = openMailer({ smtpUrl, mailFrom: "USDC Payments <no-reply@pay.example.com>" });
    const connection = await mailer.connect();
    const attachments = [
      { filename: "R-2026-00042.pdf", content: Buffer.from("%PDF"), contentType: "application/pdf" },
    ];
    const messageId = "<rcp_1@pay.example.com>";
    const delivery = await connection.deliver({ ...mail, to: "ada@example.com", messageId, attachments });
    expect(delivery).toEqual({ outcome: "accepted" });
    connection.close();
    mailer.close();
    expect(received).toHaveLength(1);
    return received[0] as Buffer;
  }

  test.each(
    LANGUAGE_TAGS.flatMap((language) => [
      [language, "Café Aurora"] as const,
      [language, "咖啡館 مقهى 🧁 Ünîcödé ".repeat(5).trim()] as const,
    ]),
  )(
    "in %s for %s are ASCII in short lines, and each encoded word is complete",
    async (language, merchantName) => {
      const mail = render(language, { merchantName });
      const raw = await send(mail);
      const head = raw.subarray(0, raw.indexOf("\r\n\r\n")).toString("latin1");
      expect(head).toMatch(/^[\x20-\x7e\r\n\t]+$/);
      const lines = head.split("\r\n");
      // RFC 5322, 2.1.1, and RFC 2047, 2
      expect(lines.filter((line) => line.length > 78)).toEqual([]);
      const subject = /^Subject: (.*(?:\r\n[ \t].*)*)/im.exec(head)?.[1] ?? "";
      const words = subject.split(/\s+/).filter((word) => word.startsWith("=?"));
      expect(words.length).toBeGreaterThan(0);
      for (const word of words) {
        expect(word.length).toBeLessThanOrEqual(75);
        expect(decodeWord(word)).not.toBe("");
      }
      const read = await parseMailMessage(raw, ["ada@example.com"]);
      expect(read.subject).toBe(mail.subject);
      expect(read.text.replaceAll("\r\n", "\n").trimEnd()).toBe(mail.text.trimEnd());
      expect(read.html.replaceAll("\r\n", "\n").trimEnd()).toBe(mail.html.trimEnd());
      expect(read.attachments.map(({ filename }) => filename)).toEqual(["R-2026-00042.pdf"]);
    },
  );

  test("in English for a plain name are not encoded", async () => {
    const raw = await send(render("en", { merchantName: "Ann" }));
    expect(raw.toString("latin1")).toContain("\r\nSubject: Receipt: 1,012.50 USDC to Ann\r\n");
  });
});

/** RFC 2047: each word has whole characters, so it can be decoded by itself. */
function decodeWord(word: string): string {
  const [, charset, way, text = ""] = /^=\?([^?]+)\?([QB])\?([^?]*)\?=$/i.exec(word) ?? [];
  expect(charset?.toLowerCase()).toBe("utf-8");
  const bytes =
    way?.toUpperCase() === "B"
      ? Buffer.from(text, "base64")
      : Buffer.from(
          text
            .replaceAll("_", " ")
            .replace(/=([0-9A-F]{2})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16))),
          "latin1",
        );
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}
