/**
 * Payments that are refused before they are sent, and how those that can't be sent now are handled: retry, wait for the ledger, or
 * fail permanently with a reason. Refusals by the token itself, such as of a blocklisted payer: core/chain/revert-reasons.ts.
 */
import type { SimulationResult } from "../../core/chain/relay.ts";
import { readAuthorizationState, readAuthorizationStates } from "../../core/chain/usdc.ts";
import type { PaymentRefusal } from "../../core/domain/payment.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { parseQuantity, toQuantity } from "../../core/rpc/parse-answers.ts";
import { checkUsedAuthorization, type LedgerVerdict } from "../../db/payments/check-used-authorization.ts";
import { type LeasedPayment, noteRefusals, noteUnavailable, returnLeases } from "../../db/payments/queue.ts";
import type { Payment } from "../../db/schema.ts";
import { type Failure, failQueuedPayments } from "./fail-payments.ts";
import type { PaymentNetwork } from "./payment-network.ts";

/** Number of simulations after which a transient or unexplained refusal is final. */
const TRANSIENT_ATTEMPTS_MAX = 3;
/** A window that is open by our clock will open with the chain's next blocks, so more simulations are made, as long as a caller waits. */
const OPENING_ATTEMPTS_MAX = 30;
const REFUSED_RETRY_MS = 300;
const LEDGER_RETRY_MS = 250;
/** Polls of an advancing ledger, after which the indexer has settled what reached the payee, or decided that it does not pay here. */
const LEDGER_POLLS_MAX = 40;
/** How long a caller waits; after that nothing was sent and the link is released. */
export const UNAVAILABLE_AFTER_MS = 8_000;
const UNAVAILABLE_RETRY_MS = 500;

/** The minimum time until a transaction signed now is mined. */
const LAST_MOMENT_S = 2n;
/** Transactions per payer and day that may pass simulation and then revert. */
const PAYER_REVERTS_MAX = 3;

export type Refused = { payment: LeasedPayment; refusal: Extract<SimulationResult, { ok: false }> };

/** Refuses payments before querying the chain; nothing of them has been sent. `headTimeS` is the newest block's time. */
export function rejectBeforeSimulation(
  payments: readonly LeasedPayment[],
  headTimeS: bigint,
): { sound: LeasedPayment[]; failures: Failure[] } {
  const failures: Failure[] = [];
  const sound = payments.filter((payment) => {
    const reason = reasonAgainst(payment, headTimeS);
    if (reason) failures.push({ payment, reason });
    return reason === undefined;
  });
  return { sound, failures };
}

function reasonAgainst(payment: LeasedPayment, headTimeS: bigint): string | undefined {
  // relaying it now would take the payer's money for a link that is paid
  if (payment.isLinkPaid) return "LINK_ALREADY_PAID";
  if (payment.validBefore <= headTimeS + LAST_MOMENT_S) return "EXPIRED_TRANSFER";
  if (payment.payerReverts >= PAYER_REVERTS_MAX) return "PAYMENT_NOT_ALLOWED";
  return undefined;
}

export async function handleRefusals(network: PaymentNetwork, refused: readonly Refused[]): Promise<void> {
  if (refused.length === 0) return;
  const used = refused.filter(({ refusal }) => refusal.reason === "NONCE_USED");
  const others = refused.filter(({ refusal }) => refusal.reason !== "NONCE_USED");
  const isTransient = ({ payment, refusal }: Refused) =>
    refusal.healable && payment.refusals < attemptsMaxOf(refusal.reason);
  await noteRefusals(
    network.deps.sql,
    others.filter(isTransient).map(({ payment }) => payment),
    REFUSED_RETRY_MS,
  );
  await failUnlessUsed(
    network,
    others
      .filter((one) => !isTransient(one))
      .map(({ payment, refusal }) => ({ payment, reason: refusal.reason })),
  );
  if (used.length > 0) {
    await waitForLedger(
      network,
      used.map(({ payment }) => payment),
    );
  }
}

function attemptsMaxOf(reason: PaymentRefusal): number {
  return reason === "NOT_YET_VALID" ? OPENING_ATTEMPTS_MAX : TRANSIENT_ATTEMPTS_MAX;
}

/** Releases leases; the payments are due again after `delayMs`. */
export async function releaseLeases(
  { deps }: PaymentNetwork,
  payments: readonly LeasedPayment[],
  delayMs: number,
): Promise<void> {
  await returnLeases(deps.sql, payments, delayMs);
}

/**
 * Node or relayer is unavailable: retry for a while, then fail before anything is sent. `triedMs`: how long this attempt took; `message` is for
 * the payer.
 */
export async function handleUnavailable(
  network: PaymentNetwork,
  payments: readonly LeasedPayment[],
  {
    why,
    triedMs,
    message,
    delayMs = UNAVAILABLE_RETRY_MS,
  }: { why: string; triedMs: number; message?: string | undefined; delayMs?: number },
): Promise<void> {
  const { deps } = network;
  deps.log.warn({ why, payments: payments.length }, "payments can't be relayed now");
  const over = await noteUnavailable(deps.sql, payments, {
    delayMs,
    triedMs,
    giveUpMs: UNAVAILABLE_AFTER_MS,
  });
  const failures = payments
    .filter((payment) => over.has(payment.id))
    .map((payment) => ({ payment, reason: "RELAYER_UNAVAILABLE", message }));
  try {
    await failUnlessUsed(network, failures);
  } catch (error) {
    if (!(error instanceof RpcTransportError)) throw error;
    await failQueuedPayments(
      network,
      failures.map((failure) => ({ ...failure, isOutcomeUnknown: true })),
    );
  }
}

/**
 * Fails payments for reasons that do not show whether their authorizations were used: an expired window, an unavailable relayer. Payments whose
 * authorization another transaction has used or cancelled are left to the ledger. Throws RpcTransportError when no node responds.
 */
export async function failUnlessUsed(network: PaymentNetwork, failures: readonly Failure[]): Promise<void> {
  if (failures.length === 0) return;
  const keys = failures.map(({ payment: { payer, nonce } }) => ({ authorizer: payer, nonce }));
  const areUsed = await readAuthorizationStates(network.chain, keys);
  const used = failures.filter((_, index) => areUsed[index]);
  if (used.length > 0) {
    await waitForLedger(
      network,
      used.map(({ payment }) => payment),
    );
  }
  await failQueuedPayments(
    network,
    failures.filter((_, index) => !areUsed[index]),
  );
}

/**
 * A node reports these authorizations as used or cancelled. A transfer to the link's wallet settles the link, whoever sent it, which the indexer
 * does. If a ledger that has read the chain that far has none, the money went elsewhere.
 */
async function waitForLedger(network: PaymentNetwork, payments: readonly LeasedPayment[]): Promise<void> {
  const { deps, chain } = network;
  const seenAtBlock = parseQuantity(await chain.request("eth_blockNumber", []), "eth_blockNumber");
  const verdicts = new Map(
    await Promise.all(
      payments.map(async (payment) => [payment.id, await judgeUsed(network, payment, seenAtBlock)] as const),
    ),
  );
  const judged = (verdict: LedgerVerdict) => payments.filter(({ id }) => verdicts.get(id) === verdict);
  const isOver = ({ id, refusals }: Payment) =>
    verdicts.get(id) === "not-ours" || (verdicts.get(id) === "came-to-us" && refusals >= LEDGER_POLLS_MAX);
  const over = payments.filter(isOver);
  // a lagging ledger proves nothing: wait, however long it takes
  await returnLeases(deps.sql, judged("too-early"), LEDGER_RETRY_MS);
  await noteRefusals(deps.sql, judged("came-to-us"), LEDGER_RETRY_MS);
  await failQueuedPayments(
    network,
    over.map((payment) => ({ payment, reason: "NONCE_USED" })),
  );
}

/** The simulation ran at `pending`: authorizations it found used may not be in a block or in the ledger yet. */
export async function judgeUsed(
  { deps, chain }: PaymentNetwork,
  { id, payer, nonce }: Pick<Payment, "id" | "payer" | "nonce">,
  seenAtBlock: bigint,
): Promise<LedgerVerdict> {
  const isUsed = await readAuthorizationState(chain, payer, nonce, toQuantity(seenAtBlock));
  return isUsed ? checkUsedAuthorization(deps.sql, { paymentId: id, seenAtBlock }) : "too-early";
}
