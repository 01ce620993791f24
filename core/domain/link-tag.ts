/**
 * A link's tag: 16 bytes that identify it on the chain. They are read from the first half of an authorization's nonce (EIP-3009), after
 * the calldata of a plain `transfer`, and after each item of one of our relays.
 */

import { stringToBytes } from "viem-modules/utils/encoding/toBytes.js";
import { keccak256 } from "viem-modules/utils/hash/keccak256.js";
import type { Hex } from "./networks.ts";

export const TAG_BYTES = 16;
const TAG_END = 2 + 2 * TAG_BYTES;

/** The tag of an item without a link: a facilitated payment. */
export const NO_LINK_TAG: Hex = `0x${"00".repeat(TAG_BYTES)}`;

/** First 16 bytes of keccak256("link-tag:" + linkId). */
export function linkTag(linkId: string): Hex {
  return keccak256(stringToBytes(`link-tag:${linkId}`)).slice(0, TAG_END) as Hex;
}

/** The half of an authorization's nonce that may be a tag. */
export function tagOfNonce(nonce: Hex): Hex {
  return nonce.slice(0, TAG_END) as Hex;
}
