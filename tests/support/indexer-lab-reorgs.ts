/** Reorganisations of the test chain, and transactions whose signed bytes can be put into another block. */
import { keccak256 } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundEth, fundUsdc } from "../../local/chain/usdc.ts";
import { type Lab, NETWORK, USDC } from "./indexer-lab.ts";
import { waitForReceipt } from "./wait-for-receipt.ts";

export type SignedTransaction = { raw: Hex; txHash: Hex };

export type Sender = {
  address: Hex;
  /** A USDC transfer in a block of its own. */
  pay: (to: Hex, units: bigint) => Promise<SignedTransaction>;
  /** Any call of the token. */
  call: (data: Hex) => Promise<SignedTransaction>;
  /** The same bytes again; resolves when they are in a block, also when they were all the time. */
  resend: (transaction: SignedTransaction) => Promise<void>;
};

export async function makeSender(lab: Pick<Lab, "chain">): Promise<Sender> {
  const { rpcUrl } = lab.chain;
  const account = privateKeyToAccount(generatePrivateKey());
  const address = account.address.toLowerCase() as Hex;
  await fundEth(rpcUrl, address, 10n ** 21n);
  await fundUsdc(rpcUrl, address, 10n ** 15n);
  let nonce = 0;
  const call = async (data: Hex): Promise<SignedTransaction> => {
    const raw = await account.signTransaction({
      ...{ chainId: NETWORKS[NETWORK].chainId, type: "eip1559", nonce: nonce++, to: USDC, data },
      ...{ gas: 200_000n, maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 1n },
    });
    const sent = { raw, txHash: keccak256(raw) };
    await resend(sent);
    return sent;
  };
  const resend = async ({ raw, txHash }: SignedTransaction) => {
    await callRpc(rpcUrl, "eth_sendRawTransaction", [raw]).catch(() => undefined);
    await waitForReceipt(rpcUrl, txHash);
  };
  return { address, pay: (to, units) => call(encodeTransfer(to, units)), call, resend };
}

/** Replaces the last `depth` blocks by as many others that hold only these transactions, each in the block of its offset. */
export async function reorganise(
  lab: Lab,
  depth: number,
  transactions: readonly (readonly [Hex, number])[],
): Promise<void> {
  await callRpc(lab.chain.rpcUrl, "anvil_reorg", [depth, transactions]);
  // every reorganisation sets the chain's clock back a little
  await callRpc(lab.chain.rpcUrl, "evm_setTime", [Math.floor(Date.now() / 1000)]);
}
