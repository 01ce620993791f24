/**
 * `bun tests/documents/pictures.ts [FOLDER]`: pictures of what reaches customers and books as a file or a mail: receipt, credit note, statement
 * (needs `pdftoppm`, Debian: poppler-utils), and each mail on a phone and a desk. Look at them before a release.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ExportRow } from "../../core/domain/export.ts";
import { renderInvitationMail } from "../../core/domain/invitation-mail.ts";
import { LANGUAGE_TAGS } from "../../core/domain/language.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { PrintedDocument } from "../../core/domain/numbered-document.ts";
import { renderOtpMail } from "../../core/domain/otp-mail.ts";
import type { Receipt } from "../../core/domain/receipt.ts";
import { type ReceiptMailFrame, renderReceiptMail } from "../../core/domain/receipt-mail.ts";
import { changeOf, type StatementHead, type StatementLine } from "../../core/domain/statement.ts";
import { renderWalletFileMail } from "../../core/domain/wallet-file-mail.ts";
import { renderDocumentPdf } from "../../core/pdf/document-pdf.ts";
import { renderStatementPdf } from "../../worker/exports/statement/statement-pdf.ts";
import { launchBrowser } from "../checkout/browser.ts";
import { roundLogo } from "../checkout/make-png.ts";

const SIZES = { phone: 390, desk: 720 } as const;
const DOTS_PER_INCH = "90";
const ACCENT = "#c41e5a";
const BASE_URL = "https://pay.cafe-aurora.example";
const LONG = "Two coffees, a cinnamon roll and a bag of beans (250 g), ground for a filter, in the blue tin";
const hash = (digits: string): Hex => `0x${digits.repeat(64).slice(0, 64)}`;
const address = (digits: string): Hex => `0x${digits.repeat(40).slice(0, 40)}`;
const day = (number: number) => new Date(Date.UTC(2026, 9, number, 9, 30));

const folder = process.argv[2] ?? ".data/pictures/documents";
mkdirSync(folder, { recursive: true });
const logo = roundLogo();
const issuer = {
  name: "Café Aurora GmbH",
  postalAddress: "Hauptstraße 1\n10115 Berlin",
  taxId: "DE123456789",
  email: "books@cafe-aurora.example",
};
const receipt: PrintedDocument = {
  ...{
    kind: "RECEIPT",
    isTest: true,
    year: 2026,
    number: 42,
    network: "base-sepolia",
    txHash: hash("3fa9c"),
  },
  ...{ amountUnits: 12_500_000n, happenedAt: day(3), issuedAt: day(3), voidedAt: null, voidReason: null },
  receiptNumber: null,
  facts: {
    ...{ issuer, timeZone: "Europe/Berlin", linkId: "link_P72OKQub5BzTCjbZTmgPD0", paymentId: null },
    ...{ transactionId: "txn_P72OKQub5BzTCjbZTmgPD0", description: LONG, reference: "2026-1047" },
    ...{ reason: null, payer: address("5c1e"), recipient: address("a70b"), blockNumber: 1_234_567 },
  },
};
const credit: PrintedDocument = {
  ...receipt,
  ...{ kind: "CREDIT_NOTE", number: 7, receiptNumber: "TEST-R-2026-00042" },
  facts: { ...receipt.facts, reason: "One coffee was cold" },
};
const large: PrintedDocument = {
  ...receipt,
  ...{ amountUnits: 1_234_567_890_123_456n, voidedAt: day(4), voidReason: "REORGANISED" },
  facts: { ...receipt.facts, description: "W".repeat(500), issuer: { ...issuer, name: "W".repeat(60) } },
};
const plain = { accent: null, logo: undefined, language: "en" } as const;
const looks = { accent: ACCENT, logo, language: "en" } as const;
await drawPdf("receipt", await renderDocumentPdf(receipt, plain));
await drawPdf("receipt-logo", await renderDocumentPdf(receipt, looks));
await drawPdf("receipt-arabic", await renderDocumentPdf(receipt, { ...looks, language: "ar" }));
await drawPdf("receipt-void-large", await renderDocumentPdf(large, looks));
await drawPdf("credit-note", await renderDocumentPdf(credit, { ...looks, language: "de" }));
await drawPdf("statement", await statement(1n));
await drawPdf("statement-large", await statement(100_000_003n));
await drawMails();
process.exit(0);

async function drawPdf(name: string, bytes: Uint8Array): Promise<void> {
  const file = join(folder, `${name}.pdf`);
  writeFileSync(file, bytes);
  const { exitCode, stderr } = Bun.spawnSync([
    "pdftoppm",
    "-r",
    DOTS_PER_INCH,
    "-png",
    file,
    join(folder, name),
  ]);
  if (exitCode !== 0) throw new Error(stderr.toString());
}

/** Of thirty movements, with amounts times `factor`. */
async function statement(factor: bigint): Promise<Uint8Array> {
  const rows = Array.from({ length: 30 }, (_, index) => movement(index, factor));
  let balanceUnits = 0n;
  const lines: StatementLine[] = rows.map((row) => {
    const changeUnits = changeOf(row);
    balanceUnits += changeUnits;
    return { row, changeUnits, balanceUnits };
  });
  const count = (kind: ExportRow["kind"]) => {
    const found = rows.filter((row) => row.kind === kind);
    return { kind, count: found.length, units: found.reduce((sum, row) => sum + row.amountUnits, 0n) };
  };
  const head: StatementHead = {
    ...{ issuer, network: "base-sepolia", walletId: "wallet", walletAddress: address("a70b") },
    ...{ timeZone: "Europe/Berlin", from: day(1), before: day(31), isFinal: true, generatedAt: day(31) },
    ...{ openingUnits: 0n, closingUnits: balanceUnits, movements: rows.length },
    totals: [count("PAYMENT"), count("SEND")],
    check: {
      ...{ outcome: "equal", balanceUnits },
      block: { number: 1_234_567, hash: hash("b10c"), time: day(31) },
    },
    valuation: undefined,
  };
  async function* batches() {
    yield lines;
  }
  const pieces: Uint8Array[] = [];
  for await (const piece of renderStatementPdf(head, batches())) pieces.push(piece);
  return Buffer.concat(pieces);
}

function movement(index: number, factor: bigint): ExportRow {
  const isOut = index % 7 === 6;
  return {
    ...{ id: `txn_${index}`, network: "base-sepolia", type: isOut ? "SEND" : "RECEIVE", status: "CONFIRMED" },
    ...{
      amountUnits: BigInt(3_450_000 + 111_111 * index) * factor,
      counterparty: address(`${index % 10}c1e`),
    },
    ...{ description: index % 3 === 0 ? LONG : "Order", txHash: hash(`${index % 10}fa9c`), logIndex: index },
    ...{
      blockNumber: BigInt(1_000 + index),
      linkId: null,
      reference: index % 2 ? `2026-${1_000 + index}` : null,
    },
    ...{
      detectedAt: day(1 + index),
      confirmedAt: day(1 + index),
      walletAddress: address("a70b"),
      feeWei: null,
    },
    ...{ isFinalized: true, customerEmail: null, orderMetadata: null, kind: isOut ? "SEND" : "PAYMENT" },
    ...{ refundOf: null, feeUnits: null },
  } as ExportRow;
}

async function drawMails(): Promise<void> {
  const paid: Receipt = {
    ...{
      linkId: "link_P72OKQub5BzTCjbZTmgPD0",
      paymentId: null,
      transactionId: "txn_P72OKQub5BzTCjbZTmgPD0",
    },
    ...{ network: "base-sepolia", merchantName: "Café Aurora", description: LONG, reference: "2026-1047" },
    ...{ metadata: {}, customerEmail: "ada@example.com", payer: address("5c1e"), recipient: address("a70b") },
    ...{ amountUnits: 12_500_000n, refundedUnits: 0n, txHash: hash("3fa9c"), logIndex: 3 },
    ...{ blockNumber: 1_234_567n, paidAt: day(3), settledBy: "authorization" },
  };
  const frame: ReceiptMailFrame = {
    ...{ baseUrl: BASE_URL, documentNumber: "TEST-R-2026-00042", language: "en", timeZone: "Europe/Berlin" },
    ...{ logoId: undefined, accent: null },
  };
  const marked = { ...frame, logoId: "logo", accent: ACCENT };
  const arabic = { ...paid, merchantName: "مقهى الشفق", description: "قهوتان (250 غ)" };
  const picture = `data:image/png;base64,${logo.toString("base64")}`;
  const mails = {
    receipt: renderReceiptMail(paid, frame),
    "receipt-logo": renderReceiptMail(paid, marked),
    ...Object.fromEntries(
      LANGUAGE_TAGS.map((language) => [
        `receipt-${language}`,
        renderReceiptMail(paid, { ...marked, language }),
      ]),
    ),
    "receipt-ar-arabic": renderReceiptMail(arabic, { ...marked, language: "ar" }),
    "receipt-en-arabic": renderReceiptMail(arabic, frame),
    code: renderOtpMail({ code: "402817", baseUrl: BASE_URL }),
    invitation: renderInvitationMail(
      { merchantName: "Café Aurora", role: "accountant", email: "ada@example.com" },
      BASE_URL,
    ),
    "wallet-file": renderWalletFileMail({ address: address("a70b"), baseUrl: BASE_URL }),
  };
  const browser = await launchBrowser();
  const page = await browser.newPage();
  for (const [name, { html, text, subject }] of Object.entries(mails)) {
    writeFileSync(join(folder, `mail-${name}.txt`), `Subject: ${subject}\n\n${text}`);
    await page.setContent(html.replace("cid:logo", picture));
    for (const [size, width] of Object.entries(SIZES)) {
      await page.setViewportSize({ width, height: 600 });
      await page.screenshot({ path: join(folder, `mail-${name}-${size}.png`), fullPage: true });
    }
  }
  await browser.close();
}
