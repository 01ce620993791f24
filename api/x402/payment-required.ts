/**
 * The payment terms. One 402 serves every client: the body has one item, the PAYMENT-REQUIRED header carries version 2. Shape `a` is
 * the merged item, the standard `exact` item of version 1 plus our own fields; shape `b` the `evm-erc3009` item, which `/x402/{linkId}` gives.
 */

import { NETWORKS } from "../../core/domain/networks.ts";
import type { Refusal } from "../../core/domain/payment.ts";
import type { PayableLink } from "../../core/domain/payment-acceptance.ts";
import { choiceOf } from "../../core/domain/reusable-link.ts";
import { describeCall, describeCallInVersion1, JSON_SCHEMA } from "./bazaar.ts";
import type { OfferSigner } from "./offers.ts";

/** Of the body's item: `a` merged, `b` `evm-erc3009`. */
export type Shape = "a" | "b";

export type Requirements = { readonly body: Record<string, unknown>; readonly header: string };

/** Longest validity an x402 client is asked to sign, in seconds. */
const MAX_TIMEOUT_S = 300;
const MIN_TIMEOUT_S = 30;
export const MIME_TYPE = "application/json";
/** What the payer signs (EIP-3009). thirdweb's client reads it from `extra`; otherwise it fetches the token's ABI elsewhere. */
const PRIMARY_TYPE = "TransferWithAuthorization";

/** The 402 of a payable link. `refusal` says why a payment sent along was refused (absent: nothing is wrong). */
export function requirementsOf(
  link: PayableLink,
  options: {
    baseUrl: string;
    shape: Shape;
    now: Date;
    refusal: Refusal | undefined;
    signer: OfferSigner | undefined;
  },
): Requirements {
  const { reason, message } = options.refusal ?? {};
  const url = resourceUrl(link.id, options.baseUrl);
  const terms = versionTwoItem(link, options.now);
  const item = options.shape === "a" ? mergedItem(link, options) : shapeBItem(link, options);
  return {
    body: { x402Version: 1, error: reason ?? null, ...(message ? { message } : {}), accepts: [item] },
    header: encodeHeader({
      x402Version: 2,
      error: reason ?? "Payment required",
      resource: {
        url,
        description: link.description,
        mimeType: MIME_TYPE,
      },
      accepts: [terms],
      extensions: {
        "payment-identifier": { info: { required: false }, schema: PAYMENT_IDENTIFIER_SCHEMA },
        ...(link.isDiscoverable ? describeCall(link) : {}),
        ...options.signer?.offer({
          resourceUrl: url,
          item: terms,
          validUntil: validUntil(link, options.now),
        }),
      },
    }),
  };
}

/** The 402 of a link that accepts no payment now, and why. */
export function unpayable(
  link: PayableLink,
  { baseUrl, reason, message }: { baseUrl: string; reason: string; message: string },
): Requirements {
  const resource = { url: resourceUrl(link.id, baseUrl), description: message, mimeType: MIME_TYPE };
  // when the payer chooses the amount, the description says how to specify it
  const extensions = link.isDiscoverable && choiceOf(link) ? describeCall(link) : undefined;
  return {
    body: { x402Version: 1, error: reason, message, accepts: [] },
    header: encodeHeader({ x402Version: 2, error: reason, resource, accepts: [], extensions }),
  };
}

const PAYMENT_IDENTIFIER_SCHEMA = {
  $schema: JSON_SCHEMA,
  type: "object",
  properties: {
    required: { type: "boolean" },
    id: { type: "string", minLength: 16, maxLength: 128, pattern: "^[a-zA-Z0-9_-]+$" },
  },
  required: ["required"],
};

function mergedItem(link: PayableLink, options: { baseUrl: string; now: Date }) {
  const { usdc, chainId } = NETWORKS[link.network];
  const amount = link.amountUnits.toString();
  const url = resourceUrl(link.id, options.baseUrl);
  return {
    scheme: "exact",
    network: link.network,
    maxAmountRequired: amount,
    resource: url,
    description: link.description,
    mimeType: MIME_TYPE,
    payTo: link.recipient,
    maxTimeoutSeconds: timeoutSeconds(link, options.now),
    asset: usdc.address,
    extra: { name: usdc.name, version: usdc.version, primaryType: PRIMARY_TYPE },
    ...(link.isDiscoverable ? { outputSchema: describeCallInVersion1(link) } : {}),
    amount,
    currency: "USDC",
    recipient: link.recipient,
    verifyingContract: usdc.address,
    chainId,
    aiUrl: url,
    name: usdc.name,
    version: usdc.version,
    primaryType: PRIMARY_TYPE,
  };
}

function shapeBItem(link: PayableLink, options: { baseUrl: string; now: Date }) {
  return {
    scheme: "evm-erc3009",
    network: link.network,
    // micro-USDC like every x402 amount; at most 10^12, so exact as a JSON number
    maxAmountRequired: Number(link.amountUnits),
    resource: resourceUrl(link.id, options.baseUrl),
    description: link.description,
    mimeType: MIME_TYPE,
    payTo: link.recipient,
    maxTimeoutSeconds: timeoutSeconds(link, options.now),
    asset: "USDC",
  };
}

/** The terms in x402 version 2 form. */
export function versionTwoItem(
  link: Pick<PayableLink, "network" | "amountUnits" | "recipient" | "expiresAt">,
  now: Date,
) {
  const { usdc, caip2 } = NETWORKS[link.network];
  return {
    scheme: "exact",
    network: caip2,
    amount: link.amountUnits.toString(),
    asset: usdc.address,
    payTo: link.recipient,
    maxTimeoutSeconds: timeoutSeconds(link, now),
    extra: { name: usdc.name, version: usdc.version, primaryType: PRIMARY_TYPE },
  };
}

function timeoutSeconds(link: Pick<PayableLink, "expiresAt">, now: Date): number {
  const leftS = Math.floor((link.expiresAt.getTime() - now.getTime()) / 1000);
  return Math.max(MIN_TIMEOUT_S, Math.min(MAX_TIMEOUT_S, leftS));
}

/** An offer is valid as long as the requested authorization, and never longer than the link. */
function validUntil({ expiresAt }: PayableLink, now: Date): Date {
  return new Date(Math.min(expiresAt.getTime(), now.getTime() + MAX_TIMEOUT_S * 1_000));
}

/** The URL at which x402 clients pay a link. */
export function resourceUrl(linkId: string, baseUrl: string): string {
  return `${baseUrl}/v1/x402/${linkId}`;
}

/** Base64-encoded JSON, as in x402 headers. Undefined fields are omitted. */
export function encodeHeader(value: unknown): string {
  return Buffer.from(JSON.stringify(value), "utf8").toString("base64");
}
