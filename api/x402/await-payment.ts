/** Waiting for an accepted payment's end. From acceptance on an error is no answer: bytes may leave at any moment. */
import type { NetworkId } from "../../core/domain/networks.ts";
import { isSettled, type PaymentRefusal } from "../../core/domain/payment.ts";
import type { PaymentView } from "../../db/payments/payments.ts";
import { isWorthRetrying } from "../../db/postgres/client.ts";
import type { Outcomes } from "../../db/postgres/notifications.ts";
import { SilentDatabaseError, within } from "../../db/postgres/retry-while-unavailable.ts";
import type { X402Deps } from "./deps.ts";
import type { PaymentReader } from "./read-payment.ts";

export type WaitTools = Pick<X402Deps, "log"> & {
  readPayment: PaymentReader;
  config: Pick<X402Deps["config"], "payWaitMs">;
};

/** What is known of a payment in any case, also when its row can't be read. */
export type PaymentRef = Pick<PaymentView, "id" | "linkId" | "network" | "txHash" | "attemptHash">;

export type PaymentEnd =
  | { kind: "settled"; payment: PaymentView }
  /** Handed to a node (submitted), or not known to be (unsettled), when the wait was over. */
  | { kind: "submitted" | "unsettled"; payment: PaymentRef }
  | { kind: "failed"; payment: PaymentView };

type Watcher = ReturnType<Outcomes["watch"]>;

export async function awaitPayment(
  tools: WaitTools,
  watcher: Watcher,
  payment: { id: string; linkId: string | null; network: NetworkId },
): Promise<PaymentEnd> {
  let last: PaymentView | undefined;
  const ended = await watcher.settle(async () => {
    try {
      last = (await tools.readPayment(payment.id)) ?? last;
    } catch (error) {
      tools.log.warn({ paymentId: payment.id, err: error }, "a payment can't be read; looking again");
      return undefined;
    }
    return last && (isSettled(last) || last.state === "FAILED") ? last : undefined;
  }, tools.config.payWaitMs);
  if (ended) return { kind: ended.state === "FAILED" ? "failed" : "settled", payment: ended };
  return { kind: last?.state === "BROADCAST" ? "submitted" : "unsettled", payment: last ?? refOf(payment) };
}

export function refOf({ id, linkId, network }: Pick<PaymentRef, "id" | "linkId" | "network">): PaymentRef {
  return { id, linkId, network, txHash: null, attemptHash: null };
}

const INSIST_PAUSE_MS = 200;

/** For a database that says nothing: what waits for a payment itself has its own end before. */
const SILENCE_MS = 3_000;

/**
 * Repeats `work` until the database answers or the wait is over (then undefined): a connection that broke at commit
 * may have stored the payment, and only the database knows. Other errors are thrown. `waits` when the work waits for a payment's end.
 */
export async function insist<T>(
  tools: WaitTools,
  work: () => Promise<T>,
  { waits = false }: { waits?: boolean } = {},
): Promise<T | undefined> {
  const { payWaitMs } = tools.config;
  const deadlineMs = Date.now() + payWaitMs;
  const patienceMs = SILENCE_MS + (waits ? 2 * payWaitMs : payWaitMs);
  for (;;) {
    try {
      return await within(patienceMs, work());
    } catch (error) {
      if (error instanceof SilentDatabaseError) return undefined;
      if (!isWorthRetrying(error)) throw error;
      tools.log.warn({ err: error }, "the database was lost while a payment was stored; asking again");
    }
    if (Date.now() >= deadlineMs) return undefined;
    await Bun.sleep(INSIST_PAUSE_MS);
  }
}

/** A payment that ended FAILED, as its payer is told. */
export function refusalOf(payment: PaymentView): {
  reason: PaymentRefusal;
  message: string;
  retryable: boolean;
} {
  const { reason, reasonText } = payment;
  if (reason === null || !isRefusal(reason)) {
    const message = reasonText === null ? UNAVAILABLE_MESSAGE : `${UNAVAILABLE_MESSAGE}: ${reasonText}`;
    return { reason: "INTERNAL_ERROR", message, retryable: true };
  }
  return { reason, message: reasonText ?? FAILURE_MESSAGES[reason] ?? reason, retryable: false };
}

const UNAVAILABLE_MESSAGE =
  "the payment could not be sent now; nothing of it is under way, and it may be tried again";

const FAILURE_MESSAGES: Partial<Record<PaymentRefusal, string>> = {
  EXPIRED_TRANSFER: "the authorization is over, or too little time is left to get it into a block",
  NOT_YET_VALID: "the authorization is not valid yet",
  INSUFFICIENT_FUNDS: "the payer's balance is too low",
  INVALID_SIGNATURE: "the signature is not the payer's",
  NONCE_USED: "the authorization was used or cancelled before",
  LINK_ALREADY_PAID: "this link is paid already",
  RELAY_BUDGET_SPENT: "today's budget for relaying has no room for this payment",
  PAYMENT_NOT_ALLOWED:
    "the chain refuses this payment: an address is blocked, the token is paused, or the payer's transactions kept reverting",
};

function isRefusal(reason: string): reason is PaymentRefusal {
  return reason in FAILURE_MESSAGES;
}
