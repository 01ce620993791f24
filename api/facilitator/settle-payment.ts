/**
 * Settles a payment for another service's resource with the same engine as our own links: stored before anything is sent, relayed in batches,
 * settled according to the chain.
 *
 * Every success releases a resource, and a payload is public once it is on the chain. So a success is reported once, to the API key that
 * submitted the payment, however many requests submit it concurrently; again only for the same Idempotency-Key or payment-identifier, or when the
 * connection of the first response was closed (report-success-once.ts). An authorization executed before it was submitted here is refused with
 * the hash of its transaction: x402's `exact` scheme demands that a consumed authorization fails. Links differ: a link can be paid only once, by
 * any sender.
 */
import { newPaymentId } from "../../core/domain/ids.ts";
import { NETWORKS } from "../../core/domain/networks.ts";
import { isSettled, type Refusal, standardReason } from "../../core/domain/payment.ts";
import { whyBudgetSpent } from "../../core/domain/relay-budget.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import type { Asker } from "../../db/payments/claim-success-answer.ts";
import {
  type NewFacilitatedPayment,
  requeueFacilitatedPayment,
} from "../../db/payments/facilitated-payments.ts";
import { findMerchantBudget } from "../../db/payments/merchant-gas-budget.ts";
import { claimIdentifier, claimSettleKey } from "../../db/payments/payment-identifiers.ts";
import {
  type AuthorizedView,
  findPaymentByAuthorization,
  type PaymentView,
} from "../../db/payments/payments.ts";
import {
  awaitPayment,
  failureOf,
  type PaymentEnd,
  refOf,
  retryUntilDeadline,
} from "../x402/await-payment.ts";
import type { PayTools } from "../x402/pay-tools.ts";
import { matchKnown } from "../x402/verify-payer.ts";
import { findExecution } from "./find-execution.ts";
import { type Connection, reportSuccessOnce } from "./report-success-once.ts";
import { type FacilitatorRequest, identifiedOf, keyedOf, keyOf } from "./request.ts";
import { checkPayment, type VerifyTools } from "./verify-payment.ts";

export type SettleTools = VerifyTools & PayTools<NewFacilitatedPayment>;

/** The caller, and the connection that waits for the response. */
export type SettleCall = { asker: Asker; requestId: string; connection: Connection };

export type Settlement =
  | { success: true; transaction: string }
  | { success: false; reason: string; transaction: string; message?: string };

/** Not final for standard servers: they retry once with the same payload. */
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
    return await settlementOf(tools, request, call, outcome);
  } catch (error) {
    tools.log.error({ err: error, requestId: call.requestId }, "settlement failed");
    return refuse(UNEXPECTED_SETTLE_ERROR);
  }
}

const KEY_REUSED =
  "this Idempotency-Key was used with another authorization; this request was ignored. Use a new key for a new payment";
export const IDENTIFIER_REUSED =
  "this payment-identifier was used with another authorization of this payer; this request was ignored";

type Outcome = PaymentEnd | { refusal: string; message?: string };

async function bringToEnd(
  tools: SettleTools,
  request: FacilitatorRequest,
  call: SettleCall,
): Promise<Outcome> {
  const earlier = await findEarlier(tools, request);
  if (earlier && earlier.state !== "FAILED") return rejoin(tools, request, call.asker, earlier);
  const checked = await checkPayment(tools, request);
  if (!checked.ok) return { refusal: checked.reason, ...messageOf(checked.message) };
  const spent = await findSpentBudget(tools, request, call.asker);
  if (spent) return { refusal: spent.reason, message: spent.message };
  const reused = await claimKeys(tools, request, call.asker);
  if (reused) return reused;
  const payment = newPayment(request, call, checked.payer);
  if (earlier) return retry(tools, request, call.asker, { earlier, payment });
  const watcher = tools.outcomes.watch(payment.id);
  try {
    const accepted = await retryUntilDeadline(tools, () => tools.acceptor.accept(payment));
    if (accepted)
      return await awaitPayment(tools, watcher, { ...payment, linkId: null }, { isJustStored: true });
    // stored by a concurrent request, or by this one in a commit whose response was lost
    const stored = accepted === false && (await retryUntilDeadline(tools, () => findEarlier(tools, request)));
    if (stored) return await rejoin(tools, request, call.asker, stored);
    return { kind: "unsettled", payment: refOf({ ...payment, linkId: null }) };
  } finally {
    watcher.cancel();
  }
}

/**
 * Claims the request's Idempotency-Key and payment-identifier, or neither: an authorization that is ignored for one has not used the other.
 * They stay its own when it fails, because it may be executed until it expires. Returns the refusal of a request that is ignored, else false.
 */
async function claimKeys(
  { sql }: SettleTools,
  request: FacilitatorRequest,
  asker: Asker,
): Promise<Outcome | false> {
  const keyed = keyedOf(request, asker);
  const identified = identifiedOf(request, asker.userId);
  if (!keyed && !identified) return false;
  try {
    await sql.begin(async (tx) => {
      if (keyed && !(await claimSettleKey(tx, keyed))) throw new KeyReused(KEY_REUSED);
      if (identified && !(await claimIdentifier(tx, identified))) throw new KeyReused(IDENTIFIER_REUSED);
    });
    return false;
  } catch (error) {
    if (error instanceof KeyReused)
      return { refusal: standardReason("IDEMPOTENCY_KEY_REUSED"), message: error.message };
    throw error;
  }
}

/** Rolls the claims back. */
class KeyReused extends Error {}

/** Relays for other services count against the gas budget of the API key's owner. */
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
 * The same payload again. A payment of one of our links, or with other terms, does not pay for this resource; nor do a payer
 * and nonce copied from the chain, without the payer's signature of these terms. The request's keys are its own then, as if they had come first.
 */
async function rejoin(
  tools: SettleTools,
  request: FacilitatorRequest,
  asker: Asker,
  payment: AuthorizedView,
): Promise<Outcome> {
  const { network, terms, attempt } = request;
  const { to, value } = attempt.authorization;
  const isSame =
    payment.linkId === null &&
    [payment.recipient, to].every((address) => address === terms.payTo) &&
    [payment.amountUnits, value].every((units) => units === terms.amountUnits);
  if (!isSame) return { refusal: standardReason("NONCE_USED") };
  const shown = await matchKnown(tools.chains.get(network), network, payment, attempt);
  if (shown === "unknown") return { refusal: UNEXPECTED_SETTLE_ERROR };
  if (shown === "other") return { refusal: standardReason("INVALID_SIGNATURE") };
  const reused = await retryUntilDeadline(tools, () => claimKeys(tools, request, asker));
  if (reused) return reused;
  if (reused === undefined) return { kind: "unsettled", payment: refOf(payment) };
  if (isSettled(payment)) return { kind: "settled", payment };
  return awaitPayment(tools, tools.outcomes.watch(payment.id), payment);
}

/** It failed without a transaction: since then the payer may have been funded, or the node may be available again. */
async function retry(
  tools: SettleTools,
  request: FacilitatorRequest,
  asker: Asker,
  { earlier, payment }: { earlier: PaymentView; payment: NewFacilitatedPayment },
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
    // queued again by a concurrent request, or by this one in a commit whose response was lost
    const now = await retryUntilDeadline(tools, () => findEarlier(tools, request));
    if (now && now.state !== "FAILED") return rejoin(tools, request, asker, now);
    return { kind: "failed", payment: now ?? earlier };
  }
  return awaitPayment(tools, watcher, { id: earlier.id, linkId: null, network });
}

async function settlementOf(
  tools: SettleTools,
  request: FacilitatorRequest,
  call: SettleCall,
  end: PaymentEnd,
): Promise<Settlement> {
  const transaction = end.payment.txHash ?? end.payment.attemptHash ?? "";
  switch (end.kind) {
    case "settled":
      // we never signed a transaction for it, so it was executed before it was submitted here, although the ledger read that later
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

/** The last step: nothing may be awaited between this and the response. */
async function answerSuccess(
  tools: SettleTools,
  { asker, connection }: SettleCall,
  paymentId: string,
  transaction: string,
): Promise<Settlement> {
  switch (await reportSuccessOnce(tools, { paymentId, asker, connection })) {
    case "ours":
      return { success: true, transaction };
    case "unknown":
      return { success: false, reason: SETTLEMENT_PENDING, transaction };
    case "refused":
      return { ...refuse(standardReason("NONCE_USED"), ANSWERED_MESSAGE), transaction };
  }
}

const ANSWERED_MESSAGE =
  "a settlement is reported once per payment: this one was already reported, or belongs to another API key; repeat the request with the same API key and the same Idempotency-Key or payment-identifier to get it again";

/** Executed before it was submitted here: a failure, whoever sent the transaction, with its hash if a node knows it. */
async function explainUsed(
  { chains }: SettleTools,
  { network, attempt }: FacilitatorRequest,
): Promise<Settlement> {
  const chain = chains.get(network);
  const transaction = chain && (await findExecution(chain, attempt.authorization));
  return transaction ? used(transaction) : refuse(standardReason("NONCE_USED"));
}

function used(transaction: string): Settlement {
  const message = "the authorization was executed before it was submitted here";
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
