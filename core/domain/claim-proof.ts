/**
 * The EIP-712 `Claim` a payer signs to prove which link a transfer pays. The service writes the statement, so that the wallet shows in
 * plain words what signing means.
 */
import { formatUnits } from "./money.ts";
import { type Hex, NETWORKS, type NetworkId } from "./networks.ts";

export type ClaimTerms = {
  linkId: string;
  network: NetworkId;
  merchantName: string;
  amountUnits: bigint;
  recipient: Hex;
  transactionHash: Hex;
  /** Host of BASE_URL, port included. */
  host: string;
};

const TYPES = {
  EIP712Domain: [
    { name: "name", type: "string" },
    { name: "version", type: "string" },
    { name: "chainId", type: "uint256" },
  ],
  Claim: [
    { name: "statement", type: "string" },
    { name: "linkId", type: "string" },
    { name: "recipient", type: "address" },
    { name: "transactionHash", type: "bytes32" },
  ],
} as const;

/** The typed data for `eth_signTypedData_v4`. */
export function claimTypedData(terms: ClaimTerms) {
  const { linkId, network, recipient, transactionHash, host } = terms;
  return {
    types: TYPES,
    primaryType: "Claim",
    domain: { name: host, version: "1", chainId: NETWORKS[network].chainId },
    message: { statement: statementOf(terms), linkId, recipient, transactionHash },
  } as const;
}

function statementOf({ merchantName, amountUnits, network }: ClaimTerms): string {
  const { displayName } = NETWORKS[network];
  return (
    `I sent this transaction to ${merchantName} for this payment link of ${formatUnits(amountUnits)} USDC on ${displayName}. ` +
    "Signing moves no money: it proves to the merchant which order the transfer pays."
  );
}
