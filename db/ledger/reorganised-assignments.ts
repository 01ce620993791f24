/**
 * A merchant's decisions about transfers that were reorganised away. They are stored by the transfer's position in the chain, and must not apply
 * to another transfer that has the same position in the next block.
 */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { countEqualBefore } from "../wallet-ops/reorganised-refunds.ts";

/** Keeps which transfer was decided about. */
export async function noteOrphanedAssignments(tx: Tx, transferIds: readonly string[]): Promise<void> {
  await tx`
    update assignments
    set orphaned_transfer_id = gone.id
    from transfers gone
    where gone.id = any(${[...transferIds]}::text[]::bigint[])
      and assignments.network = gone.network
      and assignments.tx_hash = hex_of(gone.tx_hash)
      and assignments.log_index = gone.log_index
      and assignments.orphaned_transfer_id is null`;
}

/**
 * Moves pending decisions away from these places, to negative log indexes of their transaction: a pending decision is found by its transfer's
 * id, and takes a real place again once the transfer is back.
 */
export async function clearPlaces(
  tx: Tx,
  network: NetworkId,
  places: readonly { tx_hash: Hex; log_index: number }[],
): Promise<void> {
  await tx`
    update assignments
    set log_index = least(0, lowest) - place
    from (
      select
        waiting.tx_hash, waiting.log_index, row_number() over (partition by waiting.tx_hash) as place,
        (
          select min(log_index)
          from assignments
          where assignments.network = ${network} and assignments.tx_hash = waiting.tx_hash
        ) as lowest
      from json_to_recordset(${JSON.stringify(places)}::text::json) as given (tx_hash text, log_index int)
      join assignments waiting using (tx_hash, log_index)
      where waiting.network = ${network} and waiting.orphaned_transfer_id is not null
    ) displaced
    where assignments.network = ${network}
      and assignments.tx_hash = displaced.tx_hash
      and assignments.log_index = displaced.log_index`;
}

/** SQL: true when a decision is pending that `moveAssignments` may move. */
export function hasOrphanedAssignments(tx: Tx, network: NetworkId) {
  return tx`exists (
    select from assignments
    where network = ${network} and orphaned_transfer_id is not null
  )`;
}

/** Whether one of these transfers may be the one that a decision is about, wherever it was. */
export async function hasAssignments(
  tx: Tx,
  network: NetworkId,
  transfers: readonly Pick<PlacedTransfer, "txHash" | "authorizationNonce">[],
): Promise<boolean> {
  const rows = await tx`
    select
    from assignments
    where network = ${network} and tx_hash = any(${[...new Set(transfers.map(({ txHash }) => txHash))]}::text[])
    union all
    select
    from assignments
    join transfers gone on gone.id = assignments.orphaned_transfer_id
    where assignments.network = ${network}
      and assignments.orphaned_transfer_id is not null
      and gone.authorization_nonce = any(${transfers.flatMap(({ authorizationNonce }) => authorizationNonce ?? [])}::bytea[])
    limit 1`;
  return rows.length > 0;
}

type PlacedTransfer = {
  txHash: Hex;
  logIndex: number;
  from: Hex;
  to: Hex;
  amountUnits: bigint;
  authorizationNonce?: Hex | undefined;
};

export type OrphanedTransfer = {
  txHash: Hex;
  logIndex: number;
  from: Hex;
  to: Hex;
  amountUnits: bigint;
  authorizationNonce: Hex | null;
  /** The number of equal transfers before it in its transaction. */
  alikeBefore: number;
};

/**
 * Gives decisions the places of their transfers among `transfers`, which are not attributed yet; with `booked`, which are, they are all of their
 * blocks. A transfer is recognised in the same way as for its refunds (`moveRefunds`), but never with another amount, since the merchant's decision
 * was about that amount. If a node left out one of several equal ones, the others may have the decisions of their neighbours by now: then a decision takes
 * one of the equal transfers that are left.
 */
export async function moveAssignments(
  tx: Tx,
  network: NetworkId,
  transfers: readonly PlacedTransfer[],
  booked: readonly PlacedTransfer[] = [],
): Promise<void> {
  const orphaned = await tx<OrphanedTransfer[]>`
    select
      assignments.tx_hash, assignments.log_index, gone.from_address as from, gone.to_address as to, gone.amount_units,
      gone.authorization_nonce,
      ${countEqualBefore(tx)}::int as alike_before
    from assignments
    join transfers gone on gone.id = assignments.orphaned_transfer_id
    where assignments.network = ${network} and assignments.orphaned_transfer_id is not null`;
  if (orphaned.length === 0) return;
  const findReturned = findReturnedAmong(transfers, booked, orphaned);
  const moves = orphaned.flatMap((one) => {
    const found = findReturned(one);
    const { txHash, logIndex } = one;
    return found
      ? [{ tx_hash: txHash, log_index: logIndex, to_hash: found.txHash, to_index: found.logIndex }]
      : [];
  });
  if (moves.length > 0) await move(tx, network, moves);
}

function findReturnedAmong(
  transfers: readonly PlacedTransfer[],
  booked: readonly PlacedTransfer[],
  orphaned: readonly OrphanedTransfer[],
): (gone: OrphanedTransfer) => PlacedTransfer | undefined {
  const findOwn = byLikeness(
    [...transfers, ...booked].toSorted((one, other) => one.logIndex - other.logIndex),
  );
  const isBooked = new Set(booked);
  const nameOf = (gone: OrphanedTransfer) => `${likenessOf(gone)}:${gone.alikeBefore}`;
  const found = new Map<string, PlacedTransfer>();
  const displaced = new Map<string, OrphanedTransfer>();
  for (const gone of orphaned) {
    const own = findOwn(gone);
    if (own && isBooked.has(own)) displaced.set(nameOf(gone), gone);
    else if (own) found.set(nameOf(gone), own);
  }
  const taken = new Set(found.values());
  for (const [name, gone] of displaced) {
    const left = transfers.find(
      (transfer) => !taken.has(transfer) && likenessOf(transfer) === likenessOf(gone),
    );
    if (!left) continue;
    taken.add(left);
    found.set(name, left);
  }
  return (gone) => found.get(nameOf(gone));
}

/** Finds the transfer of `inOrder` (by log index) that is an orphaned one at its new place. */
export function byLikeness<Transfer extends PlacedTransfer>(
  inOrder: readonly Transfer[],
): (gone: OrphanedTransfer) => Transfer | undefined {
  const alike = Map.groupBy(inOrder, likenessOf);
  return (gone) => alike.get(likenessOf(gone))?.[gone.alikeBefore];
}

/** An authorization is executed only once, in whichever transaction. Transfers of other amounts are told apart by them, in whatever order a node shows them. */
function likenessOf({
  txHash,
  from,
  to,
  amountUnits,
  authorizationNonce: nonce,
}: PlacedTransfer | OrphanedTransfer): string {
  return [from, to, amountUnits, ...(nonce ? ["authorization", nonce] : [txHash])].join(":");
}

type Move = { tx_hash: Hex; log_index: number; to_hash: Hex; to_index: number };

/**
 * Removed first: one may move to where another comes from. Of several for one transfer, the last is kept. The foreign key is checked at the commit: it
 * locks the decision's link, and links are locked together, in order, once the transfers are attributed.
 */
async function move(tx: Tx, network: NetworkId, moves: readonly Move[]): Promise<void> {
  await tx`set constraints assignments_link_id_fkey deferred`;
  type Removed = { toHash: Hex; toIndex: number; userId: string; linkId: string | null; accept: boolean };
  const removed = await tx<Removed[]>`
    with removed as (
      delete from assignments
      using json_to_recordset(${JSON.stringify(moves)}::text::json)
        as given (tx_hash text, log_index int, to_hash text, to_index int)
      where assignments.network = ${network}
        and assignments.tx_hash = given.tx_hash
        and assignments.log_index = given.log_index
      returning
        given.to_hash, given.to_index, assignments.user_id, assignments.link_id, assignments.accept,
        assignments.updated_at
    )
    select to_hash, to_index, user_id, link_id, accept
    from removed
    order by updated_at`;
  await clearPlaces(
    tx,
    network,
    moves.map(({ to_hash, to_index }) => ({ tx_hash: to_hash, log_index: to_index })),
  );
  const kept = new Map(removed.map((row) => [`${row.toHash}:${row.toIndex}`, row])).values();
  const rows = Array.from(kept, ({ toHash, toIndex, userId, linkId, accept }) => ({
    ...{ tx_hash: toHash, log_index: toIndex, user_id: userId, link_id: linkId, accept },
  }));
  await tx`
    insert into assignments (network, tx_hash, log_index, user_id, link_id, accept)
    select ${network}, tx_hash, log_index, user_id, link_id, accept
    from json_to_recordset(${JSON.stringify(rows)}::text::json)
      as given (tx_hash text, log_index int, user_id text, link_id text, accept boolean)
    on conflict (network, tx_hash, log_index) do update
    set user_id = excluded.user_id, link_id = excluded.link_id, accept = excluded.accept, updated_at = now()`;
}
