/** What a payer is answered: the documented JSON on the body's way, x402's own words on the header's way. */
import { NETWORKS } from "../../core/domain/networks.ts";
import { isSettled, PAYMENT_REFUSALS } from "../../core/domain/payment.ts";
import type { PaymentView } from "../../db/payments/payments.ts";
import type { PaymentRef } from "./await-payment.ts";
import type { PayResult } from "./pay.ts";

export type PayAnswer = {
  status: number;
  body: {
    success: boolean;
    txHash: string | null;
    networkId: string | null;
    error: string | null;
    message?: string;
    settled?: boolean;
    paymentId?: string;
    logIndex?: number | null;
    statusUrl?: string;
    retryable?: boolean;
  };
};

/** The answer on the JSON way: every refusal with its own status (400, 403, 404, 409, 422, 500). */
export function answerOf(result: PayResult, baseUrl: string): PayAnswer {
  switch (result.kind) {
    case "settled":
      return settled(result.payment, baseUrl);
    case "replayed":
      return result.sameKey ? settled(result.payment, baseUrl) : alreadyUsed(result.payment, baseUrl);
    case "paid-elsewhere":
      return {
        status: 409,
        body: { ...settledElsewhere(result), success: false, error: "NONCE_USED", message: ALREADY_PAID },
      };
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
    case "refused":
      return {
        status: PAYMENT_REFUSALS[result.reason],
        body: {
          success: false,
          txHash: result.txHash ?? null,
          networkId: result.network ?? null,
          error: result.reason,
          message: result.message,
          ...(result.retryable ? { retryable: true } : {}),
        },
      };
  }
}

/** 200 for a payment that a block holds. */
export function settled(payment: PaymentView, baseUrl: string): PayAnswer {
  return {
    status: 200,
    body: {
      ...common(payment, baseUrl),
      success: true,
      error: null,
      settled: true,
      logIndex: payment.logIndex,
    },
  };
}

/** What is known of a payment that somebody else sent. */
export function settledElsewhere(result: Extract<PayResult, { kind: "paid-elsewhere" }>): PayAnswer["body"] {
  const { txHash, logIndex, network } = result;
  return { success: true, txHash, networkId: network, error: null, settled: true, logIndex };
}

const ALREADY_PAID = "this authorization has paid this link already";

/** The public state of one payment. */
export function presentPayment(payment: PaymentView, baseUrl: string) {
  const settled = isSettled(payment);
  return {
    ...common(payment, baseUrl),
    success: settled,
    error: payment.state === "FAILED" ? payment.reason : settled ? null : "SETTLEMENT_PENDING",
    settled,
    state: payment.state,
    blockNumber: payment.blockNumber === null ? null : Number(payment.blockNumber),
    logIndex: payment.logIndex,
    createdAt: payment.createdAt.toISOString(),
    updatedAt: payment.updatedAt.toISOString(),
  };
}

function alreadyUsed(payment: PaymentView, baseUrl: string): PayAnswer {
  return {
    status: 409,
    body: {
      ...common(payment, baseUrl),
      success: false,
      error: "NONCE_USED",
      message: ALREADY_PAID,
    },
  };
}

function common(payment: PaymentRef, baseUrl: string) {
  return {
    txHash: payment.txHash ?? payment.attemptHash,
    networkId: NETWORKS[payment.network].id,
    paymentId: payment.id,
    statusUrl: `${baseUrl}/v1/x402/${payment.linkId}/payments/${payment.id}`,
  };
}
