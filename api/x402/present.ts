/** Presents the result of an x402 request: our documented JSON on the JSON routes, x402's headers and its 402 with the terms on the others. */

import { effectiveStatus } from "../../core/domain/link-expiry.ts";
import { type Hex, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { isSettled, PAYMENT_REFUSALS, type Refusal, standardReason } from "../../core/domain/payment.ts";
import type { PayableLink } from "../../core/domain/payment-acceptance.ts";
import { unreachable } from "../../core/domain/unreachable.ts";
import type { PaymentView } from "../../db/payments/payments.ts";
import { failureOf, type PaymentRef } from "./await-payment.ts";
import type { OfferSigner } from "./offers.ts";
import type { Outcome } from "./openapi-schemas.ts";
import type { PayResult } from "./pay-link.ts";
import type { Way } from "./payload.ts";
import { encodeHeader, requirementsOf, type Shape, unpayable } from "./payment-required.ts";

/** A payment that a request contained, and its outcome. `payer` when it could be parsed. */
export type Paid = { way: Way; payer: Hex | undefined; result: PayResult };
/** The current terms of a link. `obstacle`: why it accepts no payment. */
export type Terms = { link: PayableLink; obstacle: Refusal | undefined; shape: Shape; now: Date };
export type Answer = { status: number; headers: Record<string, string>; body: unknown };

/** Without terms: the payment's outcome. With terms: the 402, and why the payment sent with it was refused. */
export function present(
  exchanged: Origin & ({ paid: Paid; terms?: never } | { paid: Paid | undefined; terms: Terms }),
): Answer {
  const { paid, terms } = exchanged;
  return terms ? presentTerms(terms, paid, exchanged) : presentPaid(paid, exchanged);
}

/** `resourceUrl`: the paid resource, as named in offers and receipts. */
type Origin = { baseUrl: string; resourceUrl: string; signer: OfferSigner | undefined };

/** Nothing was stored: the database did not respond, or an unexpected error occurred before a payment was accepted. */
export function presentUnavailable(baseUrl: string): Answer {
  const message = "the payment can't be processed now; nothing was stored";
  const result = { kind: "refused", reason: "INTERNAL_ERROR", message, retryable: true } as const;
  const origin = { baseUrl, resourceUrl: baseUrl, signer: undefined };
  return presentPaid({ way: "json", payer: undefined, result }, origin);
}

function presentPaid({ way, payer, result }: Paid, origin: Origin): Answer {
  const { status, body } = outcomeOf(result, way, origin.baseUrl);
  const headers: Record<string, string> = {};
  if (result.kind === "replayed" && result.sameKey) headers["Idempotent-Replayed"] = "true";
  if (result.kind === "refused" || way === "json") return { status, headers, body };
  const network = result.kind === "paid-elsewhere" ? result.network : result.payment.network;
  const reason = body.error === null ? undefined : "settlement_pending";
  const extensions = signReceipt(origin, { ...body, network, payer });
  Object.assign(headers, settlementHeader(way, { ...body, network, payer, reason, extensions }));
  return { status, headers, body };
}

/** Only for a payment that is in a block; undefined for every other outcome. */
function signReceipt(
  { signer, resourceUrl }: Origin,
  { success, settled, txHash, network, payer }: Outcome & { network: NetworkId; payer: Hex | undefined },
): object | undefined {
  if (!success || !settled || txHash === null || payer === undefined) return undefined;
  return signer?.receipt({ resourceUrl, network, payer, txHash, now: new Date() });
}

function presentTerms(
  { link, obstacle, shape, now }: Terms,
  paid: Paid | undefined,
  { baseUrl, signer }: Origin,
): Answer {
  const refused = paid?.result.kind === "refused" ? paid.result : undefined;
  const requirements = obstacle
    ? unpayable(link, { baseUrl, ...nameObstacle(link, obstacle, now) })
    : requirementsOf(link, { baseUrl, shape, now, refusal: refused, signer });
  const headers = { "PAYMENT-REQUIRED": requirements.header };
  if (refused?.network && paid && paid.way !== "json") {
    const { network, txHash = null, reason } = refused;
    const outcome = { success: false, txHash, network, payer: paid.payer, reason: standardReason(reason) };
    Object.assign(headers, settlementHeader(paid.way, outcome));
  }
  return { status: 402, headers, body: requirements.body };
}

/** The 402 says how a link ended. */
function nameObstacle(link: PayableLink, { reason, message }: Refusal, now: Date) {
  if (reason !== "LINK_NOT_PAYABLE") return { reason, message };
  const isCancelled = effectiveStatus(link, now) === "CANCELLED";
  return { reason: isCancelled ? "LINK_CANCELLED" : "LINK_EXPIRED", message };
}

/** Every outcome with its own status (200, 202, 400, 403, 404, 409, 422, 500). For payments in a header, a repeated success is a success. */
function outcomeOf(result: PayResult, way: Way, baseUrl: string): { status: number; body: Outcome } {
  switch (result.kind) {
    case "settled":
      return settled(result.payment, baseUrl);
    case "replayed":
      if (way !== "json" || result.sameKey) return settled(result.payment, baseUrl);
      return { status: 409, body: { ...common(result.payment, baseUrl), ...USED } };
    case "paid-elsewhere": {
      const { txHash, logIndex, network } = result;
      const found = { success: true, txHash, networkId: network, error: null, settled: true, logIndex };
      return way === "json" ? { status: 409, body: { ...found, ...USED } } : { status: 200, body: found };
    }
    case "submitted":
      return {
        status: 202,
        body: { ...common(result.payment, baseUrl), success: true, error: null, settled: false },
      };
    case "unsettled":
      return {
        status: 202,
        body: {
          ...common(result.payment, baseUrl),
          success: false,
          error: "SETTLEMENT_PENDING",
          settled: false,
        },
      };
    case "refused": {
      const { reason, message, network, txHash, retryable } = result;
      const refused = {
        success: false,
        txHash: txHash ?? null,
        networkId: network ?? null,
        error: reason,
        message,
      };
      return { status: PAYMENT_REFUSALS[reason], body: retryable ? { ...refused, retryable } : refused };
    }
    default:
      return unreachable(result);
  }
}

const USED = {
  success: false,
  error: "NONCE_USED",
  message: "this authorization has already paid this link",
} as const;

/** A payment that is in a block. */
function settled(payment: PaymentView, baseUrl: string): { status: number; body: Outcome } {
  const { logIndex } = payment;
  const body = { ...common(payment, baseUrl), success: true, error: null, settled: true, logIndex };
  return { status: 200, body };
}

/** The public state of one payment. */
export function presentPayment(payment: PaymentView, baseUrl: string) {
  const settled = isSettled(payment);
  return {
    ...common(payment, baseUrl),
    success: settled,
    ...(payment.state === "FAILED"
      ? presentFailure(payment)
      : { error: settled ? null : "SETTLEMENT_PENDING" }),
    settled,
    state: payment.state,
    blockNumber: payment.blockNumber === null ? null : Number(payment.blockNumber),
    logIndex: payment.logIndex,
    createdAt: payment.createdAt.toISOString(),
    updatedAt: payment.updatedAt.toISOString(),
  };
}

/** In the same words as the response to the payment itself. */
function presentFailure(payment: PaymentView) {
  const { reason, message, retryable } = failureOf(payment);
  return { error: reason, message, ...(retryable ? { retryable } : {}) };
}

function common(payment: PaymentRef, baseUrl: string) {
  return {
    txHash: payment.txHash ?? payment.attemptHash,
    networkId: NETWORKS[payment.network].id,
    paymentId: payment.id,
    statusUrl: `${baseUrl}/v1/x402/${payment.linkId}/payments/${payment.id}`,
  };
}

type Settlement = {
  success: boolean;
  txHash: string | null;
  network: NetworkId;
  payer: Hex | undefined;
  reason: string | undefined;
  extensions?: object | undefined;
};

/** X-PAYMENT-RESPONSE (version 1) or PAYMENT-RESPONSE (version 2), as standard clients decode it. */
function settlementHeader(version: 1 | 2, settlement: Settlement): Record<string, string> {
  const { success, txHash, network, payer, reason, extensions } = settlement;
  return {
    [version === 2 ? "PAYMENT-RESPONSE" : "X-PAYMENT-RESPONSE"]: encodeHeader({
      success,
      transaction: txHash ?? "",
      network: version === 2 ? NETWORKS[network].caip2 : network,
      payer,
      errorReason: reason,
      extensions,
    }),
  };
}
