/**
 * All logs of one block, proven against its header. A log query has no proof of its own: a node that drops a log, or does not have
 * the block, answers like one that found nothing. Receipts do, by their root; where a node has none, the logs' bloom is the next best.
 */
import type { Chain } from "../core/chain/clients.ts";
import { fieldOf } from "../core/chain/rpc-answers.ts";
import { RpcResponseError, RpcTransportError } from "../core/chain/rpc-errors.ts";
import type { ChainNode, RpcCall } from "../core/chain/rpc-node.ts";
import type { BlockHeader } from "./block-header.ts";
import { bloomOf } from "./bloom.ts";
import { receiptsRootOf } from "./receipts-root.ts";
import { assertOfBlock, type PlacedLog, parseLogs } from "./usdc-logs.ts";

/** Attempts over all nodes, before the block is left for a later look. */
const TRIES = 6;

export function receiptsCall({ hash }: BlockHeader): RpcCall {
  return { method: "eth_getBlockReceipts", params: [hash] };
}

/** The logs in a receipts answer. Throws RpcTransportError unless the receipts make the header's root. */
export function provenLogs(header: BlockHeader, answer: unknown): PlacedLog[] {
  const isWhole = Array.isArray(answer) && answer.every((receipt) => Array.isArray(fieldOf(receipt, "logs")));
  if (!isWhole) throw unproven(header, "no receipts were answered");
  const logs = parseLogs(answer.flatMap((receipt) => fieldOf(receipt, "logs") as unknown[]));
  assertOfBlock(logs, header);
  if (receiptsRootOf(answer) !== header.receiptsRoot)
    throw unproven(header, "the receipts do not make its root");
  return logs;
}

/** Asks one node after another until the logs are proven. Throws when none proves them: the block is not believed then. */
export async function readProvenLogs(chain: Chain, header: BlockHeader): Promise<PlacedLog[]> {
  let lastError: unknown;
  for (let tries = 0; tries < TRIES; tries++) {
    const nodes = chain.nodesByHealth();
    const node = nodes[tries % nodes.length];
    if (!node) break;
    // the other way every second round: some nodes have no receipts by block, some chains another receipt format
    const isReceiptsTurn = Math.floor(tries / nodes.length) % 2 === 0;
    try {
      return await (isReceiptsTurn ? byReceipts(chain, node, header) : byBloom(chain, node, header));
    } catch (error) {
      if (!(error instanceof RpcTransportError || error instanceof RpcResponseError)) throw error;
      lastError = error;
    }
  }
  throw lastError ?? unproven(header, "there is no node");
}

async function byReceipts(chain: Chain, node: ChainNode, header: BlockHeader): Promise<PlacedLog[]> {
  const { method, params } = receiptsCall(header);
  return provenLogs(header, await chain.requestOn(node, method, params));
}

async function byBloom(chain: Chain, node: ChainNode, header: BlockHeader): Promise<PlacedLog[]> {
  const logs = parseLogs(await chain.requestOn(node, "eth_getLogs", [{ blockHash: header.hash }]));
  assertOfBlock(logs, header);
  if (bloomOf(logs) !== header.bloom) throw unproven(header, `${node.label} left out logs`);
  return logs;
}

function unproven(header: BlockHeader, why: string): RpcTransportError {
  return new RpcTransportError("malformed", `block ${header.number} ${header.hash}: ${why}`);
}
