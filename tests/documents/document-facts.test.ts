/** Facts of documents as they are stored: short, and by name as earlier versions wrote them. */
import { describe, expect, test } from "bun:test";
import { readFacts, shortenFacts } from "../../core/domain/document-facts.ts";
import type { DocumentFacts } from "../../core/domain/numbered-document.ts";

const LINK = "link_0Q-aUe6GmJ3eVd1H9bqkWcZ";
const FACTS: DocumentFacts = {
  issuer: { name: "ann", postalAddress: null, taxId: null, email: "ann@example.com" },
  timeZone: "UTC",
  linkId: LINK,
  paymentId: "pay_0Q-aUe6GmJ3eVd1H9bqkWcZ",
  transactionId: "txn_0Q-aUe6GmJ3eVd1H9bqkWcZ",
  description: "Order 7",
  reference: null,
  reason: null,
  payer: "0x00000000000000000000000000000000000000ff",
  recipient: "0xfb7cb4fa1b0d6ff9dd4a3f3f0a7dbbe2d3c1a0fe",
  blockNumber: 41_234_567,
};

describe("short facts", () => {
  test("of a usual payment leave out field names, what the row already holds, and missing values", () => {
    expect(shortenFacts(FACTS, LINK)).toEqual([
      ...["ann", "ann@example.com", "Order 7", FACTS.paymentId, "AAAAAAAAAAAAAAAAAAAAAAAAAP8"],
      ...["-3y0-hsNb_ndSj8_Cn274tPBoP4", 41_234_567],
    ]);
  });

  test.each<[string, Partial<DocumentFacts>]>([
    ["of a usual payment", {}],
    ["in another zone", { timeZone: "Europe/Berlin" }],
    ["of a reusable link", { linkId: "link_another" }],
    ["of a transfer without a payment", { paymentId: null }],
    ["of a transfer without payment and history", { paymentId: null, transactionId: null }],
    ["of a payment without history", { transactionId: null }],
    ["of a refund", { paymentId: null, transactionId: "txn_other", reason: "Scratched", reference: "A-1" }],
    ["of a company", { issuer: { name: "Ä & Ö", postalAddress: "1\n2", taxId: "DE1", email: "a@b.de" } }],
    ["with empty texts", { description: "", reference: "" }],
  ])("%s are read back unchanged", (_, given) => {
    const facts = { ...FACTS, ...given };
    expect(readFacts(JSON.parse(JSON.stringify(shortenFacts(facts, LINK))), LINK)).toEqual(facts);
  });

  test("stored by name are read unchanged", () => {
    expect(readFacts(FACTS, "link_another")).toEqual(FACTS);
  });
});
