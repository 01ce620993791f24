/**
 * Settles a payment for somebody else's resource on the same engine as our own links: stored before anything is sent, relayed in
 * batches, settled by what the chain holds. The same payload again gets the same answer.
 */
import { newPaymentId } from "../../core/domain/ids.ts";
import { NETWORKS } from "../../core/domain/networks.ts";
import { type NewFacilitatedPayment, requeueFacilitatedPayment } from "../../db/facilitated-payments.ts";
import type { Outcomes } from "../../db/outcome.ts";
import { findPaymentByAuthorization, type PaymentView } from "../../db/payments.ts";
import { enqueue } from "../../db/queue.ts";
import type { Acceptor } from "../x402/accept.ts";
import { awaitPayment, insist, isSettled, type PaymentEnd, refOf, refusalOf } from "../x402/await-payment.ts";
import type { X402Deps } from "../x402/deps.ts";
import type { PaymentReader } from "../x402/read-payment.ts";
import { stockReason } from "../x402/stock-reasons.ts";
import { verifyPayer } from "../x402/verify-payer.ts";
import type { FacilitatorRequest } from "./request.ts";
import { checkPayment, type VerifyTools } from "./verify.ts";

export type SettleTools = VerifyTools &
  Pick<X402Deps, "sql" | "log" | "config"> & {
    outcomes: Outcomes;
    acceptor: Acceptor<NewFacilitatedPayment>;
    readPayment: PaymentReader;
  };

/** Who asked, in the books and in the logs. */
export type Asker = { userId: string; requestId: string };

export type Settlement =
  | { success: true; transaction: string }
  | { success: false; reason: string; transaction: string };

/** Non-terminal in stock servers: they ask once more with the same payload. */
const SETTLEMENT_PENDING = "settlement_pending";
const UNEXPECTED_SETTLE_ERROR = "unexpected_settle_error";

export async function settlePayment(
  tools: SettleTools,
  request: FacilitatorRequest,
  asker: Asker,
): Promise<Settlement> {
  const earlier = await findEarlier(tools, request);
  if (earlier && earlier.state !== "FAILED") return rejoin(tools, request, earlier);
  const checked = await checkPayment(tools, request);
  if (!checked.ok) return { success: false, reason: checked.reason, transaction: "" };
  const payment = newPayment(request, asker, checked.payer);
  if (earlier) return retry(tools, earlier, payment);
  const watcher = tools.outcomes.watch(payment.id);
  try {
    const accepted = await insist(tools, () => tools.acceptor.accept(payment));
    if (accepted) return told(await awaitPayment(tools, watcher, { ...payment, linkId: null }));
    // known meanwhile: a twin of this request, or this one with a commit whose answer was lost
    const twin = accepted === false && (await insist(tools, () => findEarlier(tools, request)));
    if (twin) return rejoin(tools, request, twin);
    return told({ kind: "unsettled", payment: refOf({ ...payment, linkId: null }) });
  } finally {
    watcher.cancel();
  }
}

function findEarlier(
  { sql }: SettleTools,
  { network, attempt }: FacilitatorRequest,
): Promise<PaymentView | undefined> {
  const { from: payer, nonce } = attempt.authorization;
  return findPaymentByAuthorization(sql, { network, token: NETWORKS[network].usdc.address, payer, nonce });
}

/**
 * The same payload again. A payment of a link of ours, or of other terms, is no payment for this resource; and who only saw a
 * payer's nonce on the chain, without the payer's signature over these terms, has not paid.
 */
async function rejoin(
  tools: SettleTools,
  { network, terms, attempt }: FacilitatorRequest,
  payment: PaymentView,
): Promise<Settlement> {
  const { to, value } = attempt.authorization;
  const isSame =
    payment.linkId === null &&
    [payment.recipient, to].every((address) => address === terms.payTo) &&
    [payment.amountUnits, value].every((units) => units === terms.amountUnits);
  if (!isSame) return { success: false, reason: stockReason("NONCE_USED"), transaction: "" };
  const payer = await verifyPayer(tools.chains.get(network), network, attempt);
  if (!payer.ok) return { success: false, reason: stockReason(payer.reason), transaction: "" };
  if (isSettled(payment)) return told({ kind: "settled", payment });
  return told(await awaitPayment(tools, tools.outcomes.watch(payment.id), payment));
}

/** It failed before with nothing under way: the payer may have been funded since, or the node is back. */
async function retry(
  tools: SettleTools,
  earlier: PaymentView,
  payment: NewFacilitatedPayment,
): Promise<Settlement> {
  if (earlier.linkId !== null) return { success: false, reason: stockReason("NONCE_USED"), transaction: "" };
  const watcher = tools.outcomes.watch(earlier.id);
  const { network } = payment;
  const isQueued = await insist(tools, () =>
    tools.sql.begin(async (tx) => {
      if (!(await requeueFacilitatedPayment(tx, earlier.id, payment))) return false;
      await enqueue(tx, "relay_payments", { network });
      return true;
    }),
  );
  if (isQueued === false) {
    watcher.cancel();
    return told({ kind: "failed", payment: earlier });
  }
  return told(await awaitPayment(tools, watcher, { id: earlier.id, linkId: null, network }));
}

function told(end: PaymentEnd): Settlement {
  const { payment } = end;
  const transaction = payment.txHash ?? payment.attemptHash ?? "";
  switch (end.kind) {
    case "settled":
      return { success: true, transaction };
    case "submitted":
    case "unsettled":
      return { success: false, reason: SETTLEMENT_PENDING, transaction };
    case "failed": {
      const { reason, retryable } = refusalOf(end.payment);
      return {
        success: false,
        reason: retryable ? UNEXPECTED_SETTLE_ERROR : stockReason(reason),
        transaction: "",
      };
    }
  }
}

function newPayment(
  { network, terms, attempt }: FacilitatorRequest,
  asker: Asker,
  payer: { kind: "EOA" | "CONTRACT"; signature: NewFacilitatedPayment["signature"] },
): NewFacilitatedPayment {
  const { authorization } = attempt;
  return {
    id: newPaymentId(),
    facilitatorUserId: asker.userId,
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
    requestId: asker.requestId,
  };
}
