/** Reads what proves movements from the network's nodes: each block's header and receipts, checked against each other before they are used. */
import { proveTransfer, type TransferProof } from "../../../core/chain/transfer-proof.ts";
import type { ExportRow } from "../../../core/domain/export.ts";
import type { Hex } from "../../../core/domain/networks.ts";
import { toQuantity } from "../../../core/rpc/answers.ts";
import type { Chain } from "../../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../../core/rpc/errors.ts";
import type { RpcOutcome } from "../../../core/rpc/node.ts";

/** A node may lag or leave something out: asked again, perhaps another one. */
const ATTEMPTS = 3;

export type Proven = { row: ExportRow; proof: TransferProof | null };

/** Rows one after the other, those of a block together; null for what is not confirmed, or what no node proves. */
export async function* proveRows(
  chains: ReadonlyMap<string, Chain>,
  rows: readonly ExportRow[],
): AsyncGenerator<Proven> {
  let held: { key: string; blocks: unknown[] } | undefined;
  for (const row of rows) {
    const { network, blockNumber, txHash, logIndex, status } = row;
    const chain = chains.get(network);
    if (status !== "CONFIRMED" || !chain || blockNumber === null || txHash === null || logIndex === null) {
      yield { row, proof: null };
      continue;
    }
    let proof: TransferProof | undefined;
    for (let attempt = 0; attempt < ATTEMPTS && !proof; attempt++) {
      const key = `${network}:${blockNumber}`;
      // several movements of a block are neighbours
      const blocks: unknown[] = held?.key === key ? held.blocks : await readBlock(chain, blockNumber);
      const [block, receipts] = blocks;
      proof = Array.isArray(receipts)
        ? proveTransfer(block, receipts, { txHash: txHash as Hex, logIndex })
        : undefined;
      held = proof && { key, blocks };
    }
    yield { row, proof: proof ?? null };
  }
}

/** Throws RpcTransportError while no node is available: the export is tried again then. */
async function readBlock(chain: Chain, number: bigint): Promise<unknown[]> {
  const block = toQuantity(number);
  const outcomes = await chain.batch([
    { method: "eth_getBlockByNumber", params: [block, false] },
    { method: "eth_getBlockReceipts", params: [block] },
  ]);
  return outcomes.map(resultOf);
}

/** Undefined for what the node refuses, such as receipts that it does not keep. */
function resultOf(outcome: RpcOutcome): unknown {
  if (outcome.ok) return outcome.result;
  if (outcome.error instanceof RpcTransportError) throw outcome.error;
  return undefined;
}
