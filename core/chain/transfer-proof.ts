/**
 * Proves that a transfer is in a block, to anyone who trusts only the block's hash: the header makes the hash, the nodes of the trie make
 * the header's receipts root, and the receipt they end with holds the log (Yellow Paper appendix D, EIP-2718).
 */
import type { Hex, Network } from "../domain/networks.ts";
import { fieldOf } from "../rpc/parse-answers.ts";
import { headerBytes, readHeader } from "./encode-header.ts";
import { keccakText } from "./keccak.ts";
import { pathOf, receiptNodes, receiptsRootOf } from "./receipts-root.ts";
import { type RlpItem, readRlp } from "./rlp.ts";
import { decodeTransferLog } from "./usdc.ts";

export type TransferProof = {
  blockNumber: number;
  blockHash: Hex;
  /** RLP. */
  header: Hex;
  transactionIndex: number;
  /** The log's place among those of its transaction. */
  logPosition: number;
  /** From the root of the receipts to the transaction's receipt. */
  nodes: Hex[];
};
export type ProvenTransfer = { from: Hex; to: Hex; amountUnits: bigint; timeS: number };

/** Typed receipts begin with their type, which is below this. */
const TYPES_BELOW = 0x80;
const BRANCH_ITEMS = 17;

type Wanted = { txHash: Hex; logIndex: number };

/** Undefined when block and receipts, as JSON-RPC returns them, do not belong together or lack the log. */
export function proveTransfer(
  block: unknown,
  receipts: readonly unknown[],
  { txHash, logIndex }: Wanted,
): TransferProof | undefined {
  const header = headerBytes(block);
  if (!header || receiptsRootOf(receipts) !== fieldOf(block, "receiptsRoot")) return undefined;
  const index = receipts.findIndex((receipt) => fieldOf(receipt, "transactionHash") === txHash);
  const logs = fieldOf(receipts[index], "logs");
  const logPosition = Array.isArray(logs)
    ? logs.findIndex((log) => Number(fieldOf(log, "logIndex")) === logIndex)
    : -1;
  if (logPosition < 0) return undefined;
  const { hash, number } = readHeader(header);
  return {
    blockNumber: number,
    blockHash: hash,
    header,
    transactionIndex: index,
    logPosition,
    nodes: receiptNodes(receipts, index),
  };
}

/** What the proof shows. Throws RangeError when it shows nothing. */
export function readProof(proof: TransferProof, network: Network): ProvenTransfer {
  const header = readHeader(proof.header);
  if (header.hash !== proof.blockHash) throw new RangeError("the header does not match the block's hash");
  if (header.number !== proof.blockNumber) throw new RangeError("the header has another block number");
  const receipt = receiptIn(proof, header.receiptsRoot);
  const [status, , , logs] = typeof receipt === "string" ? [] : receipt;
  if (status !== "01") throw new RangeError("the transaction failed");
  const log = Array.isArray(logs) ? (logs[proof.logPosition] as RlpItem | undefined) : undefined;
  if (log === undefined || typeof log === "string") throw new RangeError("the receipt lacks the log");
  const [address, topics, data] = log;
  if (`0x${String(address)}` !== network.usdc.address)
    throw new RangeError("the log is of another contract than USDC");
  const named = Array.isArray(topics) ? topics.map((topic) => `0x${String(topic)}`) : [];
  const transfer = decodeTransferLog({ topics: named, data: `0x${String(data)}` });
  if (!transfer) throw new RangeError("the log is not a transfer");
  return { ...transfer, timeS: header.timeS };
}

function receiptIn({ nodes, transactionIndex }: TransferProof, root: Hex): RlpItem {
  const byHash = new Map(nodes.map((node) => [keccakText(node.slice(2)), node.slice(2)]));
  const value = walk(byHash, root.slice(2), pathOf(transactionIndex));
  const isTyped = Number.parseInt(value.slice(0, 2), 16) < TYPES_BELOW;
  return readRlp(isTyped ? value.slice(2) : value);
}

/** The value at a path of the trie with this root, through the nodes given. */
function walk(byHash: ReadonlyMap<string, string>, root: string, path: string): string {
  let node = readRlp(nodeOf(byHash, root));
  let rest = path;
  for (;;) {
    if (typeof node === "string") throw new RangeError("a node of the trie is not a list");
    if (node.length === BRANCH_ITEMS) {
      const child = node[Number.parseInt(rest[0] ?? "", 16)];
      node = follow(byHash, child);
      rest = rest.slice(1);
      continue;
    }
    const [prefix, value] = node;
    if (typeof prefix !== "string" || value === undefined)
      throw new RangeError("a node of the trie is broken");
    const flag = Number.parseInt(prefix[0] ?? "", 16);
    const digits = prefix.slice(flag % 2 === 1 ? 1 : 2);
    const isLeaf = flag >= 2;
    if (isLeaf) {
      if (digits !== rest || typeof value !== "string")
        throw new RangeError("the nodes lead to another receipt");
      return value;
    }
    if (!rest.startsWith(digits)) throw new RangeError("the nodes lead to another receipt");
    node = follow(byHash, value);
    rest = rest.slice(digits.length);
  }
}

/** A reference is a hash, or a short node itself. */
function follow(byHash: ReadonlyMap<string, string>, reference: RlpItem | undefined): RlpItem {
  if (reference === undefined || reference === "") throw new RangeError("the trie ends before the receipt");
  return typeof reference === "string" ? readRlp(nodeOf(byHash, reference)) : reference;
}

function nodeOf(byHash: ReadonlyMap<string, string>, hash: string): string {
  const node = byHash.get(hash);
  if (node === undefined) throw new RangeError("a node of the trie is missing or changed");
  return node;
}
