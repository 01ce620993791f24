/** Owners of a passkey wallet: a passkey by its public key (64 bytes) or an address (32 bytes), each able to act alone. Pure. */
import { createHash } from "node:crypto";
import type { Hex } from "./networks.ts";

export const OWNER_ACTIONS = ["ADD", "REMOVE"] as const;
export type OwnerAction = (typeof OWNER_ACTIONS)[number];

const ADDRESS_DIGITS = 64;
const ID_DIGITS = 32;

/** Names an owner on every network, whoever added it. */
export function ownerIdOf(owner: Hex): string {
  return `owner_${createHash("sha256").update(owner.toLowerCase()).digest("hex").slice(0, ID_DIGITS)}`;
}

/** The address of an owner that is one; undefined for a passkey. */
export function addressOfOwner(owner: Hex): Hex | undefined {
  if (owner.length !== 2 + ADDRESS_DIGITS) return undefined;
  return `0x${owner.slice(-40)}`;
}

/** By index; undefined where one was removed. */
export type OwnerSlots = readonly (Hex | undefined)[];

/** The slots after pending additions, in order: each new owner gets the next index. */
export function withAdded(slots: OwnerSlots, added: readonly Hex[]): (Hex | undefined)[] {
  const all = [...slots];
  for (const owner of added) if (!all.includes(owner)) all.push(owner);
  return all;
}

/**
 * Additions in the order of their nonces, as far as each follows the one before it from `nextNonce` on; `missingNonce` is what those behind
 * wait for.
 */
export function additionsInOrder<Addition extends { nonce: bigint }>(
  waiting: readonly Addition[],
  nextNonce: bigint,
): { inOrder: Addition[]; missingNonce: bigint | undefined } {
  const inOrder: Addition[] = [];
  let expected = nextNonce;
  for (const addition of waiting) {
    if (addition.nonce > expected) return { inOrder, missingNonce: expected };
    // two of one nonce: only one of them can run
    if (addition.nonce < expected) continue;
    inOrder.push(addition);
    expected += 1n;
  }
  return { inOrder, missingNonce: undefined };
}
