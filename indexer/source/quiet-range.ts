/**
 * Checks with a single log query that the blocks after the cursor, up to a head, contain nothing of ours. Only used when
 * blooms are so full that they rule nothing out: every block then has followed logs, whose block hashes show that the node has
 * the cursor's block, the head's, and all between. If that cannot be shown, the blocks are read one by one instead.
 */

import { noteAccepted, noteRefused } from "../../core/rpc/adaptive-limit.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { isRefusal } from "../../core/rpc/errors.ts";
import type { ChainNode } from "../../core/rpc/node.ts";
import { toQuantity } from "../../core/rpc/parse-answers.ts";
import type { BlockPoint } from "../../db/ledger/cursors.ts";
import type { BlockHeader } from "./block-header.ts";
import type { Watch } from "./block-logs.ts";
import {
  decodeBlock,
  followedLogs,
  hasLoneAuthorization,
  isOurs,
  type PlacedLog,
  parseLogs,
  selectFollowedLogs,
} from "./decode-logs.ts";

/** Including the cursor's block; anything further behind is read as a catch-up. */
const BLOCKS_MAX = 32;

export async function isQuietRange(
  chain: Chain,
  { cursor, head }: { cursor: BlockPoint; head: BlockHeader },
  watch: Watch,
): Promise<boolean> {
  const range = { from: cursor.number, to: head.number };
  if (range.to - range.from + 1 > BLOCKS_MAX) return false;
  const answer = await chain.withNode((node) => readLogs(chain, node, range));
  if (answer === undefined) return false;
  const byNumber = new Map<number, PlacedLog[]>();
  for (const log of selectFollowedLogs(parseLogs(answer), chain.network.usdc.address)) {
    const ofBlock = byNumber.get(log.blockNumber);
    if (ofBlock) ofBlock.push(log);
    else byNumber.set(log.blockNumber, [log]);
  }
  const hashes = new Map<number, string>([
    [cursor.number, cursor.hash],
    [head.number, head.hash],
  ]);
  for (let number = range.from; number <= range.to; number++) {
    const logs = byNumber.get(number);
    const [first] = logs ?? [];
    if (!logs || !first) return false;
    const hash = hashes.get(number) ?? first.blockHash;
    if (logs.some(({ blockHash }) => blockHash !== hash)) return false;
    // the cursor's own block has already been read
    if (number > cursor.number && concernsUs(logs, head, watch)) return false;
  }
  return true;
}

/** Undefined when the node accepts no range of this size. */
async function readLogs(
  chain: Chain,
  node: ChainNode,
  { from, to }: { from: number; to: number },
): Promise<unknown> {
  const limit = node.health.logBlocks;
  const blocks = to - from + 1;
  if (blocks > limit.size) return undefined;
  const filter = { fromBlock: toQuantity(from), toBlock: toQuantity(to) };
  const { address } = chain.network.usdc;
  try {
    const answer = await chain.requestOn(node, "eth_getLogs", [{ ...filter, ...followedLogs(address) }]);
    noteAccepted(limit, blocks, performance.now());
    return answer;
  } catch (error) {
    if (!isRefusal(error)) throw error;
    noteRefused(limit, blocks, performance.now());
    return undefined;
  }
}

/** `header` is only a placeholder: nothing decoded here is kept. */
function concernsUs(logs: readonly PlacedLog[], header: BlockHeader, watch: Watch): boolean {
  return hasLoneAuthorization(logs) || isOurs(decodeBlock(header, logs, watch.isWatched));
}
