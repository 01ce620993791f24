/** Reads a block with its proven logs, by height. */
import type { Hex } from "../../core/domain/networks.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { Term } from "../leader-term.ts";
import { readHeader } from "../source/block-header.ts";
import { type BlockContent, decodeBlock, isFollowedBy, selectFollowedLogs } from "../source/decode-logs.ts";
import { readProvenLogs } from "../source/verified-block.ts";

/** Throws RpcTransportError when no node has the block, or none proves its logs. */
export async function readProvenBlock(term: Term, number: number): Promise<BlockContent> {
  const header = await readHeader(term.chain, number);
  if (!header) throw new RpcTransportError("not-ready", `no node knows block ${number}`);
  const { address: usdc } = term.chain.network.usdc;
  const isWatched = (address: Hex) => term.watched.has(address);
  const proven = await readProvenLogs(term.chain, header, isFollowedBy(usdc, isWatched));
  return decodeBlock(header, selectFollowedLogs(proven, usdc), isWatched);
}
