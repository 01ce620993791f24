/** Verifies who signed a claim: recovered on the CPU for an EOA, asked on the chain for a contract (ERC-1271). */
import { hashTypedData } from "viem";
import { type ClaimTerms, claimTypedData } from "../domain/claim-proof.ts";
import type { Hex } from "../domain/networks.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { recoverKey } from "./address-signature.ts";
import { isValidContractSignature } from "./contract-signature.ts";

/** How `signer` proved it; undefined when the signature is not valid for it. Throws RpcTransportError when a contract could not be asked. */
export async function verifyClaimProof(
  chain: Chain,
  terms: ClaimTerms,
  { signer, signature }: { signer: Hex; signature: Hex },
): Promise<"EOA" | "CONTRACT" | undefined> {
  const { domain, ...typedData } = claimTypedData(terms);
  const digest = hashTypedData({ ...typedData, domain: { ...domain, chainId: BigInt(domain.chainId) } });
  if ((await recoverKey(digest, signature)) === signer) return "EOA";
  return (await isValidContractSignature(chain, { account: signer, digest, signature }))
    ? "CONTRACT"
    : undefined;
}
