/**
 * What a commit of blocks has to do besides settling their contents, determined by one statement before it starts. Most blocks make
 * nothing due, and each statement saved makes payments visible sooner.
 */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { hasFacilitatedAtDepth } from "../payments/facilitated-payments.ts";
import type { Tx } from "../postgres/client.ts";
import { hasChangesAtDepth, hasOutgoing } from "../wallet-ops/account-changes.ts";
import { hasDeepOperations } from "../wallet-ops/confirm-operations.ts";
import { linksRefundedBy } from "../wallet-ops/refunds.ts";
import { hasOrphanedRefunds } from "../wallet-ops/reorganised-refunds.ts";
import { hasDetectedAtDepth, linksToConfirm } from "./confirm-transfers.ts";
import { hasOrphanedAssignments } from "./reorganised-assignments.ts";

export type Due = {
  /** Links whose transfers are deep enough. */
  linksToConfirm: string[];
  /** Links whose refunds are deep enough, or executed in these blocks. */
  linksRefunded: string[];
  confirmsTransfers: boolean;
  confirmsFacilitated: boolean;
  confirmsOperations: boolean;
  confirmsChanges: boolean;
  /** Whether transfers out of wallets have become deep enough. */
  hasOutgoing: boolean;
  hasOrphanedRefunds: boolean;
  hasOrphanedAssignments: boolean;
};

export type DepthMove = {
  network: NetworkId;
  /** How deep blocks had to be before. */
  after: number;
  /** Blocks at this height and below are deep enough. */
  depthNumber: number;
  /** Operations executed in the blocks that are committed. */
  userOpHashes: readonly Hex[];
};

/** What is due according to stored rows; the caller knows what the blocks themselves add. */
export async function findDue(tx: Tx, move: DepthMove): Promise<Due> {
  const { network, after, depthNumber } = move;
  const [due] = await tx<[Due]>`
    select
      array(${linksToConfirm(tx, move)}) as links_to_confirm,
      array(${linksRefundedBy(tx, move)}) as links_refunded,
      ${hasDetectedAtDepth(tx, move)} as confirms_transfers,
      ${hasFacilitatedAtDepth(tx, move)} as confirms_facilitated,
      ${hasDeepOperations(tx, move)} as confirms_operations,
      ${hasChangesAtDepth(tx, move)} as confirms_changes,
      ${hasOutgoing(tx, { network, after, to: depthNumber })} as has_outgoing,
      ${hasOrphanedRefunds(tx, network)} as has_orphaned_refunds,
      ${hasOrphanedAssignments(tx, network)} as has_orphaned_assignments`;
  return due;
}
