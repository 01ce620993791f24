/**
 * Signed offers and receipts, x402's extension `offer-receipt`: the service commits to the terms of a 402, and confirms a settled payment.
 * They are signed with a separate key, never one that can move money, which is published at /.well-known/did.json.
 */
import { type JwsSigner, openJwsSigner } from "../../core/domain/jws.ts";
import { type Hex, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import type { ApiConfig } from "../config.ts";
import { JSON_SCHEMA } from "./bazaar.ts";

export type OfferSigner = {
  offer(terms: OfferedTerms): Extension;
  receipt(settled: SettledPayment): Extension;
  document: object;
};

/** An item of `accepts` in version 2, its resource URL, and how long it is valid. */
type OfferedTerms = {
  resourceUrl: string;
  item: { scheme: string; network: string; amount: string; asset: string; payTo: string };
  validUntil: Date;
};

/** Contained in a block: otherwise there is no receipt. */
type SettledPayment = { resourceUrl: string; network: NetworkId; payer: Hex; txHash: string; now: Date };

type Extension = { "offer-receipt": { info: object; schema: object } };

const VERSION = 1;
const signature = {
  type: "object",
  properties: { format: { const: "jws" }, acceptIndex: { type: "integer" }, signature: { type: "string" } },
  required: ["format", "signature"],
};
const OFFERS = {
  $schema: JSON_SCHEMA,
  type: "object",
  properties: { offers: { type: "array", items: signature } },
  required: ["offers"],
};
const RECEIPT = {
  $schema: JSON_SCHEMA,
  type: "object",
  properties: { receipt: signature },
  required: ["receipt"],
};

/** Undefined while no key is configured: the extension is not offered. */
export function openOfferSigner({
  baseUrl,
  offerSigningKeys,
}: Pick<ApiConfig, "baseUrl" | "offerSigningKeys">): OfferSigner | undefined {
  if (!offerSigningKeys) return undefined;
  const signer = openJwsSigner(offerSigningKeys, new URL(baseUrl).host);
  return {
    document: signer.document,
    offer: (terms) =>
      extend({ offers: [{ format: "jws", acceptIndex: 0, signature: signOffer(signer, terms) }] }, OFFERS),
    receipt: (settled) =>
      extend({ receipt: { format: "jws", signature: signReceipt(signer, settled) } }, RECEIPT),
  };
}

function signOffer(signer: JwsSigner, { resourceUrl, item, validUntil }: OfferedTerms): string {
  const { scheme, network, asset, payTo, amount } = item;
  const terms = { scheme, network, asset, payTo, amount };
  return signer.sign({ version: VERSION, resourceUrl, ...terms, validUntil: toSeconds(validUntil) });
}

function signReceipt(
  signer: JwsSigner,
  { resourceUrl, network, payer, txHash, now }: SettledPayment,
): string {
  const { caip2 } = NETWORKS[network];
  const paid = { network: caip2, payer, transaction: txHash };
  return signer.sign({ version: VERSION, resourceUrl, ...paid, issuedAt: toSeconds(now) });
}

function extend(info: object, schema: object): Extension {
  return { "offer-receipt": { info, schema } };
}

function toSeconds(time: Date): number {
  return Math.floor(time.getTime() / 1_000);
}
