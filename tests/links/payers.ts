/** Payers who transfer on their own: accounts of the local chain that send USDC without our service. */
import { randomBytes } from "node:crypto";
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { callRpc, callRpcText } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc } from "../../local/chain/usdc.ts";
import { openPauses } from "../support/poll.ts";

const USDC = NETWORKS["base-sepolia"].usdc.address;
const ONE_ETH = 10n ** 18n;

/** An address with ETH and `units` of USDC that the node signs for. */
export async function newPayer(rpcUrl: string, units: bigint): Promise<Hex> {
  const address: Hex = `0x${randomBytes(20).toString("hex")}`;
  await fundEth(rpcUrl, address, ONE_ETH);
  if (units > 0n) await fundUsdc(rpcUrl, address, units);
  await callRpc(rpcUrl, "anvil_impersonateAccount", [address]);
  return address;
}

export type ProvingPayer = PrivateKeyAccount & { lower: Hex };

/** A payer who can also sign claims. */
export async function newProvingPayer(rpcUrl: string, units: bigint): Promise<ProvingPayer> {
  const account = privateKeyToAccount(generatePrivateKey());
  const lower = account.address.toLowerCase() as Hex;
  await fundEth(rpcUrl, lower, ONE_ETH);
  await fundUsdc(rpcUrl, lower, units);
  await callRpc(rpcUrl, "anvil_impersonateAccount", [lower]);
  return { ...account, lower };
}

/** Sends a transfer and waits for its block. Explicit gas, so that a reverting transfer is sent too. */
export async function sendUsdc(rpcUrl: string, from: Hex, to: Hex, units: bigint): Promise<Hex> {
  const hash = await submitUsdc(rpcUrl, from, to, units);
  await waitUntilMined(rpcUrl, hash);
  return hash;
}

/** Sends a transfer that stays pending. */
export async function submitUsdc(rpcUrl: string, from: Hex, to: Hex, units: bigint): Promise<Hex> {
  const transaction = { from, to: USDC, data: encodeTransfer(to, units), gas: "0x30d40" };
  return (await callRpcText(rpcUrl, "eth_sendTransaction", [transaction])) as Hex;
}

export async function waitUntilMined(rpcUrl: string, hash: Hex): Promise<void> {
  const deadline = Date.now() + 45_000;
  const pause = openPauses(5);
  while (!(await callRpc(rpcUrl, "eth_getTransactionReceipt", [hash]))) {
    if (Date.now() > deadline) throw new Error(`${hash} is not mined in time`);
    await pause();
  }
}

export async function setAutomine(rpcUrl: string, isOn: boolean): Promise<void> {
  await callRpc(rpcUrl, "evm_setAutomine", [isOn]);
}

export async function mine(rpcUrl: string, blocks = 1): Promise<void> {
  for (let n = 0; n < blocks; n++) await callRpc(rpcUrl, "evm_mine", []);
}

export function randomHash(): Hex {
  return `0x${randomBytes(32).toString("hex")}`;
}
