/**
 * Waits for the outcome of an accepted payment, for at most PAY_WAIT_MS (api/config.ts). After acceptance an error is not a valid response,
 * because the transaction may be broadcast at any moment.
 */
import type { NetworkId } from "../../core/domain/networks.ts";
import { isPaymentRefusal, isSettled, type Refusal, refusalOf } from "../../core/domain/payment.ts";
import type { PaymentView } from "../../db/payments/payments.ts";
import { isWorthRetrying } from "../../db/postgres/client.ts";
import type { Outcomes } from "../../db/postgres/notifications.ts";
import { SilentDatabaseError, withTimeout } from "../../db/postgres/retry-while-unavailable.ts";
import type { PayTools } from "./pay-tools.ts";

export type WaitTools = Pick<PayTools<never>, "log" | "readPayment"> & { config: { payWaitMs: number } };

/** What is known of a payment even when its row can't be read. */
export type PaymentRef = Pick<PaymentView, "id" | "linkId" | "network" | "txHash" | "attemptHash">;

export type PaymentEnd =
  | { kind: "settled"; payment: PaymentView }
  /** Handed to a node (submitted), or not known to have been (unsettled), when the wait ended. */
  | { kind: "submitted" | "unsettled"; payment: PaymentRef }
  | { kind: "failed"; payment: PaymentView };

type Watcher = ReturnType<Outcomes["watch"]>;

/** `isJustStored`: this process has just committed the payment, after the watcher was started. */
export async function awaitPayment(
  tools: WaitTools,
  watcher: Watcher,
  payment: { id: string; linkId: string | null; network: NetworkId },
  { isJustStored = false }: { isJustStored?: boolean } = {},
): Promise<PaymentEnd> {
  let last: PaymentView | undefined;
  const read = async () => {
    try {
      last = (await tools.readPayment(payment.id)) ?? last;
    } catch (error) {
      tools.log.warn({ paymentId: payment.id, err: error }, "payment could not be read; retrying");
      return undefined;
    }
    return last && (isSettled(last) || last.state === "FAILED") ? last : undefined;
  };
  const ended = await watcher.settle(read, tools.config.payWaitMs, { isJustStored });
  if (ended) return { kind: ended.state === "FAILED" ? "failed" : "settled", payment: ended };
  return { kind: last?.state === "BROADCAST" ? "submitted" : "unsettled", payment: last ?? refOf(payment) };
}

export function refOf({ id, linkId, network }: Pick<PaymentRef, "id" | "linkId" | "network">): PaymentRef {
  return { id, linkId, network, txHash: null, attemptHash: null };
}

const RETRY_PAUSE_MS = 200;

/** How much longer than the wait itself the database may take to respond. */
const SILENCE_MS = 3_000;

/**
 * Repeats `work` until the database responds or the wait ends (then undefined): a connection lost at commit may have
 * stored the payment, and only the database knows. Other errors are thrown. `waits`: the work itself waits for a payment's outcome.
 */
export async function retryUntilDeadline<T>(
  tools: WaitTools,
  work: () => Promise<T>,
  { waits = false }: { waits?: boolean } = {},
): Promise<T | undefined> {
  const { payWaitMs } = tools.config;
  const deadlineMs = performance.now() + payWaitMs;
  const timeoutMs = SILENCE_MS + (waits ? 2 * payWaitMs : payWaitMs);
  for (;;) {
    try {
      return await withTimeout(timeoutMs, work());
    } catch (error) {
      if (error instanceof SilentDatabaseError) return undefined;
      if (!isWorthRetrying(error)) throw error;
      tools.log.warn({ err: error }, "database unavailable while a payment was stored; retrying");
    }
    if (performance.now() >= deadlineMs) return undefined;
    await Bun.sleep(RETRY_PAUSE_MS);
  }
}

/** Why a payment FAILED, for its payer. A failure that the payer cannot fix may be retried. */
export function failureOf({ reason, reasonText }: PaymentView): Refusal & { retryable: boolean } {
  if (reason !== null && isPaymentRefusal(reason))
    return { ...refusalOf(reason, reasonText ?? undefined), retryable: false };
  const message = reasonText === null ? UNAVAILABLE_MESSAGE : `${UNAVAILABLE_MESSAGE}: ${reasonText}`;
  return { reason: "INTERNAL_ERROR", message, retryable: true };
}

const UNAVAILABLE_MESSAGE = "the payment could not be sent; nothing is in progress, and it may be retried";
