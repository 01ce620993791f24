/** Parses block headers, and checks that they form a chain. */

import { hashHeader } from "../../core/chain/encode-header.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import type { ChainNode, RpcCall, RpcOutcome } from "../../core/rpc/node.ts";
import { fieldOf, parseData, parseQuantity, toQuantity } from "../../core/rpc/parse-answers.ts";

export type BlockHeader = {
  number: number;
  hash: Hex;
  parentHash: Hex;
  /** Unix seconds. */
  timeS: number;
  /** Yellow Paper 4.4.3: 2,048 bits, three for each address and topic logged. */
  bloom: Hex;
  /**
   * Whether the header makes its block's hash. If not, its bloom rules nothing out: some nodes leave it empty, and a chain may add fields that
   * are unknown here.
   */
  isHashProven: boolean;
  receiptsRoot: Hex;
};

export type BlockTag = "latest" | "safe" | "finalized";

export function headerCall(block: BlockTag | number): RpcCall {
  return {
    method: "eth_getBlockByNumber",
    params: [typeof block === "number" ? toQuantity(block) : block, false],
  };
}

/** Undefined when the node does not have the block (null is "unknown", never "gone"). */
export function parseHeader(answer: unknown): BlockHeader | undefined {
  if (answer === null) return undefined;
  const hash = parseData(fieldOf(answer, "hash"), "block hash", 32);
  return {
    number: Number(parseQuantity(fieldOf(answer, "number"), "block number")),
    hash,
    parentHash: parseData(fieldOf(answer, "parentHash"), "parent hash", 32),
    timeS: Number(parseQuantity(fieldOf(answer, "timestamp"), "block timestamp")),
    bloom: parseData(fieldOf(answer, "logsBloom"), "logs bloom", 256),
    isHashProven: hashHeader(answer) === hash,
    receiptsRoot: parseData(fieldOf(answer, "receiptsRoot"), "receipts root", 32),
  };
}

/** The header of a tag or height, from the healthiest node. */
export async function readHeader(chain: Chain, block: BlockTag | number): Promise<BlockHeader | undefined> {
  const { method, params } = headerCall(block);
  return parseHeader(await chain.request(method, params));
}

export async function readHeaderOn(
  chain: Chain,
  node: ChainNode,
  block: BlockTag | number,
): Promise<BlockHeader | undefined> {
  const { method, params } = headerCall(block);
  return parseHeader(await chain.requestOn(node, method, params));
}

/** The result of one call of a batch. Throws its error. */
export function need(outcome: RpcOutcome | undefined): unknown {
  if (outcome?.ok) return outcome.result;
  throw outcome?.error ?? new RpcTransportError("malformed", "a batch was answered with too few results");
}

/** Throws unless the headers are consecutive and each has the previous one as its parent. */
export function assertChained(headers: readonly BlockHeader[]): void {
  for (const [index, header] of headers.entries()) {
    const before = headers[index - 1];
    if (!before || (header.parentHash === before.hash && header.number === before.number + 1)) continue;
    throw new RpcTransportError(
      "not-ready",
      `block ${header.number} ${header.hash} does not follow block ${before.number} ${before.hash}: the node answers from two chains`,
    );
  }
}
