/** Blocks below the cursor that are read once more must be those of the branch that was read: nodes can still answer from a replaced one. */
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { findBlocks, findNextBlock } from "../../db/ledger/blocks.ts";
import type { BlockPoint } from "../../db/ledger/cursors.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { Term } from "../leader-term.ts";
import { assertChained, type BlockHeader, headerCall, need, parseHeader } from "../source/block-header.ts";

/** Near the head, at most this many blocks in a row without our records are skipped without being stored. */
const SKIPPED_MAX = 32;

/** A block below the cursor differs from the one that was read: wait until the reorganisation is undone. */
export class OtherBranchError extends Error {}

/** Stored blocks that must still be stored when these are booked: each block itself, or the next stored one, which is proven to descend from it. */
export async function findAnchors(
  { sql, network, chain }: Pick<Term, "sql" | "network" | "chain">,
  read: readonly BlockHeader[],
): Promise<BlockPoint[]> {
  const anchors: BlockPoint[] = [];
  for (const block of read) {
    const next = await findNextBlock(sql, network, block.number);
    const distance = (next?.number ?? Number.POSITIVE_INFINITY) - block.number;
    // larger gaps only occur between final blocks
    if (distance > SKIPPED_MAX) continue;
    if (distance === 0) {
      anchors.push(block);
      continue;
    }
    const numbers = Array.from({ length: distance }, (_, index) => block.number + 1 + index);
    const headers = (await chain.batch(numbers.map(headerCall))).map((outcome) => parseHeader(need(outcome)));
    const known = headers.flatMap((header) => header ?? []);
    const last = known.at(-1);
    if (known.length < distance || !last)
      throw new RpcTransportError("not-ready", `no node knows block ${block.number + distance}`);
    assertChained([block, ...known]);
    anchors.push(last);
  }
  return anchors;
}

/** Throws OtherBranchError unless these blocks and their anchors (`findAnchors`) are the stored ones. In the transaction that books them. */
export async function assertSameBranch(
  tx: Tx,
  { network }: Pick<Term, "network">,
  blocks: readonly BlockHeader[],
  anchors: readonly BlockPoint[],
): Promise<void> {
  const numbers = [...blocks, ...anchors].map(({ number }) => number);
  if (numbers.length === 0) return;
  const kept = await findBlocks(tx, network, { from: Math.min(...numbers), to: Math.max(...numbers) });
  const hashes = new Map(kept.map(({ number, hash }) => [number, hash]));
  for (const { number, hash } of blocks) {
    const stored = hashes.get(number);
    if (stored !== undefined && stored !== hash)
      throw new OtherBranchError(`block ${number} is ${hash} now, but ${stored} was read`);
  }
  for (const { number, hash } of anchors)
    if (hashes.get(number) !== hash)
      throw new OtherBranchError(`block ${number} ${hash} is no longer stored`);
}
