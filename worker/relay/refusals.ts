/** What becomes of payments that can't be sent now: wait, look at the books, or fail for good with a reason. */

import type { SimulationResult } from "../../core/chain/relay.ts";
import { parseQuantity } from "../../core/chain/rpc-answers.ts";
import { tell } from "../../db/outcome.ts";
import { failPayments, lockLinks, lockPayments } from "../../db/payments.ts";
import { postponePayments } from "../../db/relays.ts";
import type { Payment } from "../../db/schema.ts";
import { settleFromBooks } from "../../db/used-authorizations.ts";
import type { WorkerDeps } from "../deps.ts";
import type { RelayNetwork } from "./drain.ts";

/** A refusal without a known reason is believed after this many looks. */
const UNKNOWN_LOOKS_MAX = 3;
const LOOK_AGAIN_MS = 300;
const BOOKS_RETRY_MS = 250;
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
    deps,
    final.map(({ payment, refusal }) => ({ payment, reason: refusal.reason })),
  );
  if (used.length > 0) await consultBooks(network, paymentsOf(used));
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
  deps: WorkerDeps,
  payments: readonly Payment[],
  why: string,
): Promise<void> {
  deps.log.warn({ why, payments: payments.length }, "payments can't be relayed now");
  const tooOld = (payment: Payment) => Date.now() - payment.updatedAt.getTime() > UNAVAILABLE_AFTER_MS;
  await giveBack(
    deps,
    payments.filter((payment) => !tooOld(payment)),
    UNAVAILABLE_RETRY_MS,
  );
  await fail(
    deps,
    payments.filter(tooOld).map((payment) => ({ payment, reason: "RELAYER_UNAVAILABLE" })),
  );
}

/**
 * The chain says these authorizations are used or cancelled. Once the indexer has read as far as the node that said so, the books
 * know which: a transfer to the link's wallet settles the link, whoever sent it; none means the money did not come to us.
 */
async function consultBooks(network: RelayNetwork, payments: readonly Payment[]): Promise<void> {
  const { deps, chain } = network;
  const seenAt = parseQuantity(await chain.request("eth_blockNumber", []), "eth_blockNumber");
  for (const payment of payments) {
    const verdict = await deps.sql.begin(async (tx) => {
      await lockPayments(tx, [payment.id]);
      await lockLinks(tx, [payment.linkId]);
      const found = await settleFromBooks(tx, {
        paymentId: payment.id,
        seenAtBlock: seenAt,
        confirmations: network.confirmations,
      });
      if (found !== "too-early") await tell(tx, [payment.id, payment.linkId]);
      return found;
    });
    if (verdict === "too-early") await giveBack(deps, [payment], BOOKS_RETRY_MS);
    if (verdict === "not-ours") await fail(deps, [{ payment, reason: "NONCE_USED" }]);
  }
}

async function fail(
  deps: WorkerDeps,
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
    deps.log.info({ paymentId: payment.id, reason, requestId: payment.requestId }, "payment failed");
  }
}

function paymentsOf(refused: readonly Refused[]): Payment[] {
  return refused.map(({ payment }) => payment);
}
