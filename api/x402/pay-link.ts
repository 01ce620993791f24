/**
 * Pays a link with one authorization: reads the link, decides (core/domain/payment-acceptance.ts), acts on it. Under concurrency only the
 * unique insert decides. After acceptance the response is the state of the payment's row, never a guess.
 */

import { newPaymentId } from "../../core/domain/ids.ts";
import type { Language } from "../../core/domain/language.ts";
import { linkTag, tagOfNonce } from "../../core/domain/link-tag.ts";
import { NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { isSettled, type PaymentRefusal, refusalOf } from "../../core/domain/payment.ts";
import {
  type AcceptanceDecision,
  decideAcceptance,
  NO_PLACE_LEFT,
  type PayableLink,
} from "../../core/domain/payment-acceptance.ts";
import { choiceOf, useIdOf } from "../../core/domain/reusable-link.ts";
import { unreachable } from "../../core/domain/unreachable.ts";
import { annotateSpan } from "../../core/tracing/spans.ts";
import { lowerCreatedBlock } from "../../db/links/created-block.ts";
import type { AskedLink } from "../../db/links/payable-links.ts";
import { hasTooManyUnknownOutcomes } from "../../db/links/unknown-outcomes.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import {
  findPaymentByAuthorization,
  findUseByAuthorization,
  type PaymentView,
} from "../../db/payments/payments.ts";
import { withTimeout } from "../../db/postgres/retry-while-unavailable.ts";
import { openUseUncontended } from "../links/open-use.ts";
import { awaitPayment, failureOf, type PaymentEnd, refOf, retryUntilDeadline } from "./await-payment.ts";
import { OverloadedError, requeueLinkPayment } from "./group-commit.ts";
import { limitDatabaseWait } from "./limit-database-wait.ts";
import type { PayTools } from "./pay-tools.ts";
import type { PaymentAttempt } from "./payload.ts";
import { refuseEndedUse } from "./refuse-ended-use.ts";
import { matchKnown, type PayerVerdict, verifyPayer } from "./verify-payer.ts";

export type LinkPayTools = PayTools<NewPayment>;

export type PayOrder = {
  linkId: string;
  /** From the `Idempotency-Key`, or the payment-identifier extension. */
  attempt: PaymentAttempt & { readonly idempotencyKey: string | undefined };
  requestId: string;
  /** The caller's address, as rate limits count it. */
  opener: string;
  /** The language of the page that the payer saw; undefined for programs. */
  payerLanguage: Language | undefined;
  /**
   * Called before a payment is stored or its outcome is awaited: from here on a response is sent in time, and an error does not mean that the
   * payment failed.
   */
  onAccepting(): void;
  /** Counts against the payer's limit once the signature is verified; throws RATE_LIMITED when the limit is exceeded. */
  countPayer(payer: string): Promise<void>;
};

/** How a payment attempt ended, or its state when the wait ends. */
export type PayResult =
  | Exclude<PaymentEnd, { kind: "failed" }>
  /** The same authorization had already settled this link; `sameKey` when the caller sent the same idempotency key. */
  | { kind: "replayed"; payment: PaymentView; sameKey: boolean }
  /** A third party's transaction executed the same authorization and paid the link, without a payment of ours. */
  | { kind: "paid-elsewhere"; network: NetworkId; txHash: string; logIndex: number | null }
  | {
      kind: "refused";
      reason: PaymentRefusal;
      message: string;
      network?: NetworkId;
      txHash?: string | null;
      retryable?: boolean;
    };

/**
 * Nothing was stored, and what stood in the way is gone: another payment has failed since, or a failover has lost the link's use. It is
 * retried; `refusal` is the answer once no retry is left.
 */
type Conflict = { kind: "conflict"; refusal: PayResult };

const RETRIES_MAX = 2;

export async function payLink(tools: LinkPayTools, order: PayOrder): Promise<PayResult> {
  let result = await payOnce(tools, order);
  for (let retries = 0; result.kind === "conflict" && retries < RETRIES_MAX; retries++)
    // each has its own limit, as nothing is stored yet; the request's limit ends with the first that stores a payment
    result = await limitDatabaseWait((onAccepting) =>
      payOnce(tools, {
        ...order,
        onAccepting() {
          order.onAccepting();
          onAccepting();
        },
        countPayer: async () => {},
      }),
    );
  return result.kind === "conflict" ? result.refusal : result;
}

async function payOnce(tools: LinkPayTools, order: PayOrder): Promise<PayResult | Conflict> {
  const link = await tools.readLink(toAsked(order));
  if (!link) return { kind: "refused", ...refusalOf("NOT_FOUND") };
  if (link.isReusable) return payUse(tools, link, order);
  return act(
    tools,
    link,
    order,
    decideAcceptance(link, order.attempt, { now: new Date(), limits: tools.config }),
  );
}

/**
 * Pays a use of a reusable link. Its id derives from the authorization, or from its payer's idempotency key, so the same bytes or
 * the same key lead to the same use; it is opened only for a payer whose signature is valid and whose value fits the link.
 */
async function payUse(
  tools: LinkPayTools,
  parent: PayableLink,
  order: PayOrder,
): Promise<PayResult | Conflict> {
  const { authorization, idempotencyKey } = order.attempt;
  const { network } = parent;
  const shownId = await findUseByAuthorization(tools.sql, parent, authorization);
  const id = shownId ?? useIdOf(parent.id, authorization, idempotencyKey);
  const use = { ...order, linkId: id };
  const opened = await tools.readLink({ id });
  const choice = choiceOf(parent);
  const isOfKey = shownId === undefined && idempotencyKey !== undefined;
  if (opened && isOfKey && choice && opened.amountUnits !== authorization.value)
    return { kind: "refused", ...refusalOf("IDEMPOTENCY_KEY_REUSED"), network };
  if (opened) {
    const result = await payOpened(tools, parent, use);
    if (result.kind !== "refused" || result.reason !== "LINK_NOT_PAYABLE") return result;
    const refusal = await refuseEndedUse(tools, parent, { asked: toAsked(use), idempotencyKey });
    return refusal ? { ...result, ...refusal } : result;
  }
  const amountUnits = choice ? authorization.value : parent.amountUnits;
  const decision = decideAcceptance({ ...parent, amountUnits }, order.attempt, {
    now: new Date(),
    limits: tools.config,
  });
  if (decision.kind !== "accept") return act(tools, parent, order, decision);
  const verdict = await verifyPayer(tools.chains.get(network), network, order.attempt);
  if (!verdict.ok) return refuse(parent, verdict.reason, verdict.message, { retryable: verdict.retryable });
  if (isSpent(parent)) return refuseSpent(tools, parent, newPayment(parent, order, verdict));
  const made = await openUseUncontended(tools.sql, {
    ...{ parentId: parent.id, id, tag: linkTag(id), amountUnits, opener: order.opener },
    isSigned: true,
  });
  if (!made.ok) {
    const message = made.reason === "LINK_ALREADY_PAID" ? NO_PLACE_LEFT : undefined;
    return { kind: "refused", ...refusalOf(made.reason, message), network };
  }
  await lowerCreatedBlock(tools.sql, id);
  return payOpened(tools, parent, use);
}

/** A use that was there a moment ago, and is opened again if a failover has lost it. */
async function payOpened(
  tools: LinkPayTools,
  parent: PayableLink,
  use: PayOrder,
): Promise<PayResult | Conflict> {
  const result = await payOnce(tools, use);
  const isLost = result.kind === "refused" && result.reason === "NOT_FOUND";
  return isLost ? { kind: "conflict", refusal: refuseLost(parent) } : result;
}

function refuseLost(link: PayableLink): PayResult {
  const message = "the database has lost what was opened for this payment; nothing was stored, retry";
  return refuse(link, "INTERNAL_ERROR", message, { retryable: true });
}

async function act(
  tools: LinkPayTools,
  link: PayableLink,
  order: PayOrder,
  decision: AcceptanceDecision,
): Promise<PayResult | Conflict> {
  const { network } = link;
  switch (decision.kind) {
    case "refuse":
      return refuse(link, decision.reason, decision.message);
    case "join": {
      const match = await matchKnown(tools.chains.get(network), network, decision.stored, order.attempt);
      return match === "same" ? join(tools, link, order, decision.paymentId) : refuseMatch(link, match);
    }
    case "paid-elsewhere": {
      const match = await matchKnown(tools.chains.get(network), network, undefined, order.attempt);
      const { kind, txHash, logIndex } = decision;
      return match === "same" ? { kind, network, txHash, logIndex } : refuseMatch(link, match);
    }
    case "accept": {
      const payer = await verifyPayer(tools.chains.get(network), network, order.attempt);
      if (!payer.ok) return refuse(link, payer.reason, payer.message, { retryable: payer.retryable });
      const payment = newPayment(link, order, payer);
      if (isSpent(link)) return refuseSpent(tools, link, payment);
      // anybody can show an executed authorization, which must not use up its payer's limit
      if (!link.isExecuted) await order.countPayer(payment.payer);
      return accept(tools, link, order, payment);
    }
    default:
      return unreachable(decision);
  }
}

function toAsked({ linkId: id, attempt: { network, authorization } }: PayOrder): AskedLink {
  const { from: payer, nonce } = authorization;
  return { id, nonceTag: tagOfNonce(nonce), shown: network && { network, payer, nonce } };
}

/** No payment of this link can come of the authorization: another one has it, or it was executed and the payment made of it has failed. */
function isSpent({ acceptedBefore, isExecuted }: PayableLink): boolean {
  return acceptedBefore === "ELSEWHERE" || (acceptedBefore === "HERE" && isExecuted);
}

async function refuseSpent(tools: LinkPayTools, link: PayableLink, payment: NewPayment): Promise<PayResult> {
  const known = await findPaymentByAuthorization(tools.sql, payment);
  return known && known.linkId !== link.id
    ? refuseOtherLinks(link, known)
    : refuse(link, "NONCE_USED", "another transaction executed this authorization");
}

function refuseOtherLinks(link: PayableLink, { txHash }: PaymentView): PayResult {
  return refuse(link, "NONCE_USED", "this authorization was used for another link", { txHash });
}

const FIRST_READ_MS = 2_000;

/** In flight: the same outcome. Settled before: the original, as a replay. */
async function join(
  tools: LinkPayTools,
  { id: linkId, network }: PayableLink,
  { attempt: { idempotencyKey }, onAccepting }: PayOrder,
  paymentId: string,
): Promise<PayResult> {
  onAccepting();
  const watcher = tools.outcomes.watch(paymentId);
  const payment = await withTimeout(FIRST_READ_MS, tools.readPayment(paymentId)).catch(() => undefined);
  if (payment && isSettled(payment)) {
    watcher.cancel();
    const sameKey = payment.idempotencyKey !== null && payment.idempotencyKey === idempotencyKey;
    return { kind: "replayed", payment, sameKey };
  }
  return resultOf(await awaitPayment(tools, watcher, { id: paymentId, linkId, network }));
}

async function accept(
  tools: LinkPayTools,
  link: PayableLink,
  order: PayOrder,
  payment: NewPayment,
): Promise<PayResult | Conflict> {
  order.onAccepting();
  annotateSpan({ "payment.id": payment.id, "link.id": payment.linkId });
  const watcher = tools.outcomes.watch(payment.id);
  try {
    const accepted = await retryUntilDeadline(tools, () => tools.acceptor.accept(payment));
    if (accepted) return resultOf(await awaitPayment(tools, watcher, payment, { isJustStored: true }));
    const result =
      accepted === false &&
      (await retryUntilDeadline(tools, () => resolveConflict(tools, link, order, payment), { waits: true }));
    return result || { kind: "unsettled", payment: refOf(payment) };
  } catch (error) {
    if (!(error instanceof OverloadedError)) throw error;
    const message = "the payment queue is full; nothing was stored, retry";
    return refuse(link, "INTERNAL_ERROR", message, { retryable: true });
  } finally {
    watcher.cancel();
  }
}

/** Nothing was inserted: the authorization already has a payment, or the link has changed since it was read. */
async function resolveConflict(
  tools: LinkPayTools,
  link: PayableLink,
  order: PayOrder,
  payment: NewPayment,
): Promise<PayResult | Conflict> {
  const known = await findPaymentByAuthorization(tools.sql, payment);
  // stored by this request, in a commit whose response was lost
  if (known?.id === payment.id) return awaitStored(tools, payment);
  if (known && known.linkId !== link.id) return refuseOtherLinks(link, known);
  if (known && known.state !== "FAILED") return join(tools, link, order, known.id);
  if (known && (await requeueLinkPayment(tools.sql, known.id, payment)))
    return awaitStored(tools, { ...payment, id: known.id });
  const current = await tools.readLink({ id: link.id });
  const decision =
    current && decideAcceptance(current, order.attempt, { now: new Date(), limits: tools.config });
  if (decision && decision.kind !== "accept") return act(tools, current, order, decision);
  if (known) return resultOf({ kind: "failed", payment: known });
  if (!current) return { kind: "conflict", refusal: refuseLost(link) };
  if (!(await hasTooManyUnknownOutcomes(tools.sql, link.id)))
    return {
      kind: "conflict",
      refusal: refuse(link, "PAYMENT_IN_PROGRESS", "another payment came first"),
    };
  const message =
    "earlier payments of this link may still turn out to have been executed; nothing was stored";
  return refuse(link, "INTERNAL_ERROR", message, { retryable: true });
}

async function awaitStored(tools: LinkPayTools, payment: NewPayment): Promise<PayResult> {
  return resultOf(await awaitPayment(tools, tools.outcomes.watch(payment.id), payment));
}

function resultOf(end: PaymentEnd): PayResult {
  if (end.kind !== "failed") return end;
  const { payment } = end;
  return { kind: "refused", ...failureOf(payment), network: payment.network, txHash: payment.txHash };
}

function newPayment(
  link: PayableLink,
  { attempt: { authorization, idempotencyKey }, requestId, payerLanguage }: PayOrder,
  payer: Extract<PayerVerdict, { ok: true }>,
): NewPayment {
  return {
    id: newPaymentId(),
    linkId: link.id,
    network: link.network,
    token: NETWORKS[link.network].usdc.address,
    payer: authorization.from,
    payerKind: payer.kind,
    recipient: link.recipient,
    amountUnits: link.amountUnits,
    validAfter: authorization.validAfter,
    validBefore: authorization.validBefore,
    nonce: authorization.nonce,
    signature: payer.signature,
    idempotencyKey: idempotencyKey ?? null,
    requestId,
    payerLanguage,
  };
}

function refuseMatch(link: PayableLink, match: "other" | "unknown"): PayResult {
  if (match === "other")
    return refuse(link, "NONCE_USED", "this nonce belongs to another authorization of its payer");
  const message = "the payer's contract could not be asked whether it signed this; retry";
  return refuse(link, "INTERNAL_ERROR", message, { retryable: true });
}

function refuse(
  { network }: PayableLink,
  reason: PaymentRefusal,
  message: string,
  details: { retryable?: boolean; txHash?: string | null } = {},
): PayResult {
  return { kind: "refused", reason, message, network, ...details };
}
