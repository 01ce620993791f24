/** Reorganisations of the ledger campaign. */
import type { Hex } from "../../core/domain/networks.ts";
import { callRpc, callRpcBatch } from "../../local/chain/rpc.ts";
import { mine } from "../support/indexer-lab.ts";
import { maybeStayBehind } from "./campaign-nodes.ts";
import type { Stage } from "./campaign-stage.ts";

export const REORG_DEPTH_MAX = 5;

/** Some of what the last blocks held comes back in the new branch, in another order. */
export async function reorganise(stage: Stage): Promise<void> {
  const { lab, random } = stage;
  const depth = 1 + Math.floor(random() * REORG_DEPTH_MAX);
  const { rpcUrl } = lab.chain;
  const head = Number(await callRpc(rpcUrl, "eth_blockNumber"));
  const recent = stage.sent.slice(-4 * REORG_DEPTH_MAX);
  if (recent.length === 0) return;
  const receipts = (await callRpcBatch(
    rpcUrl,
    recent.map(({ txHash }) => ({ method: "eth_getTransactionReceipt", params: [txHash] })),
  )) as ({ blockNumber: Hex } | null)[];
  const dropped = recent.filter((_, index) => Number(receipts[index]?.blockNumber ?? 0) > head - depth);
  const again = dropped.filter(() => random() < 0.5);
  if (random() < 0.5) again.reverse();
  // in one block, or in as many as there are
  const isCrowded = random() < 0.5;
  const placed = again.map(({ raw }, index) => [raw, isCrowded ? 0 : Math.min(index, depth - 1)] as const);
  await maybeStayBehind(stage.nodes);
  await callRpc(rpcUrl, "anvil_reorg", [depth, placed]);
  await callRpc(rpcUrl, "evm_setTime", [Math.floor(Date.now() / 1000)]);
  await mine(lab);
}
