/** A payer with a fresh key, and its ERC-3009 signatures in every form the service reads. */
import { randomBytes } from "node:crypto";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { type Hex, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";

export type Payer = { address: Hex; privateKey: Hex };

export type SignedPayment = {
  from: Hex;
  to: Hex;
  value: string;
  validAfter: number;
  validBefore: number;
  nonce: Hex;
  signature: Hex;
};

export function makePayer(): Payer {
  const privateKey = generatePrivateKey();
  return { address: privateKeyToAccount(privateKey).address.toLowerCase() as Hex, privateKey };
}

const TYPES = {
  TransferWithAuthorization: [
    { name: "from", type: "address" },
    { name: "to", type: "address" },
    { name: "value", type: "uint256" },
    { name: "validAfter", type: "uint256" },
    { name: "validBefore", type: "uint256" },
    { name: "nonce", type: "bytes32" },
  ],
} as const;

/** Signs with viem's own EIP-712, so that the service's is judged by another implementation. */
export async function signPayment(
  payer: Payer,
  terms: {
    to: Hex;
    amountUnits: bigint;
    network?: NetworkId;
    validAfter?: number;
    validBefore?: number;
    nonce?: Hex;
  },
): Promise<SignedPayment> {
  const { chainId, usdc } = NETWORKS[terms.network ?? "base-sepolia"];
  const nowS = Math.floor(Date.now() / 1000);
  const message = {
    from: payer.address,
    to: terms.to,
    value: terms.amountUnits,
    validAfter: BigInt(terms.validAfter ?? 0),
    validBefore: BigInt(terms.validBefore ?? nowS + 300),
    nonce: terms.nonce ?? (`0x${randomBytes(32).toString("hex")}` as Hex),
  };
  const signature = await privateKeyToAccount(payer.privateKey).signTypedData({
    domain: { name: usdc.name, version: usdc.version, chainId, verifyingContract: usdc.address },
    types: TYPES,
    primaryType: "TransferWithAuthorization",
    message,
  });
  return {
    from: message.from,
    to: message.to,
    value: message.value.toString(),
    validAfter: Number(message.validAfter),
    validBefore: Number(message.validBefore),
    nonce: message.nonce,
    signature,
  };
}

/** The documented shape A body of `POST …/pay`. */
export function shapeA(payment: SignedPayment, network: NetworkId = "base-sepolia") {
  return { network, payload: { ...payment, data: "0x" } };
}

/** The documented shape B body: v, r, s, and times as text. */
export function shapeB({ signature, ...fields }: SignedPayment, network: NetworkId = "base-sepolia") {
  const [r, s, v] = [`0x${signature.slice(2, 66)}`, `0x${signature.slice(66, 130)}`, signature.slice(130)];
  const times = { validAfter: String(fields.validAfter), validBefore: String(fields.validBefore) };
  return {
    x402Version: 1,
    scheme: "evm-erc3009",
    network,
    payload: { ...fields, ...times, v: Number.parseInt(v, 16), r, s },
  };
}

/** Standard `exact` payload of x402 version 1. */
export function standardV1({ signature, ...fields }: SignedPayment, network: NetworkId = "base-sepolia") {
  return {
    x402Version: 1,
    scheme: "exact",
    network,
    payload: { signature, authorization: asText(fields) },
  };
}

/** Standard payload of x402 version 2. */
export function standardV2({ signature, ...fields }: SignedPayment, network: NetworkId = "base-sepolia") {
  return {
    x402Version: 2,
    accepted: { scheme: "exact", network: NETWORKS[network].caip2 },
    payload: { signature, authorization: asText(fields) },
  };
}

function asText(fields: Omit<SignedPayment, "signature">) {
  return { ...fields, validAfter: String(fields.validAfter), validBefore: String(fields.validBefore) };
}
