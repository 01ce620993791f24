/** Verifies that an address signed a digest: by recovery on the CPU for an account with a key, by a call on the chain for a contract (ERC-1271). */
import { recoverAddress } from "viem";
import type { Hex } from "../domain/networks.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { findContracts } from "./accounts-with-code.ts";
import { isValidContractSignature } from "./contract-signature.ts";

/**
 * A contract has to be there and to agree on each of these chains: elsewhere a third party may deploy at its address. Throws
 * RpcTransportError when one of them could not be asked.
 */
export async function isSignedByAddress(
  chains: readonly Chain[],
  { address, digest, signature }: { address: Hex; digest: Hex; signature: Hex },
): Promise<boolean> {
  if ((await recoverKey(digest, signature)) === address) return true;
  if (chains.length === 0) return false;
  const verdicts = await Promise.all(
    chains.map(async (chain) => {
      const contracts = await findContracts(chain, [address]);
      return (
        contracts.has(address) &&
        (await isValidContractSignature(chain, { account: address, digest, signature }))
      );
    }),
  );
  return verdicts.every(Boolean);
}

export async function recoverKey(hash: Hex, signature: Hex): Promise<string | undefined> {
  try {
    return (await recoverAddress({ hash, signature })).toLowerCase();
  } catch {
    // not a 64- or 65-byte ECDSA signature, or not a point on the curve
    return undefined;
  }
}
