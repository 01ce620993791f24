/** The sender's handler for relays that carry payments: what replaces them, and what happens to payments that they do not settle. */
import { buildPaymentsCall } from "../../core/chain/relay.ts";
import type { Network, NetworkId } from "../../core/domain/networks.ts";
import type { Log } from "../../core/runtime/log.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { checkUnpaidBeforeSigning, lockForSigning } from "../../db/payments/check-unpaid-before-signing.ts";
import { findReleasedPayments, findSignedPayments } from "../../db/payments/payments-of-relay.ts";
import {
  findExpiredRelays,
  requeueExpired,
  requeueRelay,
  requeueUnsettled,
} from "../../db/payments/queue.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { InFlightRelay } from "../../db/relays/relays.ts";
import { type KnownHead, noopOf, type RelayKind, type Revised, repeatCall } from "../sender/relay-kind.ts";
import { HEAD_VALID_MS } from "../sender/send-relay.ts";
import { toItem } from "./relay-items.ts";

export function openPaymentRelays({ log }: { log: Log }): RelayKind {
  return {
    // every authorization inside has expired or is settled otherwise: mining it would only burn gas
    findObsolete: (tx, relayIds) =>
      findExpiredRelays(tx, relayIds, { nowS: BigInt(Math.floor(Date.now() / 1000)) }),
    revise: revisePayments,
    requeueUnsettled: (tx, network, { depthBlocks }) => requeuePayments(tx, network, { depthBlocks, log }),
    async requeueLost(tx, network, relayId) {
      await requeueRelay(tx, relayId);
      await enqueue(tx, "relay_payments", { network });
    },
  };
}

/**
 * The contents of the first attempt, without payments whose links another transfer has paid since, and without those that have failed or are
 * queued again (for example after a reorganisation of the block that reverted them). Checks again that they are unpaid; undefined while the
 * ledger can't tell what was paid.
 */
async function revisePayments(
  tx: Tx,
  network: Network,
  relay: InFlightRelay,
  { headNumber, headHash, askedAtMs, isStalled }: KnownHead,
): Promise<Revised | undefined> {
  const signed = await findSignedPayments(tx, relay.id);
  const paymentIds = signed.map(({ id }) => id);
  const [, verdicts] = await Promise.all([
    lockForSigning(tx, paymentIds),
    checkUnpaidBeforeSigning(
      tx,
      { network: network.id, headNumber, headHash, unread: undefined },
      { paymentIds, state: "SIGNED" },
    ),
  ]);
  const having = (wanted: string) => signed.filter(({ id }) => verdicts.get(id) === wanted);
  const released = await findReleasedPayments(tx, relay.id);
  const isOutdated = performance.now() - askedAtMs > HEAD_VALID_MS;
  if (isOutdated || isStalled || having("early").length > 0) return undefined;
  const leftOut = [...having("paid").map(({ id }) => id), ...released];
  if (leftOut.length === 0) return repeatCall(tx, network, relay);
  // one that was signed in another transaction before it was locked is free, but no longer this relay's
  const kept = having("free").filter(({ id }) => !released.includes(id));
  if (kept.length === 0) return noopOf(relay);
  return { call: buildPaymentsCall(network, kept.map(toItem)), isNoop: false, leftOut };
}

/** Payments in mined transactions that did not settle them, and payments whose window has expired. */
async function requeuePayments(
  tx: Tx,
  network: NetworkId,
  { depthBlocks, log }: { depthBlocks: number; log: Log },
): Promise<bigint[]> {
  const expired = await requeueExpired(tx, network, depthBlocks);
  const unsettled = await requeueUnsettled(tx, network, depthBlocks);
  const paymentIds = [...expired, ...unsettled].map(({ id }) => id);
  if (paymentIds.length > 0) {
    await enqueue(tx, "relay_payments", { network });
    log.warn({ network, paymentIds }, "payments not settled by their block, or in time");
  }
  return unsettled.flatMap(({ relayId, isReverted }) => (isReverted ? [relayId] : []));
}
