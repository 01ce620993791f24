/** A queued payment in the form that core/chain relays. */
import type { RelayItem } from "../../core/chain/relay.ts";
import { NO_LINK_TAG } from "../../core/domain/link-tag.ts";
import type { LeasedPayment } from "../../db/payments/queue.ts";
import type { Payment } from "../../db/schema.ts";

export type Relayable = { readonly payment: LeasedPayment; readonly item: RelayItem };

/** `linkTag` is null for a facilitated payment. */
export function toItem(payment: Payment & Pick<LeasedPayment, "linkTag">): RelayItem {
  return {
    tag: payment.linkTag ?? NO_LINK_TAG,
    authorization: {
      from: payment.payer,
      to: payment.recipient,
      value: payment.amountUnits,
      validAfter: payment.validAfter,
      validBefore: payment.validBefore,
      nonce: payment.nonce,
    },
    signature: payment.signature,
    isContract: payment.payerKind === "CONTRACT",
  };
}

/** `isContract`: whether there is code at the payer's address now, whatever it was when accepted. */
export function toRelayable(payment: LeasedPayment, { isContract }: { isContract: boolean }): Relayable {
  const item = toItem(payment);
  return { payment, item: { ...item, isContract: item.isContract || isContract } };
}
