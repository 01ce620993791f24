/**
 * Answers a settled payment's success to the one request it belongs to. Whether an answer arrived is known only as far as the server
 * sees the connection: one that was closed before the answer was handed to it has not got it, and the claim is given back.
 */
import { randomUUID } from "node:crypto";
import { isSettled } from "../../core/domain/payment.ts";
import type { Log } from "../../core/runtime/log.ts";
import { findPaymentByAuthorization } from "../../db/payments/payments.ts";
import {
  ANSWER_LEASE_S,
  type AnswerClaim,
  type Asker,
  claimAnswer,
  isAnswerDue,
  recordCut,
  recordSent,
} from "../../db/payments/settlement-answers.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { retryUntilDeadline, type WaitTools } from "../x402/await-payment.ts";
import { matchKnown } from "../x402/verify-payer.ts";
import { type FacilitatorRequest, keyOf } from "./request.ts";
import type { VerifyTools } from "./verify.ts";

export type AnswerTools = WaitTools & { sql: Sql; log: Log };

/** Aborted once the caller's connection is closed. */
export type Connection = Pick<AbortSignal, "aborted">;

/** "unknown": nothing was answered to anybody by this call; whoever asks again may hear it. */
export type AnswerOutcome = "ours" | "refused" | "unknown";

/** An answer is handed over within this time after its claim was begun, well before the claim's lease is over. */
const HAND_OVER_MS = (ANSWER_LEASE_S * 1_000) / 2;
/** Another connection is answering the same request: it is done within milliseconds, or gone when its lease is over. */
const BUSY_PAUSE_MS = 50;
const BUSY_MAX_MS = 3 * ANSWER_LEASE_S * 1_000;

/** After "ours" the caller must answer success without waiting for anything else. */
export async function answerOnce(
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
    // Closed connections are noticed between two turns of the event loop: one turn for those that are closed already.
    await Bun.sleep(0);
    if (connection.aborted) return giveBack(tools, paymentId, claimId);
    if (performance.now() - startedMs < HAND_OVER_MS)
      return confirmLater(tools, paymentId, claimId, connection);
  }
  return "unknown";
}

/** Would this asker be answered success if he settled now? */
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

async function giveBack(tools: AnswerTools, paymentId: string, claimId: string): Promise<"unknown"> {
  tools.log.info({ paymentId }, "a settlement's success found its connection closed");
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
      ? giveBack(tools, paymentId, claimId)
      : retryUntilDeadline(tools, () => recordSent(tools.sql, paymentId));
    confirming.catch((error: unknown) =>
      tools.log.error({ err: error, paymentId }, "it could not be recorded that a settlement was answered"),
    );
  }, 0);
  return "ours";
}
