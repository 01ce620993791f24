/**
 * Verifies that the payer signed. A key's signature is recovered locally without a node; contracts are asked on chain (ERC-1271, ERC-6492).
 * Payer and nonce are public once a block holds them: an authorization counts as a known payment only with the stored bytes, or bytes
 * that are valid now.
 */
import { findContracts } from "../../core/chain/accounts-with-code.ts";
import { tokenDomainOf } from "../../core/chain/authorization-digest.ts";
import {
  findForbiddenFactory,
  isContractSignatureValid,
  readContractSignature,
} from "../../core/chain/contract-signature.ts";
import { recoverPayer } from "../../core/chain/recover-payer.ts";
import type { Authorization } from "../../core/domain/authorization.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { type PaymentRefusal, refusalOf } from "../../core/domain/payment.ts";
import type { StoredAuthorization } from "../../core/domain/payment-acceptance.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { PaymentAttempt } from "./payload.ts";

export type PayerVerdict =
  | { ok: true; kind: "EOA" | "CONTRACT"; signature: Hex }
  | { ok: false; reason: PaymentRefusal; message: string; retryable: boolean; rule?: SignatureRule };

/** The rule that a well-formed signature violates, by its x402 name. */
type SignatureRule = "eip6492_factory_not_allowed";

export async function verifyPayer(
  chain: Chain | undefined,
  network: NetworkId,
  attempt: PaymentAttempt,
): Promise<PayerVerdict> {
  const { ecdsa } = attempt.signature;
  if (ecdsa && isSignedByKey(network, attempt)) return { ok: true, kind: "EOA", signature: ecdsa };
  return chain ? verifyContract(chain, attempt) : refuse("INVALID_SIGNATURE");
}

/** Whether the key behind the payer's address signed. */
function isSignedByKey(network: NetworkId, { authorization, signature }: PaymentAttempt): boolean {
  const domain = tokenDomainOf(NETWORKS[network]);
  return (
    signature.ecdsa !== undefined &&
    recoverPayer(domain, authorization, signature.ecdsa) === authorization.from
  );
}

/** Code at the payer's address decides, not the signature's length; without code only an ERC-6492 wrapper can still be valid. */
async function verifyContract(
  chain: Chain,
  { authorization, signature }: PaymentAttempt,
): Promise<PayerVerdict> {
  const factory = findForbiddenFactory(chain, signature.bytes);
  if (factory) return refuseFactory(factory);
  try {
    const hasCode = (await findContracts(chain, [authorization.from])).size > 0;
    const bringsDeployment = readContractSignature(signature.bytes)?.deployment !== undefined;
    if (!hasCode && !bringsDeployment) return refuse("INVALID_SIGNATURE");
    const holds = await isContractSignatureValid(chain, authorization, signature.bytes);
    return holds ? { ok: true, kind: "CONTRACT", signature: signature.bytes } : refuse("INVALID_SIGNATURE");
  } catch (error) {
    if (error instanceof RpcTransportError) return refuse("INTERNAL_ERROR");
    throw error;
  }
}

function refuseFactory(factory: Hex): PayerVerdict {
  const message = `the signature includes a deployment by the factory ${factory} (ERC-6492), which this service does not call; the wallet can pay once it is deployed and signs without it`;
  const rule = "eip6492_factory_not_allowed";
  return { ok: false, reason: "INVALID_SIGNATURE", message, retryable: false, rule };
}

function refuse(reason: "INVALID_SIGNATURE" | "INTERNAL_ERROR"): PayerVerdict {
  const isUnavailable = reason === "INTERNAL_ERROR";
  const message = isUnavailable ? "the payer's contract could not be asked; retry" : undefined;
  return { ok: false, ...refusalOf(reason, message), retryable: isUnavailable };
}

/** `unknown`: only the payer's contract could decide, and no node responds. */
export type Match = "same" | "other" | "unknown";

/** Whether a shown authorization is the one with its payer and nonce that is known. `stored` is absent when it was executed without a payment of ours. */
export async function matchKnown(
  chain: Chain | undefined,
  network: NetworkId,
  stored: StoredAuthorization | undefined,
  attempt: PaymentAttempt,
): Promise<Match> {
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

/** A key's signature is stored in the only form the token accepts, a contract's unchanged. */
function hasBytesOf({ signature }: PaymentAttempt, stored: StoredAuthorization): boolean {
  return stored.signature === (stored.payerKind === "EOA" ? signature.ecdsa : signature.bytes);
}
