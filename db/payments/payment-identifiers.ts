/**
 * x402's `payment-identifier` of facilitated payments: a payer's identifier names one authorization for a seller, so that a payer who signs
 * again for the same purchase does not pay twice. A seller's Idempotency-Key names one authorization too, of whichever payer.
 * Kept like every Idempotency-Key (core/domain/retention.ts); of links: payments_idempotency_key.
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

export type KeyedPayment = Omit<IdentifiedPayment, "identifier"> & { idempotencyKey: string };

/** Claims the seller's Idempotency-Key for this authorization; false when another one has it. */
export async function claimSettleKey(tx: Tx, payment: KeyedPayment): Promise<boolean> {
  const { idempotencyKey: key, network, payer, nonce } = payment;
  const scope = `settled_payment:${payment.userId}`;
  const authorization = `${network} ${payer} ${nonce}`;
  await tx`
    insert into idempotency_keys (scope, key, request_hash)
    values (${scope}, ${key}, convert_to(${authorization}, 'UTF8'))
    on conflict do nothing`;
  const others = await tx`
    select
    from idempotency_keys
    where scope = ${scope} and key = ${key} and request_hash <> convert_to(${authorization}, 'UTF8')`;
  return others.length === 0;
}

function scopeOf({ userId, network, payer }: IdentifiedPayment): string {
  return `facilitated_payment:${network}:${userId}:${payer}`;
}
