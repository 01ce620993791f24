import { keccak256, parseTransaction, toHex } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { NETWORK, USDC } from "./scripted-node.ts";

const account = privateKeyToAccount(generatePrivateKey());
/** Who signed them all. */
export const SENDER = account.address.toLowerCase() as Hex;

export type RpcTransaction = { hash: Hex; input: Hex };

/** A call, of the token unless it is given, as a node answers it (execution-apis, `eth_getTransactionByHash`). */
export async function signCall(nonce: number, input: Hex, to = USDC): Promise<RpcTransaction> {
  const { chainId } = NETWORKS[NETWORK];
  const raw = await account.signTransaction({
    ...{ type: "eip1559", chainId, nonce, gas: 90_000n, to, data: input },
    ...{ maxFeePerGas: 2_000_000_000n, maxPriorityFeePerGas: 7n },
  });
  const { r, s, yParity } = parseTransaction(raw) as { r: Hex; s: Hex; yParity: number };
  const parity = toHex(yParity);
  return {
    ...{ hash: keccak256(raw), input, type: "0x2", chainId: toHex(chainId), from: SENDER, accessList: [] },
    ...{ nonce: toHex(nonce), gas: toHex(90_000), to, value: "0x0", r, s, v: parity, yParity: parity },
    ...{ maxFeePerGas: toHex(2_000_000_000), maxPriorityFeePerGas: "0x7" },
  };
}
