/**
 * What an address signs (EIP-712) before it becomes an owner of a wallet: a mistyped address would belong to another person, who could
 * spend everything. Without a chain id, because it is added on every network.
 */
import type { Hex } from "./networks.ts";

export type OwnerProofTerms = {
  wallet: Hex;
  owner: Hex;
  challengeId: string;
  /** Host of BASE_URL, port included. */
  host: string;
};

/** The typed data for `eth_signTypedData_v4`. */
export function ownerProofTypedData({ wallet, owner, challengeId, host }: OwnerProofTerms) {
  return {
    types: {
      EIP712Domain: [
        { name: "name", type: "string" },
        { name: "version", type: "string" },
      ],
      AddOwner: [
        { name: "wallet", type: "address" },
        { name: "owner", type: "address" },
        { name: "challengeId", type: "string" },
      ],
    },
    primaryType: "AddOwner",
    domain: { name: host, version: "1" },
    message: { wallet, owner, challengeId },
  } as const;
}
