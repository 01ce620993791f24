/** What a stranger does who has seen the signature of an operation that was cancelled: it is public, and the EntryPoint takes it from anybody. */
import { toHex } from "viem";
import { encodePasskeySignature } from "../../core/chain/passkey-signature.ts";
import type { UserOperation } from "../../core/chain/user-operation.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { buildUserOperationCall } from "./account-on-chain.ts";
import type { Answer } from "./http-client.ts";
import type { Merchant } from "./sign-up.ts";
import { waitForReceipt } from "./wait-for-receipt.ts";

const STRANGER = localAccount(5).address.toLowerCase() as Hex;

/** Signs a prepared send or owner change, cancels it, and has the stranger execute it on these chains, one after the other. */
export async function executeCancelled(
  merchant: Merchant,
  prepared: Answer["body"],
  rpcUrls: readonly string[],
): Promise<void> {
  const { userOperation, passkeyChallenge, sendId, ownerChangeId } = prepared;
  const { response } = await merchant.passkey.authenticate(passkeyChallenge);
  const limits = ["nonce", "callGasLimit", "verificationGasLimit"] as const;
  const operation = {
    ...userOperation,
    ...Object.fromEntries(limits.map((name) => [name, BigInt(userOperation[name])])),
    ...{ preVerificationGas: 0n, maxFeePerGas: 0n, maxPriorityFeePerGas: 0n },
    signature: encodePasskeySignature(response, 0),
  } as UserOperation;
  const path = sendId ? `sends/${sendId}` : `owners/changes/${ownerChangeId}`;
  await merchant.client.post(`/v1/wallets/${path}/cancel`, {});
  const { to, data, gas } = buildUserOperationCall(operation, STRANGER);
  const transaction = { from: STRANGER, to, data, gas: toHex(gas) };
  for (const rpcUrl of rpcUrls)
    await waitForReceipt(rpcUrl, await callRpc(rpcUrl, "eth_sendTransaction", [transaction]));
}
