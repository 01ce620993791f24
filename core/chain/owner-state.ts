/** Reads what an owner change depends on, from one node in one batch. */
import type { Hex } from "../domain/networks.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { parseData, parseQuantity, resultOf } from "../rpc/parse-answers.ts";
import { ANY_CHAIN_NONCE_KEY } from "./owner-operation.ts";
import { NEXT_OWNER_INDEX_CALL, nonceCall } from "./passkey-account.ts";
import { readOwners } from "./read-owners.ts";

export type OwnerState = {
  isDeployed: boolean;
  /** Next nonce of an ordinary operation. */
  nonce: bigint;
  /** Next nonce of an operation for every chain. */
  anyChainNonce: bigint;
  /** By owner index; undefined where an owner was removed. Of an account that is not deployed: empty. */
  owners: (Hex | undefined)[];
};

/** Throws RpcTransportError when no node answers all of it. */
export async function readOwnerState(chain: Chain, account: Hex): Promise<OwnerState> {
  const [code, nonce, anyChainNonce, next] = await chain.batch([
    { method: "eth_getCode", params: [account, "latest"] },
    nonceCall(account),
    nonceCall(account, ANY_CHAIN_NONCE_KEY),
    { method: "eth_call", params: [{ to: account, data: NEXT_OWNER_INDEX_CALL }, "latest"] },
  ]);
  const isDeployed = parseData(resultOf(code), "eth_getCode") !== "0x";
  return {
    isDeployed,
    nonce: parseQuantity(resultOf(nonce), "getNonce"),
    anyChainNonce: parseQuantity(resultOf(anyChainNonce), "getNonce"),
    owners: isDeployed
      ? await readOwners(chain, account, parseQuantity(resultOf(next), "nextOwnerIndex"))
      : [],
  };
}
