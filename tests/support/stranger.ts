/** Somebody else with gas: broadcasts or cancels authorizations by themselves. */
import { createWalletClient, http, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { fundEth } from "../../local/chain/usdc.ts";
import { makePayer, type Payer, type SignedPayment } from "./payer.ts";

const ABI = [
  {
    type: "function",
    name: "transferWithAuthorization",
    stateMutability: "nonpayable",
    outputs: [],
    inputs: [
      { name: "from", type: "address" },
      { name: "to", type: "address" },
      { name: "value", type: "uint256" },
      { name: "validAfter", type: "uint256" },
      { name: "validBefore", type: "uint256" },
      { name: "nonce", type: "bytes32" },
      { name: "signature", type: "bytes" },
    ],
  },
  {
    type: "function",
    name: "cancelAuthorization",
    stateMutability: "nonpayable",
    outputs: [],
    inputs: [
      { name: "authorizer", type: "address" },
      { name: "nonce", type: "bytes32" },
      { name: "signature", type: "bytes" },
    ],
  },
] as const;

const ONE_ETH = 10n ** 18n;
const { usdc, chainId } = NETWORKS["base-sepolia"];

function open(rpcUrl: string, privateKey: Hex) {
  return createWalletClient({
    account: privateKeyToAccount(privateKey),
    transport: http(rpcUrl, { retryCount: 0 }),
    pollingInterval: 20,
  }).extend(publicActions);
}

/** Sends the payer's authorization from a fresh account; returns the transaction's hash when it is mined. */
export async function broadcastAsStranger(rpcUrl: string, payment: SignedPayment): Promise<Hex> {
  const stranger = makePayer();
  await fundEth(rpcUrl, stranger.address, ONE_ETH);
  const client = open(rpcUrl, stranger.privateKey);
  const { from, to, value, validAfter, validBefore, nonce, signature } = payment;
  const hash = await client.writeContract({
    chain: null,
    address: usdc.address,
    abi: ABI,
    functionName: "transferWithAuthorization",
    args: [from, to, BigInt(value), BigInt(validAfter), BigInt(validBefore), nonce, signature],
    gas: 200_000n,
  });
  await client.waitForTransactionReceipt({ hash });
  return hash;
}

/** The payer takes an authorization back (EIP-3009 `cancelAuthorization`). */
export async function cancelAuthorization(rpcUrl: string, payer: Payer, nonce: Hex): Promise<void> {
  await fundEth(rpcUrl, payer.address, ONE_ETH);
  const signature = await privateKeyToAccount(payer.privateKey).signTypedData({
    domain: { name: usdc.name, version: usdc.version, chainId, verifyingContract: usdc.address },
    types: {
      CancelAuthorization: [
        { name: "authorizer", type: "address" },
        { name: "nonce", type: "bytes32" },
      ],
    },
    primaryType: "CancelAuthorization",
    message: { authorizer: payer.address, nonce },
  });
  const client = open(rpcUrl, payer.privateKey);
  const hash = await client.writeContract({
    chain: null,
    address: usdc.address,
    abi: ABI,
    functionName: "cancelAuthorization",
    args: [payer.address, nonce, signature],
    gas: 150_000n,
  });
  await client.waitForTransactionReceipt({ hash });
}
