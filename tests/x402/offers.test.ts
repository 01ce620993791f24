/** What the service signs: offers for payable links, receipts for payments that a block holds, and nothing else. */
import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { verifyReceiptSignatureJWS } from "@x402/extensions/offer-receipt";
import { openOfferSigner } from "../../api/x402/offers.ts";
import type { PayResult } from "../../api/x402/pay-link.ts";
import { present } from "../../api/x402/present.ts";
import { openJwsSigner } from "../../core/domain/jws.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { PaymentView } from "../../db/payments/payments.ts";

const OLD = "1f".repeat(32);
const NEW = "2e".repeat(32);
const BASE_URL = "https://pay.example.com";
const RESOURCE = `${BASE_URL}/v1/x402/link_AAAAAAAAAAAAAAAAAAAAAA`;
const PAYER: Hex = `0x${"ab".repeat(20)}`;
const TX_HASH: Hex = `0x${"cd".repeat(32)}`;

type Document = { verificationMethod: { id: string; publicKeyJwk: Jwk }[]; assertionMethod: string[] };
type Jwk = Exclude<Parameters<typeof verifyReceiptSignatureJWS>[1], undefined>;

const kidOf = (jws: string): string =>
  JSON.parse(Buffer.from(jws.split(".")[0] ?? "", "base64url").toString()).kid;

/** As a verifier does: by the id in the signature, in the document that the service publishes now. */
function verify(jws: string, { verificationMethod }: Document) {
  const method = verificationMethod.find(({ id }) => id === kidOf(jws));
  if (!method) throw new Error(`${kidOf(jws)} is not published`);
  return verifyReceiptSignatureJWS({ format: "jws", signature: jws }, method.publicKeyJwk);
}

describe("rotating the signing key", () => {
  const documentOf = (...keys: [string, ...string[]]) =>
    openJwsSigner(keys, "pay.example.com").document as Document;
  const signed = openJwsSigner([OLD], "pay.example.com").sign({ version: 1, payer: PAYER });

  test("a signature verifies while its key is in the list, at any position, and not afterwards", async () => {
    for (const document of [documentOf(OLD), documentOf(OLD, NEW), documentOf(NEW, OLD)])
      expect(await verify(signed, document)).toMatchObject({ payer: PAYER });
    expect(() => verify(signed, documentOf(NEW))).toThrow("is not published");
  });

  test("the newest key signs", async () => {
    const later = openJwsSigner([NEW, OLD], "pay.example.com").sign({ version: 1 });
    expect(kidOf(later)).not.toBe(kidOf(signed));
    expect(kidOf(later)).toBe(documentOf(NEW).assertionMethod[0] ?? "");
  });

  test("error: a payload that was changed does not verify", async () => {
    const [header = "", payload = "", signature = ""] = signed.split(".");
    const text = Buffer.from(payload, "base64url").toString().replace("abab", "acab");
    const forged = [header, Buffer.from(text).toString("base64url"), signature].join(".");
    await expect(verify(forged, documentOf(OLD))).rejects.toThrow();
  });

  test("a key is named by 96 bits of its public key's SHA-256, so that names in old signatures still match", () => {
    const [method] = documentOf(OLD).verificationMethod;
    const digest = createHash("sha256").update(Object(method?.publicKeyJwk).x).digest("base64url");
    expect(method?.id).toBe(`did:web:pay.example.com#${digest.slice(0, 16)}`);
    expect(kidOf(signed)).toBe(method?.id ?? "");
  });

  test("a port is part of the key's identity, encoded as in did:web", () => {
    const { document } = openJwsSigner([OLD], "localhost:3000");
    expect(document).toMatchObject({ id: "did:web:localhost%3A3000" });
  });
});

test("without a key nothing is signed", () => {
  expect(openOfferSigner({ baseUrl: BASE_URL, offerSigningKeys: undefined })).toBeUndefined();
});

describe("which outcome gets a receipt", () => {
  const signer = openOfferSigner({ baseUrl: BASE_URL, offerSigningKeys: [NEW] });
  const at = new Date("2026-11-22T12:00:00Z");
  const payment = {
    ...{ id: "pay_AAAAAAAAAAAAAAAAAAAAAA", linkId: "link_AAAAAAAAAAAAAAAAAAAAAA", network: "base" },
    ...{ state: "MINED", txHash: TX_HASH, attemptHash: TX_HASH, logIndex: 4, createdAt: at, updatedAt: at },
  } as PaymentView;
  const elsewhere = { network: "base", txHash: TX_HASH, logIndex: 4 } as const;

  const receiptOf = (result: PayResult, way: 1 | 2, payer: Hex | undefined = PAYER) => {
    const paid = { way, payer, result };
    const { headers } = present({ paid, baseUrl: BASE_URL, resourceUrl: RESOURCE, signer });
    const header = headers[way === 2 ? "PAYMENT-RESPONSE" : "X-PAYMENT-RESPONSE"];
    if (header === undefined) return undefined;
    const response = JSON.parse(Buffer.from(header, "base64").toString());
    return response.extensions?.["offer-receipt"]?.info.receipt as { signature: string } | undefined;
  };

  const settled: Record<string, PayResult> = {
    settled: { kind: "settled", payment },
    replayed: { kind: "replayed", payment, sameKey: false },
    "paid elsewhere": { kind: "paid-elsewhere", ...elsewhere },
  };
  test.each(Object.keys(settled))("%s: one, in both versions", async (name) => {
    const result = settled[name];
    if (!result) throw new Error(`no ${name}`);
    for (const way of [1, 2] as const) {
      const receipt = receiptOf(result, way);
      expect(await verify(receipt?.signature ?? "", signer?.document as Document)).toEqual({
        ...{ version: 1, resourceUrl: RESOURCE, network: "eip155:8453", payer: PAYER, transaction: TX_HASH },
        issuedAt: expect.any(Number),
      });
    }
  });

  const unsettled: Record<string, PayResult> = {
    "submitted, not in a block": { kind: "submitted", payment },
    "outcome unknown": { kind: "unsettled", payment },
    refused: { kind: "refused", reason: "NONCE_USED", message: "used", network: "base", txHash: TX_HASH },
    "refused, may be retried": {
      kind: "refused",
      reason: "INTERNAL_ERROR",
      message: "later",
      retryable: true,
    },
  };
  test.each(Object.keys(unsettled))("%s: none, in neither version", (name) => {
    const result = unsettled[name];
    if (!result) throw new Error(`no ${name}`);
    for (const way of [1, 2] as const) expect(receiptOf(result, way)).toBeUndefined();
  });
});
