/**
 * Reports a settled payment's success to the one request it belongs to. The server sees no more than the connection: when that was
 * closed before the answer was written to it, the claim on the answer is released.
 */
import { randomUUID } from "node:crypto";
import { isSettled } from "../../core/domain/payment.ts";
import type { Log } from "../../core/runtime/log.ts";
import {
  ANSWER_LEASE_S,
  type AnswerClaim,
  type Asker,
  claimAnswer,
  isAnswerDue,
  recordCut,
  recordSent,
} from "../../db/payments/claim-success-answer.ts";
import { findPaymentByAuthorization } from "../../db/payments/payments.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { retryUntilDeadline, type WaitTools } from "../x402/await-payment.ts";
import { matchKnown } from "../x402/verify-payer.ts";
import { type FacilitatorRequest, keyOf } from "./request.ts";
import type { VerifyTools } from "./verify-payment.ts";

export type AnswerTools = WaitTools & { sql: Sql; log: Log };

/** Aborted once the caller's connection is closed. */
export type Connection = Pick<AbortSignal, "aborted">;

/** "unknown": this call did not report success, but a retry may. */
export type AnswerOutcome = "ours" | "refused" | "unknown";

/** A response is written within this time after its claim began, well before the claim's lease ends. */
const WRITE_WITHIN_MS = (ANSWER_LEASE_S * 1_000) / 2;
/** Another connection is answering the same request: it finishes within milliseconds, or its process has died and the lease expires. */
const BUSY_PAUSE_MS = 50;
const BUSY_MAX_MS = 3 * ANSWER_LEASE_S * 1_000;

/** After "ours" the caller must respond with success without awaiting anything else. */
export async function reportSuccessOnce(
  tools: AnswerTools,
  { paymentId, asker, connection }: { paymentId: string; asker: Asker; connection: Connection },
): Promise<AnswerOutcome> {
  const claimId = randomUUID();
  const deadlineMs = performance.now() + BUSY_MAX_MS;
  while (performance.now() < deadlineMs) {
    const startedMs = performance.now();
    const claim: AnswerClaim | undefined = await retryUntilDeadline(tools, () =>
      claimAnswer(tools.sql, paymentId, asker, claimId),
    );
    if (claim === "refused") return "refused";
    if (claim === undefined || claim === "unsettled") return "unknown";
    if (claim === "busy") {
      await Bun.sleep(BUSY_PAUSE_MS);
      continue;
    }
    // Bun reports a closed connection between two turns of the event loop: one turn for those that are closed already.
    await Bun.sleep(0);
    if (connection.aborted) return releaseClaim(tools, paymentId, claimId);
    if (performance.now() - startedMs < WRITE_WITHIN_MS)
      return confirmLater(tools, paymentId, claimId, connection);
  }
  return "unknown";
}

/** Whether settling now would report success to this caller. */
export async function isAnswerDueTo(
  tools: VerifyTools & { sql: Sql },
  request: FacilitatorRequest,
  asker: Asker,
): Promise<boolean> {
  const payment = await findPaymentByAuthorization(tools.sql, keyOf(request));
  if (!payment || !isSettled(payment) || payment.attemptHash === null) return false;
  const { network, terms, attempt } = request;
  const isSame =
    [payment.recipient, attempt.authorization.to].every((address) => address === terms.payTo) &&
    [payment.amountUnits, attempt.authorization.value].every((units) => units === terms.amountUnits);
  if (!isSame || (await matchKnown(tools.chains.get(network), network, payment, attempt)) !== "same")
    return false;
  return isAnswerDue(tools.sql, payment.id, asker);
}

async function releaseClaim(tools: AnswerTools, paymentId: string, claimId: string): Promise<"unknown"> {
  tools.log.info({ paymentId }, "settlement answer not sent: connection closed");
  await retryUntilDeadline(tools, () => recordCut(tools.sql, paymentId, claimId));
  return "unknown";
}

/** In the next turn of the event loop the answer has been written, or its connection is known to be closed. */
function confirmLater(
  tools: AnswerTools,
  paymentId: string,
  claimId: string,
  connection: Connection,
): "ours" {
  setTimeout(() => {
    const confirming = connection.aborted
      ? releaseClaim(tools, paymentId, claimId)
      : retryUntilDeadline(tools, () => recordSent(tools.sql, paymentId));
    confirming.catch((error: unknown) =>
      tools.log.error({ err: error, paymentId }, "settlement answer could not be recorded"),
    );
  }, 0);
  return "ours";
}
