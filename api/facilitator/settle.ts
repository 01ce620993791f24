/**
 * Settles a payment for somebody else's resource on the same engine as our own links: stored before anything is sent, relayed in
 * batches, settled by what the chain holds.
 *
 * Every success releases a resource, and a payload is public once it is on the chain. So a payment's success is answered once, to the
 * API key that brought it, also when its payload came sixteen times at once; again to the same Idempotency-Key or payment-identifier,
 * or when the first answer did not reach its connection (answer-once.ts). An authorization that was
 * used before it came to us is refused, with the hash of its transaction: x402's `exact` scheme wants a consumed authorization to be
 * a failure, never a success. A link of ours is another matter: it can be paid only once, whoever sends the transaction.
 */
import { newPaymentId } from "../../core/domain/ids.ts";
import { NETWORKS } from "../../core/domain/networks.ts";
import { isSettled, type Refusal, standardReason } from "../../core/domain/payment.ts";
import { whyBudgetSpent } from "../../core/domain/relay-budget.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import {
  type NewFacilitatedPayment,
  requeueFacilitatedPayment,
} from "../../db/payments/facilitated-payments.ts";
import { findMerchantBudget } from "../../db/payments/merchant-budgets.ts";
import {
  type AuthorizedView,
  findPaymentByAuthorization,
  type PaymentView,
} from "../../db/payments/payments.ts";
import type { Asker } from "../../db/payments/settlement-answers.ts";
import {
  awaitPayment,
  failureOf,
  type PaymentEnd,
  refOf,
  retryUntilDeadline,
} from "../x402/await-payment.ts";
import type { PayTools } from "../x402/pay-tools.ts";
import { matchKnown } from "../x402/verify-payer.ts";
import { answerOnce, type Connection } from "./answer-once.ts";
import { findExecution } from "./find-execution.ts";
import { type FacilitatorRequest, keyOf } from "./request.ts";
import { checkPayment, type VerifyTools } from "./verify.ts";

export type SettleTools = VerifyTools & PayTools<NewFacilitatedPayment>;

/** Who asked, and the connection he waits on. */
export type SettleCall = { asker: Asker; requestId: string; connection: Connection };

export type Settlement =
  | { success: true; transaction: string }
  | { success: false; reason: string; transaction: string; message?: string };

/** Non-terminal in stock servers: they ask once more with the same payload. */
const SETTLEMENT_PENDING = "settlement_pending";
const UNEXPECTED_SETTLE_ERROR = "unexpected_settle_error";

export async function settlePayment(
  tools: SettleTools,
  request: FacilitatorRequest,
  call: SettleCall,
): Promise<Settlement> {
  try {
    const outcome = await bringToEnd(tools, request, call);
    if ("refusal" in outcome) return refuse(outcome.refusal, outcome.message);
    return await tell(tools, request, call, outcome);
  } catch (error) {
    tools.log.error({ err: error, requestId: call.requestId }, "a settlement failed");
    return refuse(UNEXPECTED_SETTLE_ERROR);
  }
}

type Outcome = PaymentEnd | { refusal: string; message?: string };

async function bringToEnd(
  tools: SettleTools,
  request: FacilitatorRequest,
  call: SettleCall,
): Promise<Outcome> {
  const earlier = await findEarlier(tools, request);
  if (earlier && earlier.state !== "FAILED") return rejoin(tools, request, earlier);
  const checked = await checkPayment(tools, request);
  if (!checked.ok) return { refusal: checked.reason, ...messageOf(checked.message) };
  const spent = await findSpentBudget(tools, request, call.asker);
  if (spent) return { refusal: spent.reason, message: spent.message };
  const payment = newPayment(request, call, checked.payer);
  if (earlier) return retry(tools, earlier, payment);
  const watcher = tools.outcomes.watch(payment.id);
  try {
    const accepted = await retryUntilDeadline(tools, () => tools.acceptor.accept(payment));
    if (accepted) return await awaitPayment(tools, watcher, { ...payment, linkId: null });
    // known meanwhile: a twin of this request, or this one with a commit whose answer was lost
    const twin = accepted === false && (await retryUntilDeadline(tools, () => findEarlier(tools, request)));
    if (twin) return await rejoin(tools, request, twin);
    return { kind: "unsettled", payment: refOf({ ...payment, linkId: null }) };
  } finally {
    watcher.cancel();
  }
}

/** Relaying for others counts against the gas budget of the API key's owner. */
async function findSpentBudget(
  { sql, config }: SettleTools,
  { network }: FacilitatorRequest,
  { userId }: Pick<Asker, "userId">,
): Promise<Refusal | undefined> {
  const maximum = config.relayGasPerMerchantPerDay ?? null;
  return whyBudgetSpent(await findMerchantBudget(sql, { network, userId, maximum }), new Date());
}

function findEarlier({ sql }: SettleTools, request: FacilitatorRequest): Promise<AuthorizedView | undefined> {
  return findPaymentByAuthorization(sql, keyOf(request));
}

/**
 * The same payload again. A payment of a link of ours, or of other terms, is no payment for this resource; and who only saw a
 * payer's nonce on the chain, without the payer's signature over these terms, has not paid.
 */
async function rejoin(
  tools: SettleTools,
  { network, terms, attempt }: FacilitatorRequest,
  payment: AuthorizedView,
): Promise<Outcome> {
  const { to, value } = attempt.authorization;
  const isSame =
    payment.linkId === null &&
    [payment.recipient, to].every((address) => address === terms.payTo) &&
    [payment.amountUnits, value].every((units) => units === terms.amountUnits);
  if (!isSame) return { refusal: standardReason("NONCE_USED") };
  const shown = await matchKnown(tools.chains.get(network), network, payment, attempt);
  if (shown === "unknown") return { refusal: UNEXPECTED_SETTLE_ERROR };
  if (shown === "other") return { refusal: standardReason("INVALID_SIGNATURE") };
  if (isSettled(payment)) return { kind: "settled", payment };
  return awaitPayment(tools, tools.outcomes.watch(payment.id), payment);
}

/** It failed before with nothing under way: the payer may have been funded since, or the node is back. */
async function retry(
  tools: SettleTools,
  earlier: PaymentView,
  payment: NewFacilitatedPayment,
): Promise<Outcome> {
  if (earlier.linkId !== null) return { refusal: standardReason("NONCE_USED") };
  const watcher = tools.outcomes.watch(earlier.id);
  const { network } = payment;
  const isQueued = await retryUntilDeadline(tools, () =>
    tools.sql.begin(async (tx) => {
      if (!(await requeueFacilitatedPayment(tx, earlier.id, payment))) return false;
      await enqueue(tx, "relay_payments", { network });
      return true;
    }),
  );
  if (isQueued === false) {
    watcher.cancel();
    return { kind: "failed", payment: earlier };
  }
  return awaitPayment(tools, watcher, { id: earlier.id, linkId: null, network });
}

async function tell(
  tools: SettleTools,
  request: FacilitatorRequest,
  call: SettleCall,
  end: PaymentEnd,
): Promise<Settlement> {
  const transaction = end.payment.txHash ?? end.payment.attemptHash ?? "";
  switch (end.kind) {
    case "settled":
      // nothing of ours was ever signed for it: used before it came, though the books learnt of it only now
      if (end.payment.attemptHash === null) return used(transaction);
      return answerSuccess(tools, call, end.payment.id, transaction);
    case "submitted":
    case "unsettled":
      return { success: false, reason: SETTLEMENT_PENDING, transaction };
    case "failed": {
      const { reason, retryable } = failureOf(end.payment);
      if (retryable) return refuse(UNEXPECTED_SETTLE_ERROR);
      if (reason === "NONCE_USED") return explainUsed(tools, request);
      return { ...refuse(standardReason(reason)), ...messageOf(end.payment.reasonText ?? undefined) };
    }
  }
}

/** Last of all: between this and the answer nothing may be waited for. */
async function answerSuccess(
  tools: SettleTools,
  { asker, connection }: SettleCall,
  paymentId: string,
  transaction: string,
): Promise<Settlement> {
  switch (await answerOnce(tools, { paymentId, asker, connection })) {
    case "ours":
      return { success: true, transaction };
    case "unknown":
      return { success: false, reason: SETTLEMENT_PENDING, transaction };
    case "refused":
      return { ...refuse(standardReason("NONCE_USED"), ANSWERED_MESSAGE), transaction };
  }
}

const ANSWERED_MESSAGE =
  "the success of this payment was answered already, or belongs to another API key; it is answered again to the same API key with the same Idempotency-Key or payment-identifier";

/** Used before it came to us: no success, whoever did it, but its transaction can be told. */
async function explainUsed(
  { chains }: SettleTools,
  { network, attempt }: FacilitatorRequest,
): Promise<Settlement> {
  const chain = chains.get(network);
  const transaction = chain && (await findExecution(chain, attempt.authorization));
  return transaction ? used(transaction) : refuse(standardReason("NONCE_USED"));
}

function used(transaction: string): Settlement {
  const message = "the authorization was used before it was shown here";
  return { ...refuse(standardReason("NONCE_USED")), transaction, message };
}

function refuse(reason: string, message?: string): Extract<Settlement, { success: false }> {
  return { success: false, reason, transaction: "", ...messageOf(message) };
}

function messageOf(message: string | undefined): { message?: string } {
  return message === undefined ? {} : { message };
}

function newPayment(
  { network, terms, attempt }: FacilitatorRequest,
  { asker, requestId }: SettleCall,
  payer: { kind: "EOA" | "CONTRACT"; signature: NewFacilitatedPayment["signature"] },
): NewFacilitatedPayment {
  const { authorization } = attempt;
  return {
    id: newPaymentId(),
    facilitatorUserId: asker.userId,
    facilitatorKeyId: asker.keyId,
    network,
    token: NETWORKS[network].usdc.address,
    payer: authorization.from,
    payerKind: payer.kind,
    recipient: terms.payTo,
    amountUnits: terms.amountUnits,
    validAfter: authorization.validAfter,
    validBefore: authorization.validBefore,
    nonce: authorization.nonce,
    signature: payer.signature,
    idempotencyKey: null,
    requestId,
  };
}
