/** Did the payer sign? Keys are checked on the CPU without asking a node; contracts are asked on the chain (ERC-1271, ERC-6492). */
import { tokenDomainOf } from "../../core/chain/authorization-digest.ts";
import {
  findContracts,
  findForbiddenFactory,
  isContractSignatureValid,
  readContractSignature,
} from "../../core/chain/contract-signature.ts";
import { recoverPayer } from "../../core/chain/signature.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import type { PaymentRefusal } from "../../core/domain/payment.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { PaymentAttempt } from "./payload.ts";

export type PayerVerdict =
  | { ok: true; kind: "EOA" | "CONTRACT"; signature: Hex }
  | { ok: false; reason: PaymentRefusal; message: string; retryable: boolean; rule?: SignatureRule };

/** Which rule a well-formed signature breaks, in x402's words, where it is none of the signature itself. */
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

/** Did the key behind the payer's address sign? Decided here, without a node. */
export function isSignedByKey(network: NetworkId, { authorization, signature }: PaymentAttempt): boolean {
  const domain = tokenDomainOf(NETWORKS[network]);
  return (
    signature.ecdsa !== undefined &&
    recoverPayer(domain, authorization, signature.ecdsa) === authorization.from
  );
}

/** Code at the payer's address decides, not the signature's length; without code only an ERC-6492 wrapper can still hold. */
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
  const message = `the signature brings a deployment by the factory ${factory} along (ERC-6492), which this service does not call; it can pay once its wallet is deployed and signs without it`;
  const rule = "eip6492_factory_not_allowed";
  return { ok: false, reason: "INVALID_SIGNATURE", message, retryable: false, rule };
}

function refuse(reason: "INVALID_SIGNATURE" | "INTERNAL_ERROR"): PayerVerdict {
  const isAway = reason === "INTERNAL_ERROR";
  const message = isAway ? "the payer's contract can't be asked now" : "the signature is not the payer's";
  return { ok: false, reason, message, retryable: isAway };
}
