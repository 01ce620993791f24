/** What becomes of payments that can't be sent now: wait, look at the books, or fail for good with a reason. */

import type { SimulationResult } from "../../core/chain/relay.ts";
import { parseQuantity } from "../../core/chain/rpc-answers.ts";
import { tell } from "../../db/outcome.ts";
import { failPayments, lockLinks, lockPayments } from "../../db/payments.ts";
import { postponePayments } from "../../db/relays.ts";
import type { Payment } from "../../db/schema.ts";
import { consultBooks } from "../../db/used-authorizations.ts";
import type { WorkerDeps } from "../deps.ts";
import type { RelayNetwork } from "./network.ts";

/** A refusal without a known reason is believed after this many looks. */
const UNKNOWN_LOOKS_MAX = 3;
const LOOK_AGAIN_MS = 300;
const BOOKS_RETRY_MS = 250;
/** By then the indexer has settled what came to us, or its rules say that it does not pay this link. */
const BOOKS_LOOKS_MAX = 40;
/** A caller waits about this long; then nothing was sent and the link is free again. */
const UNAVAILABLE_AFTER_MS = 8_000;
const UNAVAILABLE_RETRY_MS = 500;

export type Refused = { payment: Payment; refusal: Extract<SimulationResult, { ok: false }> };

export async function handleRefusals(network: RelayNetwork, refused: readonly Refused[]): Promise<void> {
  const { deps } = network;
  const used = refused.filter(({ refusal }) => refusal.reason === "NONCE_USED");
  const others = refused.filter(({ refusal }) => refusal.reason !== "NONCE_USED");
  const healing = others.filter(
    ({ payment, refusal }) => refusal.healable && payment.refusals < UNKNOWN_LOOKS_MAX,
  );
  const final = others.filter((one) => !healing.includes(one));
  if (healing.length > 0) await giveBack(deps, paymentsOf(healing), LOOK_AGAIN_MS);
  await fail(
    network,
    final.map(({ payment, refusal }) => ({ payment, reason: refusal.reason })),
  );
  if (used.length > 0) await askBooks(network, paymentsOf(used));
}

/** Hands leases back; the payments are due again after `delayMs`. */
export async function giveBack(
  deps: WorkerDeps,
  payments: readonly Payment[],
  delayMs: number,
): Promise<void> {
  await postponePayments(
    deps.sql,
    payments.map((payment) => payment.id),
    delayMs,
  );
}

/** Node or relayer can't serve: wait a little, then give up while nothing has left the house. */
export async function handleUnavailable(
  network: RelayNetwork,
  payments: readonly Payment[],
  why: string,
): Promise<void> {
  const { deps } = network;
  deps.log.warn({ why, payments: payments.length }, "payments can't be relayed now");
  const tooOld = (payment: Payment) => Date.now() - payment.updatedAt.getTime() > UNAVAILABLE_AFTER_MS;
  await giveBack(
    deps,
    payments.filter((payment) => !tooOld(payment)),
    UNAVAILABLE_RETRY_MS,
  );
  await fail(
    network,
    payments.filter(tooOld).map((payment) => ({ payment, reason: "RELAYER_UNAVAILABLE" })),
  );
}

/**
 * The chain says these authorizations are used or cancelled. A transfer to the link's wallet settles the link, whoever sent it: the
 * indexer sees to that. When the books know of none, the money did not come to us.
 */
async function askBooks(network: RelayNetwork, payments: readonly Payment[]): Promise<void> {
  const { deps, chain } = network;
  const seenAtBlock = parseQuantity(await chain.request("eth_blockNumber", []), "eth_blockNumber");
  const verdicts = await Promise.all(
    payments.map((payment) => consultBooks(deps.sql, { paymentId: payment.id, seenAtBlock })),
  );
  const isOver = (payment: Payment, index: number) =>
    verdicts[index] === "not-ours" || payment.refusals >= BOOKS_LOOKS_MAX;
  const over = payments.filter(isOver);
  await giveBack(
    deps,
    payments.filter((payment) => !over.includes(payment)),
    BOOKS_RETRY_MS,
  );
  await fail(
    network,
    over.map((payment) => ({ payment, reason: "NONCE_USED" })),
  );
}

async function fail(
  { deps, chain, metrics }: RelayNetwork,
  failures: readonly { payment: Payment; reason: string }[],
): Promise<void> {
  if (failures.length === 0) return;
  await deps.sql.begin(async (tx) => {
    await lockPayments(
      tx,
      failures.map(({ payment }) => payment.id),
    );
    await lockLinks(
      tx,
      failures.map(({ payment }) => payment.linkId),
    );
    const failed = await failPayments(
      tx,
      failures.map(({ payment, reason }) => ({ id: payment.id, reason })),
    );
    await tell(
      tx,
      failed.flatMap(({ id, linkId }) => [id, linkId]),
    );
  });
  for (const { payment, reason } of failures) {
    metrics.refusals.inc({ network: chain.network.id, reason });
    deps.log.info({ paymentId: payment.id, reason, requestId: payment.requestId }, "payment failed");
  }
}

function paymentsOf(refused: readonly Refused[]): Payment[] {
  return refused.map(({ payment }) => payment);
}
