/** Who signs in tests: fresh keys, their ERC-3009 and cancellation signatures, and the bodies that carry them in every form the service reads. */
import { randomBytes } from "node:crypto";
import { encodeFunctionData, parseAbi } from "viem";
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import type { Authorization } from "../../core/domain/authorization.ts";
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

/** EIP-712 types of ERC-3009, in the order of the token's type hash. */
export const TRANSFER_TYPES = {
  TransferWithAuthorization: [
    { name: "from", type: "address" },
    { name: "to", type: "address" },
    { name: "value", type: "uint256" },
    { name: "validAfter", type: "uint256" },
    { name: "validBefore", type: "uint256" },
    { name: "nonce", type: "bytes32" },
  ],
} as const;
const CANCEL_TYPES = {
  CancelAuthorization: [
    { name: "authorizer", type: "address" },
    { name: "nonce", type: "bytes32" },
  ],
} as const;
const CANCEL_ABI = parseAbi([
  "function cancelAuthorization(address authorizer, bytes32 nonce, bytes signature)",
]);

export function makePayer(): Payer {
  const privateKey = generatePrivateKey();
  return { address: privateKeyToAccount(privateKey).address.toLowerCase() as Hex, privateKey };
}

/**
 * Signs with viem's own EIP-712, so that the service's is checked by another implementation. Defaults: 1 USDC, valid from the beginning
 * of time for an hour, a random nonce, Base Sepolia's token.
 */
export async function signAuthorization(
  account: PrivateKeyAccount,
  fields: Partial<Authorization> & { to: Hex },
  network: NetworkId = "base-sepolia",
): Promise<{ authorization: Authorization; signature: Hex }> {
  const authorization: Authorization = {
    from: account.address.toLowerCase() as Hex,
    value: 1_000_000n,
    validAfter: 0n,
    validBefore: BigInt(Math.floor(Date.now() / 1000) + 3600),
    nonce: `0x${randomBytes(32).toString("hex")}`,
    ...fields,
  };
  const signature = await account.signTypedData({
    domain: domainOf(network),
    types: TRANSFER_TYPES,
    primaryType: "TransferWithAuthorization",
    message: authorization,
  });
  return { authorization, signature };
}

/** An authorization as a request body carries it; valid for five minutes. */
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
  const { to, amountUnits, network, validAfter = 0, nonce } = terms;
  const { validBefore = Math.floor(Date.now() / 1000) + 300 } = terms;
  const window = { validAfter: BigInt(validAfter), validBefore: BigInt(validBefore) };
  const { authorization, signature } = await signAuthorization(
    privateKeyToAccount(payer.privateKey),
    { to, value: amountUnits, ...window, ...(nonce ? { nonce } : {}) },
    network,
  );
  return { ...authorization, value: amountUnits.toString(), validAfter, validBefore, signature };
}

/** Calldata with which the payer takes an authorization back (`cancelAuthorization` of EIP-3009). */
export async function signCancel(account: PrivateKeyAccount, nonce: Hex): Promise<Hex> {
  const authorizer = account.address;
  const signature = await account.signTypedData({
    domain: domainOf("base-sepolia"),
    types: CANCEL_TYPES,
    primaryType: "CancelAuthorization",
    message: { authorizer, nonce },
  });
  return encodeFunctionData({ abi: CANCEL_ABI, args: [authorizer, nonce, signature] });
}

function domainOf(network: NetworkId) {
  const { chainId, usdc } = NETWORKS[network];
  return { name: usdc.name, version: usdc.version, chainId, verifyingContract: usdc.address } as const;
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
