import { expect, test } from "bun:test";
import type { PrintedDocument } from "../../core/domain/numbered-document.ts";
import { renderDocumentPdf } from "../../core/pdf/document-pdf.ts";
import { pdfTexts } from "../exports/read-files.ts";

const PAID_AT = new Date("2026-10-03T09:30:00Z");
const RECEIPT: PrintedDocument = {
  ...{ kind: "RECEIPT", isTest: false, year: 2026, number: 42, receiptNumber: null, network: "base" },
  ...{ txHash: `0x${"3f".repeat(32)}`, amountUnits: 12_500_000n, happenedAt: PAID_AT, issuedAt: PAID_AT },
  ...{ voidedAt: null, voidReason: null },
  facts: {
    issuer: { name: "Aurora", postalAddress: null, taxId: null, email: "books@aurora.example" },
    ...{ timeZone: "UTC", linkId: "link_P72OKQub5BzTCjbZTmgPD0", paymentId: null },
    ...{
      transactionId: "txn_P72OKQub5BzTCjbZTmgPD0",
      description: "Two coffees",
      reference: null,
      reason: null,
    },
    ...{ payer: `0x${"5c".repeat(20)}`, recipient: `0x${"a7".repeat(20)}`, blockNumber: 1_234_567 },
  },
};

test("a sentence that begins with USDC is read from right to left in an Arabic document", async () => {
  const pdf = await renderDocumentPdf(RECEIPT, { accent: null, logo: undefined, language: "ar" });
  const texts = pdfTexts(pdf).map((text) => text.trim());
  // drawn from left to right: the sentence's first word comes last
  expect(texts.at(-1)).toBe("USDC");
});
