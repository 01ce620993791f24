/**
 * x402's `payment-identifier` of facilitated payments: a payer's identifier names one authorization for a seller, so that a payer who signs
 * again for the same purchase does not pay twice. Kept like an Idempotency-Key (core/domain/retention.ts); of links: payments_idempotency_key.
 */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

export type IdentifiedPayment = {
  /** The owner of the seller's API key. */
  userId: string;
  network: NetworkId;
  payer: Hex;
  nonce: Hex;
  identifier: string;
};

/** Claims the identifier for this authorization; false when another one has it. */
export async function claimIdentifier(tx: Tx, payment: IdentifiedPayment): Promise<boolean> {
  await tx`
    insert into idempotency_keys (scope, key, request_hash)
    values (${scopeOf(payment)}, ${payment.identifier}, ${payment.nonce})
    on conflict do nothing`;
  return mayClaimIdentifier(tx, payment);
}

/** Whether the identifier is free or this authorization's. */
export async function mayClaimIdentifier(tx: Tx, payment: IdentifiedPayment): Promise<boolean> {
  const others = await tx`
    select
    from idempotency_keys
    where scope = ${scopeOf(payment)} and key = ${payment.identifier} and request_hash <> ${payment.nonce}`;
  return others.length === 0;
}

function scopeOf({ userId, network, payer }: IdentifiedPayment): string {
  return `facilitated_payment:${network}:${userId}:${payer}`;
}
