/** Transactions around the service: an account that is no party broadcasts an authorization, or a payer cancels one. */
import { createWalletClient, encodeFunctionData, http, parseAbi, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { fundEth } from "../../local/chain/usdc.ts";
import { makePayer, type Payer, type SignedPayment, signCancel } from "./payer.ts";

const TRANSFER_ABI = parseAbi([
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)",
]);
const ONE_ETH = 10n ** 18n;
const GAS_LIMIT = 200_000n;

/** Sends the payer's authorization from a fresh account; returns the transaction's hash when it is mined. */
export async function broadcastAsStranger(rpcUrl: string, payment: SignedPayment): Promise<Hex> {
  const { from, to, value, validAfter, validBefore, nonce, signature } = payment;
  const data = encodeFunctionData({
    abi: TRANSFER_ABI,
    args: [from, to, BigInt(value), BigInt(validAfter), BigInt(validBefore), nonce, signature],
  });
  return callToken(rpcUrl, makePayer(), data);
}

/** The payer takes an authorization back (EIP-3009 `cancelAuthorization`). */
export async function cancelAuthorization(rpcUrl: string, payer: Payer, nonce: Hex): Promise<void> {
  await callToken(rpcUrl, payer, await signCancel(privateKeyToAccount(payer.privateKey), nonce));
}

/** Resolves when a block holds the transaction, also when it reverted there. */
async function callToken(rpcUrl: string, sender: Payer, data: Hex): Promise<Hex> {
  await fundEth(rpcUrl, sender.address, ONE_ETH);
  const client = createWalletClient({
    account: privateKeyToAccount(sender.privateKey),
    transport: http(rpcUrl, { retryCount: 0 }),
    pollingInterval: 20,
  }).extend(publicActions);
  const to = NETWORKS["base-sepolia"].usdc.address;
  const hash = await client.sendTransaction({ chain: null, to, data, gas: GAS_LIMIT });
  await client.waitForTransactionReceipt({ hash });
  return hash;
}
