/** Reads proofs of movements from the network's nodes: each block's header and receipts, checked against each other before use. */
import { setTimeout } from "node:timers/promises";
import { proveTransfer, type TransferProof } from "../../../core/chain/transfer-proof.ts";
import type { ExportRow } from "../../../core/domain/export.ts";
import type { Hex } from "../../../core/domain/networks.ts";
import type { Chain } from "../../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../../core/rpc/errors.ts";
import type { RpcOutcome } from "../../../core/rpc/node.ts";
import { toQuantity } from "../../../core/rpc/parse-answers.ts";

/** Attempts per block: a node may lag or omit something, and another one is tried next. */
const READS_MAX = 3;
/** Pause between blocks, so that a file of 1,000 movements does not use up the provider's rate limit. */
const BLOCK_PAUSE_MS = 100;
/** Pauses while every node is rate limiting, longer if a node says so. After these the export is retried later. */
const RATE_LIMIT_WAITS = { max: 10, firstMs: 1_000, mostMs: 30_000 };

export type Proven = { row: ExportRow; proof: TransferProof | null };
type Held = { key: string; blocks: unknown[]; reads: number };
type Provable = { chain: Chain; blockNumber: bigint; log: { txHash: Hex; logIndex: number } };

/** Proves rows in order, those of the same block together; null for rows that are not confirmed or that no node proves. */
export async function* proveRows(
  chains: ReadonlyMap<string, Chain>,
  rows: readonly ExportRow[],
  signal: AbortSignal,
): AsyncGenerator<Proven> {
  // movements of the same block are adjacent
  let held: Held | undefined;
  for (const row of rows) {
    const provable = toProvable(chains, row);
    if (!provable) {
      yield { row, proof: null };
      continue;
    }
    const { chain, blockNumber, log } = provable;
    const key = `${row.network}:${blockNumber}`;
    if (held?.key !== key) held = { key, blocks: [], reads: 0 };
    let proof = proofIn(held, log);
    while (!proof && held.reads < READS_MAX) {
      await setTimeout(BLOCK_PAUSE_MS, undefined, { signal });
      held.blocks = await readPatiently(chain, blockNumber, signal);
      held.reads += 1;
      proof = proofIn(held, log);
    }
    yield { row, proof: proof ?? null };
  }
}

function toProvable(chains: ReadonlyMap<string, Chain>, row: ExportRow): Provable | undefined {
  const { network, blockNumber, txHash, logIndex, status } = row;
  const chain = chains.get(network);
  if (status !== "CONFIRMED" || !chain || blockNumber === null || txHash === null || logIndex === null)
    return undefined;
  return { chain, blockNumber, log: { txHash: txHash as Hex, logIndex } };
}

function proofIn({ blocks: [block, receipts] }: Held, log: Provable["log"]): TransferProof | undefined {
  return Array.isArray(receipts) ? proveTransfer(block, receipts, log) : undefined;
}

/** Waits as long as nodes request. Throws RpcTransportError while no node is available, so that the export is retried. */
async function readPatiently(chain: Chain, number: bigint, signal: AbortSignal): Promise<unknown[]> {
  for (let waits = 0; ; waits++) {
    try {
      return await readBlock(chain, number);
    } catch (error) {
      const isLimited = error instanceof RpcTransportError && error.kind === "rate-limit";
      if (!isLimited || waits >= RATE_LIMIT_WAITS.max) throw error;
      const { firstMs, mostMs } = RATE_LIMIT_WAITS;
      const waitMs = Math.max(Math.min(firstMs * 2 ** waits, mostMs), error.retryAfterMs ?? 0);
      await setTimeout(waitMs, undefined, { signal });
    }
  }
}

async function readBlock(chain: Chain, number: bigint): Promise<unknown[]> {
  const block = toQuantity(number);
  const outcomes = await chain.batch([
    { method: "eth_getBlockByNumber", params: [block, false] },
    { method: "eth_getBlockReceipts", params: [block] },
  ]);
  return outcomes.map(resultOf);
}

/** Undefined when the node refuses, for example receipts that it does not keep. */
function resultOf(outcome: RpcOutcome): unknown {
  if (outcome.ok) return outcome.result;
  if (outcome.error instanceof RpcTransportError) throw outcome.error;
  return undefined;
}
