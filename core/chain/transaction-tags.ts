/**
 * The link tag a transaction carries for one of its USDC transfers: 16 bytes appended to the calldata of a plain `transfer`, or to
 * an item of one of our relays. The token and Multicall3 ignore them.
 */

import { multicall3Abi } from "viem-modules/constants/abis.js";
import { decodeFunctionData } from "viem-modules/utils/abi/decodeFunctionData.js";
import { TAG_BYTES } from "../domain/link-tag.ts";
import { CONTRACTS, type Hex } from "../domain/networks.ts";
import { hexWord } from "./abi-words.ts";
import { encodeTransfer, TRANSFER_WITH_BYTES, TRANSFER_WITH_VRS } from "./usdc.ts";
import type { VerifiedTransaction } from "./verify-transaction.ts";

/** `isRelayed`: found in one of our relays, which names the link of each item, or sixteen zero bytes for none. */
export type FoundTag = { tag: Hex; isRelayed: boolean };

export type TaggedTransfer = { from: Hex; to: Hex; amountUnits: bigint; authorizationNonce: Hex | undefined };

const WORD_DIGITS = 64;
const SELECTOR_DIGITS = 10;
const TAG_DIGITS = 2 * TAG_BYTES;
/** Words of the v, r, s overload; for the other overload, those before the length of the signature. */
const VRS_WORDS = 9;
const BYTES_HEAD_WORDS = 7;
const NONCE_WORD = 5;

/** `isRelayer`: a current or past relayer address of ours. Undefined when there is no tag for this transfer. */
export function tagOfTransaction(
  transaction: VerifiedTransaction,
  transfer: TaggedTransfer,
  { usdc, isRelayer }: { usdc: Hex; isRelayer: (address: Hex) => boolean },
): FoundTag | undefined {
  const { from, to, input } = transaction;
  if (to === usdc && from === transfer.from) {
    const call = encodeTransfer(transfer.to, transfer.amountUnits);
    if (input.startsWith(call)) return found(tagAt(input, call.length), false);
  }
  if (!isRelayer(from) || transfer.authorizationNonce === undefined) return undefined;
  for (const item of itemsOf(transaction, usdc)) {
    if (readWord(item, 0) !== hexWord(transfer.from)) continue;
    if (`0x${readWord(item, NONCE_WORD)}` !== transfer.authorizationNonce) continue;
    const end = canonicalLength(item);
    if (end !== undefined) return found(tagAt(item, end), true);
  }
  return undefined;
}

function found(tag: Hex | undefined, isRelayed: boolean): FoundTag | undefined {
  return tag && { tag, isRelayed };
}

/** The token calls of a relay: the call itself, or those Multicall3 makes. */
function itemsOf({ to, input }: VerifiedTransaction, usdc: Hex): Hex[] {
  if (to === usdc) return [input];
  if (to !== CONTRACTS.multicall3) return [];
  try {
    const { functionName, args } = decodeFunctionData({ abi: multicall3Abi, data: input });
    if (functionName !== "aggregate3") return [];
    return args[0].flatMap(({ target, callData }) => (target.toLowerCase() === usdc ? [callData] : []));
  } catch {
    // not aggregate3, so not one of our relays
    return [];
  }
}

/** Hex digits of the call's canonical encoding, 0x included; undefined when it is not `transferWithAuthorization`. */
function canonicalLength(item: Hex): number | undefined {
  const selector = item.slice(0, SELECTOR_DIGITS);
  if (selector === TRANSFER_WITH_VRS) return SELECTOR_DIGITS + VRS_WORDS * WORD_DIGITS;
  if (selector !== TRANSFER_WITH_BYTES) return undefined;
  const signatureBytes = Number(`0x${readWord(item, BYTES_HEAD_WORDS) || 0}`);
  const signatureWords = Math.ceil((2 * signatureBytes) / WORD_DIGITS);
  return SELECTOR_DIGITS + (BYTES_HEAD_WORDS + 1 + signatureWords) * WORD_DIGITS;
}

function tagAt(data: Hex, position: number): Hex | undefined {
  const digits = data.slice(position, position + TAG_DIGITS);
  return digits.length === TAG_DIGITS ? `0x${digits}` : undefined;
}

function readWord(item: Hex, index: number): string {
  const start = SELECTOR_DIGITS + index * WORD_DIGITS;
  return item.slice(start, start + WORD_DIGITS);
}
