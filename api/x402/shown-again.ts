/**
 * An authorization whose payer and nonce are known is shown again. Both are public once a block holds them, so it counts as that payment
 * only when its signature proves it: the very bytes that were stored, or bytes that hold now. A doubt is never a success.
 */

import type { Authorization } from "../../core/domain/authorization.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import type { Payment } from "../../db/schema.ts";
import type { PaymentAttempt } from "./payload.ts";
import { isSignedByKey, verifyPayer } from "./verify-payer.ts";

/** What the stored payment's payer signed, and how. */
export type StoredAuthorization = Pick<
  Payment,
  "payerKind" | "signature" | "recipient" | "amountUnits" | "validAfter" | "validBefore"
>;

/** `unknown`: only the payer's contract could tell, and no node answers. */
export type ShownAgain = "same" | "other" | "unknown";

/** `stored` is absent when the authorization was executed without a payment of ours. Payer and nonce agree already. */
export async function judgeShownAgain(
  chain: Chain | undefined,
  network: NetworkId,
  stored: StoredAuthorization | undefined,
  attempt: PaymentAttempt,
): Promise<ShownAgain> {
  if (stored && hasTermsOf(attempt.authorization, stored) && hasBytesOf(attempt, stored)) return "same";
  if (stored?.payerKind === "EOA") return isSignedByKey(network, attempt) ? "same" : "other";
  const payer = await verifyPayer(chain, network, attempt);
  if (payer.ok) return "same";
  return payer.retryable ? "unknown" : "other";
}

function hasTermsOf(shown: Authorization, stored: StoredAuthorization): boolean {
  return (
    shown.to === stored.recipient &&
    shown.value === stored.amountUnits &&
    shown.validAfter === stored.validAfter &&
    shown.validBefore === stored.validBefore
  );
}

/** A key's signature is stored in the one form the token takes, a contract's as it came. */
function hasBytesOf({ signature }: PaymentAttempt, stored: StoredAuthorization): boolean {
  return stored.signature === (stored.payerKind === "EOA" ? signature.ecdsa : signature.bytes);
}
