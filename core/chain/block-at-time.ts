/** Finds the block of a given time by binary search over headers, with about two dozen requests on the longest chain. */
import type { Hex } from "../domain/networks.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { fieldOf, parseData, parseQuantity, toQuantity } from "../rpc/parse-answers.ts";

export type BlockPoint = { number: number; hash: Hex; timeS: number };

/** Undefined when the node does not have the block. */
export async function readBlockPoint(chain: Chain, number: number): Promise<BlockPoint | undefined> {
  const answer = await chain.request("eth_getBlockByNumber", [toQuantity(number), false]);
  if (answer === null) return undefined;
  return {
    number: Number(parseQuantity(fieldOf(answer, "number"), "block number")),
    hash: parseData(fieldOf(answer, "hash"), "block hash", 32),
    timeS: Number(parseQuantity(fieldOf(answer, "timestamp"), "block timestamp")),
  };
}

/** The last block, at most `upTo`, whose time is before `timeS`. Undefined when there is none. */
export async function findLastBlockBefore(
  chain: Chain,
  { timeS, upTo }: { timeS: number; upTo: number },
): Promise<BlockPoint | undefined> {
  let [low, high] = [0, upTo + 1];
  // periods that have just ended are the most frequent: look near the head first
  for (let step = 1; step < upTo; step *= 8) {
    const block = await readBlockPoint(chain, upTo - step + 1);
    if (block && block.timeS < timeS) {
      low = upTo - step + 2;
      break;
    }
    high = Math.min(high, upTo - step + 1);
  }
  while (low < high) {
    const middle = (low + high) >> 1;
    const block = await readBlockPoint(chain, middle);
    if (!block || block.timeS < timeS) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? undefined : readBlockPoint(chain, low - 1);
}
