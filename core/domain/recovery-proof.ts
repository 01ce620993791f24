/** What an address owner signs (EIP-712) to start recovering an account whose passkey is lost. It moves no money. */
import type { Hex } from "./networks.ts";

export type RecoveryProofTerms = {
  owner: Hex;
  challengeId: string;
  /** Host of BASE_URL, port included. */
  host: string;
};

/** The typed data for `eth_signTypedData_v4`. */
export function recoveryProofTypedData({ owner, challengeId, host }: RecoveryProofTerms) {
  const statement = `I lost my passkey and want to register another one at ${host}. Signing moves no money.`;
  return {
    types: {
      EIP712Domain: [
        { name: "name", type: "string" },
        { name: "version", type: "string" },
      ],
      Recover: [
        { name: "statement", type: "string" },
        { name: "owner", type: "address" },
        { name: "challengeId", type: "string" },
      ],
    },
    primaryType: "Recover",
    domain: { name: host, version: "1" },
    message: { statement, owner, challengeId },
  } as const;
}
