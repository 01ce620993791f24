/**
 * The receipts root of a block (Yellow Paper 4.4.3, EIP-2718). The header commits to every log of the block, so receipts that
 * produce this root are complete. Works on hex text throughout: receipts arrive as hex, and engines join strings quickly.
 */

import type { Hex } from "../domain/networks.ts";
import { fieldOf } from "../rpc/parse-answers.ts";
import { keccakText } from "./keccak.ts";
import { bytesText, quantityText, rlpList, rlpText } from "./rlp.ts";

/** Type of OP-stack deposit transactions; their receipts have two more fields. */
const DEPOSIT_TYPE = 0x7e;
const HASH_BYTES = 32;

/** The root of these receipts (as JSON-RPC returns them, in block order). */
export function receiptsRootOf(receipts: readonly unknown[]): Hex {
  return rootOfEncoded(receipts.map(encodeReceipt));
}

/** The same of receipts that were encoded one by one, since all of a block may not fit into memory. */
export function rootOfEncoded(receipts: readonly EncodedReceipt[]): Hex {
  const leaves = leavesOf(receipts);
  if (leaves.length === 0) return `0x${keccakText("80")}`;
  return `0x${keccakText(encodeNode(leaves, 0))}`;
}

/** The nodes of the trie from its root to the receipt of this index, which its last one holds: they can be checked against the root alone. */
export function receiptNodes(receipts: readonly unknown[], index: number): Hex[] {
  let leaves: readonly Leaf[] = leavesOf(receipts.map(encodeReceipt));
  const path = pathOf(index);
  const nodes: Hex[] = [];
  for (let depth = 0; ; ) {
    const node = encodeNode(leaves, depth);
    // a short node stands inside the one before it
    if (depth === 0 || node.length >= HASH_BYTES * 2) nodes.push(`0x${node}`);
    if (leaves.length <= 1) return nodes;
    const shared = sharedDigits(leaves, depth);
    const branch = depth;
    if (shared === 0) leaves = leaves.filter((leaf) => leaf.path[branch] === path[branch]);
    depth += Math.max(shared, 1);
  }
}

/** The key of a receipt in the trie: its index, as hex digits. */
export function pathOf(index: number): string {
  return rlpText(quantityText(`0x${index.toString(16)}`));
}

function leavesOf(receipts: readonly EncodedReceipt[]): Leaf[] {
  return receipts.map((value, index) => ({ path: pathOf(index), value }));
}

/** Bytes, since a text that was joined from many keeps all of them. */
export type EncodedReceipt = Buffer;

export function encodeReceipt(receipt: unknown): EncodedReceipt {
  const type = Number(fieldOf(receipt, "type") ?? 0);
  const fields = [
    rlpText(quantityText(textOf(receipt, "status"))),
    rlpText(quantityText(textOf(receipt, "cumulativeGasUsed"))),
    rlpText(bytesText(textOf(receipt, "logsBloom"))),
    rlpList((fieldOf(receipt, "logs") as unknown[]).map(encodeLog)),
  ];
  if (type === DEPOSIT_TYPE) {
    for (const name of ["depositNonce", "depositReceiptVersion"]) {
      const value = fieldOf(receipt, name);
      if (typeof value === "string") fields.push(rlpText(quantityText(value)));
    }
  }
  const body = rlpList(fields);
  return Buffer.from(type === 0 ? body : type.toString(16).padStart(2, "0") + body, "hex");
}

function encodeLog(log: unknown): string {
  const topics = fieldOf(log, "topics") as string[];
  return rlpList([
    rlpText(bytesText(textOf(log, "address"))),
    rlpList(topics.map((topic) => rlpText(bytesText(topic)))),
    rlpText(bytesText(textOf(log, "data"))),
  ]);
}

type Leaf = { path: string; value: EncodedReceipt };

/** A node of the Merkle Patricia trie (Yellow Paper appendix D) over leaves that share their first `depth` digits. */
function encodeNode(leaves: readonly Leaf[], depth: number): string {
  const [first] = leaves;
  if (!first) return rlpText("");
  if (leaves.length === 1)
    return rlpList([rlpText(compact(first.path.slice(depth), true)), rlpText(first.value.toString("hex"))]);
  const shared = sharedDigits(leaves, depth);
  if (shared > 0) {
    const digits = first.path.slice(depth, depth + shared);
    return rlpList([rlpText(compact(digits, false)), reference(leaves, depth + shared)]);
  }
  const children = Array.from("0123456789abcdef", (digit) =>
    reference(
      leaves.filter((leaf) => leaf.path[depth] === digit),
      depth + 1,
    ),
  );
  // no key of a list is a prefix of another, so a branch never carries a value
  return rlpList([...children, rlpText("")]);
}

function reference(leaves: readonly Leaf[], depth: number): string {
  if (leaves.length === 0) return rlpText("");
  const node = encodeNode(leaves, depth);
  return node.length < HASH_BYTES * 2 ? node : rlpText(keccakText(node));
}

function sharedDigits(leaves: readonly Leaf[], depth: number): number {
  const first = leaves[0]?.path ?? "";
  let shared = 0;
  while (
    depth + shared < first.length &&
    leaves.every((leaf) => leaf.path[depth + shared] === first[depth + shared])
  )
    shared++;
  return shared;
}

/** Hex-prefix encoding (Yellow Paper appendix C). */
function compact(digits: string, isLeaf: boolean): string {
  const flag = (isLeaf ? 2 : 0) + (digits.length % 2);
  return digits.length % 2 === 1 ? `${flag}${digits}` : `${flag}0${digits}`;
}

function textOf(value: unknown, name: string): string {
  const text = fieldOf(value, name);
  return typeof text === "string" ? text : "0x";
}
