/** User operations in a set of blocks: which are ours, and which transfers they made. */
import { explainRevert } from "../../core/chain/revert-reasons.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import {
  type OperationFailure,
  type OperationItem,
  pairRemaining,
  pairTransfers,
} from "../../core/domain/wallet-operation.ts";
import type { Tx } from "../../db/postgres/client.ts";
import {
  bindBookedTransfers,
  type FindBound,
  findBoundTransfers,
} from "../../db/wallet-ops/missed-events.ts";
import { type AttributedTransfer, restoreOperation } from "../../db/wallet-ops/restored-operations.ts";
import {
  loadOperations,
  type OperationEvent,
  recordOperationEvents,
  type SettlingOperation,
  settleOperations,
} from "../../db/wallet-ops/settlement.ts";
import type { SeenOperation, SeenTransfer } from "../source/decode-logs.ts";
import { placeOf, placeOfSeen } from "../source/log-place.ts";
import type { Isolate } from "./isolate-refused-records.ts";

export type SettledOperations = {
  /** Maps a transfer to the operation item that made it. */
  items: ReadonlyMap<SeenTransfer, bigint>;
  operationIds: string[];
};

type Seen = {
  operations: readonly SeenOperation[];
  transfers: readonly SeenTransfer[];
  /** Already stored transfers, which are bound to their operations here. */
  booked: readonly SeenTransfer[];
  /** Those of `transfers` that are attributed to links, not stored yet. */
  attributed: readonly AttributedTransfer[];
  /** Which transfers belonged to the items before a rebuild. */
  findPastBound?: FindBound | undefined;
};

/**
 * Call before `transfers` are stored, whose history rows may already be open. One by one while records are isolated: a left-out operation has no
 * event either, so refunds of the same money wait for it (`isBehindNonce`).
 */
export async function settleSeenOperations(
  tx: Tx,
  network: NetworkId,
  seen: Seen,
  isolate?: Isolate,
): Promise<SettledOperations> {
  if (!isolate) return settleTogether(tx, network, seen);
  const items = new Map<SeenTransfer, bigint>();
  const operationIds: string[] = [];
  for (const operation of seen.operations) {
    const { txHash, userOpHash } = operation;
    const settled = await isolate({ kind: "operation", txHash, userOpHash }, (part) =>
      settleTogether(part, network, { ...seen, operations: [operation] }),
    );
    for (const [transfer, item] of settled?.items ?? []) items.set(transfer, item);
    operationIds.push(...(settled?.operationIds ?? []));
  }
  return { items, operationIds };
}

async function settleTogether(
  tx: Tx,
  network: NetworkId,
  { operations, transfers, booked, attributed, findPastBound }: Seen,
): Promise<SettledOperations> {
  const items = new Map<SeenTransfer, bigint>();
  if (operations.length === 0) return { items, operationIds: [] };
  const events = operations.map(toEvent);
  await recordOperationEvents(tx, network, events);
  // an operation's transfers are paired in order, so already stored ones also take their items
  const placed = [...transfers, ...booked].sort((one, other) => one.logIndex - other.logIndex);
  const ownOf = (seen: SeenOperation) => placed.filter((transfer) => isOf(seen, transfer));
  for (const seen of operations) {
    const { executed, sender, userOpHash, nonce, block } = seen;
    if (!executed || !hasMoved(seen, executed.items, ownOf(seen))) continue;
    await restoreOperation(tx, network, attributed, {
      ...{ ...executed, sender, userOpHash, nonce, blockTimeS: block.timeS },
    });
  }
  const known = await loadOperations(
    tx,
    network,
    operations.map(({ userOpHash }) => userOpHash),
  );
  const byHash = new Map<Hex, SeenOperation>(operations.map((seen) => [seen.userOpHash, seen]));
  const boundTo = findPastBound
    ? await findBound(tx, findPastBound, placed, known)
    : await findBound(tx, findBoundTransfers, booked, known);
  for (const operation of known) {
    const seen = byHash.get(operation.userOpHash);
    if (!seen?.succeeded) continue;
    const own = ownOf(seen);
    const bound = new Map(
      operation.items.flatMap((item) => {
        const transfer = boundTo.get(item.id);
        const isOwn =
          transfer?.to === item.to && transfer.amountUnits === item.amountUnits && own.includes(transfer);
        return isOwn ? [[item, transfer] as const] : [];
      }),
    );
    const pairs =
      bound.size > 0 ? pairRemaining(operation.items, own, bound) : pairTransfers(operation.items, own);
    for (const [item, transfer] of pairs) items.set(transfer, item.id);
  }
  const hashes = new Set(known.map(({ userOpHash }) => userOpHash));
  const operationIds = await settleOperations(
    tx,
    network,
    events.filter(({ userOpHash }) => hashes.has(userOpHash)),
  );
  await bindBookedTransfers(
    tx,
    network,
    booked.flatMap((transfer) => {
      const itemId = items.get(transfer);
      return itemId === undefined
        ? []
        : [{ itemId, blockHash: transfer.block.hash, logIndex: transfer.logIndex }];
    }),
  );
  return { items, operationIds };
}

/** Those of these transfers that belong to items of these operations already, by the item's id. */
async function findBound(
  tx: Tx,
  find: FindBound,
  transfers: readonly SeenTransfer[],
  operations: readonly SettlingOperation[],
): Promise<ReadonlyMap<bigint, SeenTransfer>> {
  if (transfers.length === 0 || operations.length === 0) return new Map();
  const itemIds = operations.flatMap(({ items }) => items.map(({ id }) => id));
  const byPlace = new Map(transfers.map((one) => [placeOfSeen(one), one]));
  return new Map(
    (await find(tx, itemIds)).flatMap(({ itemId, ...place }) => {
      const transfer = byPlace.get(placeOf(place));
      return transfer ? [[itemId, transfer] as const] : [];
    }),
  );
}

/**
 * False when the account reports success but its calls made no transfers, which an account upgraded by its owner can do: its refunds would then
 * count without any money moved, and could exceed what a link's row can hold.
 */
function hasMoved(
  { succeeded }: SeenOperation,
  items: readonly OperationItem[],
  own: readonly SeenTransfer[],
): boolean {
  return !succeeded || pairTransfers(items, own).size === items.length;
}

/** The account's transfers between the EntryPoint's previous event in the transaction and the operation's own. */
function isOf(seen: SeenOperation, { block, txHash, from, logIndex }: SeenTransfer): boolean {
  return (
    block.hash === seen.block.hash &&
    txHash === seen.txHash &&
    from === seen.sender &&
    logIndex > seen.previousLogIndex &&
    logIndex < seen.logIndex
  );
}

function toEvent(seen: SeenOperation): OperationEvent {
  const { block, txHash, logIndex, userOpHash, sender, nonce, succeeded, gasUsed, revertData } = seen;
  return {
    blockNumber: block.number,
    blockHash: block.hash,
    txHash,
    logIndex,
    userOpHash,
    sender,
    nonce,
    succeeded,
    gasUsed,
    failure: succeeded ? undefined : failureOf(revertData),
  };
}

function failureOf(revertData: Hex | undefined): OperationFailure {
  const { reason } = explainRevert(revertData);
  return reason === "INSUFFICIENT_FUNDS" || reason === "PAYMENT_NOT_ALLOWED" ? reason : "REVERTED";
}
