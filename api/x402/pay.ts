/**
 * Pays a link with one authorization. Checks go from cheap to dear; the unique insert is the only one that counts under
 * concurrency. From the moment the payment is accepted the answer is what the row becomes, never a guess.
 */
import { type Authorization, checkTerms } from "../../core/domain/authorization.ts";
import { newPaymentId, newTransactionId } from "../../core/domain/ids.ts";
import { effectiveStatus } from "../../core/domain/link.ts";
import { tagOfNonce } from "../../core/domain/link-tag.ts";
import { NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { isSettled, type PaymentRefusal } from "../../core/domain/payment.ts";
import { isFullOfDoubts } from "../../db/links/doubts.ts";
import { findPayableLink, type PayableLinkRow } from "../../db/links/payable-links.ts";
import {
  findPaymentByAuthorization,
  findPaymentByIdempotencyKey,
  type NewPayment,
  type PaymentView,
} from "../../db/payments/payments.ts";
import { within } from "../../db/postgres/retry-while-unavailable.ts";
import { type Acceptor, OverloadedError } from "./accept.ts";
import { awaitPayment, insist, type PaymentEnd, refOf, refusalOf } from "./await-payment.ts";
import type { ChainClock } from "./chain-time.ts";
import type { X402Deps } from "./deps.ts";
import type { PaymentAttempt } from "./payload.ts";
import type { PaymentReader } from "./read-payment.ts";
import { whyNotRelayed } from "./relay-limits.ts";
import { requeue } from "./requeue.ts";
import { judgeShownAgain, type ShownAgain, type StoredAuthorization } from "./shown-again.ts";
import { verifyPayer } from "./verify-payer.ts";

export type PayTools = X402Deps & {
  acceptor: Acceptor<NewPayment>;
  clock: ChainClock;
  readPayment: PaymentReader;
};

export type PayOrder = {
  linkId: string;
  attempt: PaymentAttempt;
  /** `Idempotency-Key`, or the payment-identifier extension's id. */
  idempotencyKey: string | undefined;
  requestId: string;
  /** Called when bytes may leave from now on, or may have left: from here on an answer comes in time, and no failure is told for certain. */
  goOn(): void;
  /** Takes one from the payer's limit, once the signature is known to be the payer's; throws RATE_LIMITED when there is none left. */
  countPayer(payer: string): Promise<void>;
};

/** How a payment attempt ended, or stands when the wait is over. */
export type PayResult =
  | Exclude<PaymentEnd, { kind: "failed" }>
  /** The same authorization had settled this link before; `sameKey` when the caller showed the same idempotency key. */
  | { kind: "replayed"; payment: PaymentView; sameKey: boolean }
  /** A stranger had sent the same authorization: the link is paid by it, without a payment of ours. */
  | { kind: "paid-elsewhere"; network: NetworkId; txHash: string; logIndex: number | null }
  | {
      kind: "refused";
      reason: PaymentRefusal;
      message: string;
      network?: NetworkId;
      txHash?: string | null;
      retryable?: boolean;
      /** The caller's idempotency key belongs to another payment. */
      isKeyTaken?: boolean;
    };

export async function payLink(tools: PayTools, order: PayOrder): Promise<PayResult> {
  const nonceTag = tagOfNonce(order.attempt.authorization.nonce);
  const link = await findPayableLink(tools.sql, order.linkId, nonceTag);
  if (!link) return refuse("NOT_FOUND", "there is no payment link with this id");
  const { attempt } = order;
  const { network } = link;
  if (link.taggedLinkId !== null && link.taggedLinkId !== link.id)
    return refuse("NONCE_USED", "this nonce names another payment link", network);
  const earlier = await findEarlier(tools, link, order);
  if (earlier) return earlier;
  const unpayable = whyUnpayable(link, new Date());
  if (unpayable) return { ...unpayable, network };
  const unrelayed = whyNotRelayed(link, tools.config, new Date());
  if (unrelayed) return { kind: "refused", ...unrelayed, network };
  if (attempt.network !== network) {
    return refuse("NETWORK_MISMATCH", `this link is paid on ${network}`, network);
  }
  const terms = checkTerms(
    attempt.authorization,
    { payTo: link.recipient, amountUnits: link.amountUnits },
    await tools.clock.nowS(network),
  );
  if (!terms.ok) return refuse(terms.reason, TERMS_MESSAGES[terms.reason] ?? terms.reason, network);
  const payer = await verifyPayer(tools.chains.get(network), network, attempt);
  if (!payer.ok) return { ...refuse(payer.reason, payer.message, network), retryable: payer.retryable };
  await order.countPayer(attempt.authorization.from);
  return acceptAndWait(tools, link, order, payer);
}

/** Why nobody can pay this link now; undefined when somebody can. */
export function whyUnpayable(
  link: PayableLinkRow,
  now: Date,
): Extract<PayResult, { kind: "refused" }> | undefined {
  const status = effectiveStatus(link, now);
  if (status === "PAID") return refuse("LINK_ALREADY_PAID", "this link is paid already");
  if (link.paymentId !== null || link.paidTxHash !== null) {
    return refuse("PAYMENT_IN_PROGRESS", "another payment of this link is on its way");
  }
  if (status === "EXPIRED" || link.expiresAt <= now)
    return refuse("LINK_NOT_PAYABLE", "this link has expired");
  if (status === "CANCELLED") return refuse("LINK_NOT_PAYABLE", "this link was cancelled by its merchant");
  return undefined;
}

/** The same authorization, or the same idempotency key, seen before. */
async function findEarlier(
  tools: PayTools,
  link: PayableLinkRow,
  order: PayOrder,
): Promise<PayResult | undefined> {
  const { authorization } = order.attempt;
  const isPaying = link.paymentId !== null && isUseOf(link.payer, link.nonce, authorization);
  const hasPaid = link.paidTxHash !== null && isUseOf(link.paidFrom, link.paidNonce, authorization);
  if (isPaying || hasPaid) {
    const shown = await judgeForLink(tools, link, order.attempt, isPaying);
    if (shown === "other") {
      return refuse("NONCE_USED", "this nonce belongs to another authorization of its payer", link.network);
    }
    if (shown === "unknown") {
      const message = "the payer's contract can't be asked now whether it signed this";
      return { ...refuse("INTERNAL_ERROR", message, link.network), retryable: true };
    }
  }
  if (isPaying && link.paymentId !== null) return rejoin(tools, link, link.paymentId, order);
  const { paidTxHash: txHash, paidLogIndex: logIndex, network } = link;
  if (hasPaid && txHash !== null) return { kind: "paid-elsewhere", network, txHash, logIndex };
  if (order.idempotencyKey === undefined || link.paymentId === null) return undefined;
  const keyed = await findPaymentByIdempotencyKey(tools.sql, link.id, order.idempotencyKey);
  if (!keyed) return undefined;
  return {
    ...refuse("IDEMPOTENCY_KEY_REUSED", KEY_REUSED_MESSAGE, link.network),
    isKeyTaken: true,
  };
}

/** Without the other payment's hash: who reads it here would take it for his own. */
const KEY_REUSED_MESSAGE =
  "this idempotency key was used for another payment of this link; nothing was done with this one";

function isUseOf(payer: string | null, nonce: string | null, { from, nonce: shown }: Authorization): boolean {
  return payer === from && nonce === shown;
}

/** Only what its payer signed for this link is the payment that holds or has paid it. */
async function judgeForLink(
  tools: PayTools,
  link: PayableLinkRow,
  attempt: PaymentAttempt,
  isPaying: boolean,
): Promise<ShownAgain> {
  const { network } = link;
  const { to, value } = attempt.authorization;
  if (attempt.network !== network || to !== link.recipient || value !== link.amountUnits) return "other";
  const stored = isPaying ? storedOf(link) : undefined;
  return judgeShownAgain(tools.chains.get(network), network, stored, attempt);
}

/** The authorization of the live payment that holds the link. */
function storedOf(link: PayableLinkRow): StoredAuthorization | undefined {
  const { payerKind, signature, validAfter, validBefore, recipient, amountUnits } = link;
  if (payerKind === null || signature === null || validAfter === null || validBefore === null)
    return undefined;
  return { payerKind, signature, validAfter, validBefore, recipient, amountUnits };
}

const FIRST_LOOK_MS = 2_000;

/** In flight: the same outcome. Settled before: the original, told as what it is. */
async function rejoin(tools: PayTools, link: PayableLinkRow, paymentId: string, order: PayOrder) {
  order.goOn();
  const watcher = tools.outcomes.watch(paymentId);
  const payment = await within(FIRST_LOOK_MS, tools.readPayment(paymentId)).catch(() => undefined);
  if (payment && isSettled(payment)) {
    watcher.cancel();
    const sameKey = payment.idempotencyKey !== null && payment.idempotencyKey === order.idempotencyKey;
    return { kind: "replayed", payment, sameKey } as const;
  }
  return told(await awaitPayment(tools, watcher, { id: paymentId, linkId: link.id, network: link.network }));
}

async function acceptAndWait(
  tools: PayTools,
  link: PayableLinkRow,
  order: PayOrder,
  payer: { kind: "EOA" | "CONTRACT"; signature: NewPayment["signature"] },
): Promise<PayResult> {
  const payment = newPayment(link, order, payer);
  order.goOn();
  const watcher = tools.outcomes.watch(payment.id);
  try {
    const accepted = await insist(tools, () => tools.acceptor.accept(payment));
    if (accepted) return told(await awaitPayment(tools, watcher, payment));
    const loss =
      accepted === false &&
      (await insist(tools, () => explainLoss(tools, link, order, payment), { waits: true }));
    return loss || { kind: "unsettled", payment: refOf(payment) };
  } catch (error) {
    if (!(error instanceof OverloadedError)) throw error;
    const message = "too many payments are waiting; nothing was stored";
    return { ...refuse("INTERNAL_ERROR", message, link.network), retryable: true };
  } finally {
    watcher.cancel();
  }
}

function told(end: PaymentEnd): PayResult {
  if (end.kind !== "failed") return end;
  const { payment } = end;
  return { kind: "refused", ...refusalOf(payment), network: payment.network, txHash: payment.txHash };
}

/** The insert took nothing: the authorization is known, or the link moved since it was read. */
async function explainLoss(
  tools: PayTools,
  link: PayableLinkRow,
  order: PayOrder,
  payment: NewPayment,
): Promise<PayResult> {
  const known = await findPaymentByAuthorization(tools.sql, payment);
  if (known && known.linkId !== link.id) {
    const message = "this authorization was used for another link";
    return { ...refuse("NONCE_USED", message, link.network), txHash: known.txHash };
  }
  // stored by ourselves, with a commit whose answer was lost
  if (known?.id === payment.id)
    return told(await awaitPayment(tools, tools.outcomes.watch(known.id), payment));
  if (known && known.state !== "FAILED") return rejoin(tools, link, known.id, order);
  if (known) {
    const watcher = tools.outcomes.watch(known.id);
    const requeued = await requeue(tools.sql, known.id, payment);
    if (requeued) return told(await awaitPayment(tools, watcher, { ...payment, id: known.id }));
    watcher.cancel();
  }
  const now = await findPayableLink(tools.sql, link.id);
  const earlier = now && (await findEarlier(tools, now, order));
  if (earlier) return earlier;
  const obstacle = now && whyUnpayable(now, new Date());
  if (!obstacle && known) return told({ kind: "failed", payment: known });
  if (!obstacle && (await isFullOfDoubts(tools.sql, link.id))) {
    const message = "earlier payments of this link may still turn out executed; nothing was stored";
    return { ...refuse("INTERNAL_ERROR", message, link.network), retryable: true };
  }
  return {
    ...(obstacle ?? refuse("PAYMENT_IN_PROGRESS", "another payment came first")),
    network: link.network,
  };
}

function newPayment(
  link: PayableLinkRow,
  order: PayOrder,
  payer: { kind: "EOA" | "CONTRACT"; signature: NewPayment["signature"] },
): NewPayment {
  const { authorization } = order.attempt;
  return {
    id: newPaymentId(),
    transactionId: newTransactionId(),
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
    idempotencyKey: order.idempotencyKey ?? null,
    requestId: order.requestId,
  };
}

const TERMS_MESSAGES: Partial<Record<PaymentRefusal, string>> = {
  RECIPIENT_MISMATCH: "the authorization pays another address than this link's",
  AMOUNT_EXCEEDS_MAXIMUM: "the authorization is for more than this link asks",
  AMOUNT_BELOW_REQUIRED: "the authorization is for less than this link asks",
  EXPIRED_TRANSFER: "the authorization is over, or too little time is left to get it into a block",
  NOT_YET_VALID: "the authorization is not valid yet",
};

function refuse(
  reason: PaymentRefusal,
  message: string,
  network?: NetworkId,
): Extract<PayResult, { kind: "refused" }> {
  return { kind: "refused", reason, message, ...(network ? { network } : {}) };
}
