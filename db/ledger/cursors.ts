/**
 * Read positions of the networks. A cursor moves by compare-and-set on (number, hash, epoch), in the transaction of its effects;
 * the epoch is that of the leader (leader-epoch.ts).
 */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Cursor, cursors } from "../schema.ts";

export type BlockPoint = { number: number; hash: Hex };

export async function findCursor(tx: Tx, network: NetworkId): Promise<Cursor | undefined> {
  const [row] = await tx<Cursor[]>`
    select ${columnsOf(tx, cursors)}
    from cursors
    where network = ${network}`;
  return row;
}

/** Creates the cursor of a network that was never read: `point` counts as read. */
export async function startCursor(tx: Tx, network: NetworkId, point: BlockPoint): Promise<void> {
  await tx`
    insert into cursors (network, number, hash, head_number, rechecked_number, started_at)
    values (${network}, ${point.number}, ${point.hash}, ${point.number}, ${point.number}, now())
    on conflict do nothing`;
}

export type CursorMove = {
  network: NetworkId;
  epoch: bigint;
  from: BlockPoint;
  to: BlockPoint;
  head: { number: number; timeS: number };
};

/** Moves the cursor. False when it is not at `from` or another term has begun: roll back then. */
export async function moveCursor(tx: Tx, move: CursorMove): Promise<boolean> {
  const rows = await tx`
    update cursors
    set
      number = ${move.to.number}, hash = ${move.to.hash}, updated_at = now(),
      head_number = ${move.head.number}, head_time = to_timestamp(${move.head.timeS}::float8),
      last_error = null, rechecked_number = least(rechecked_number, ${move.to.number})
    where network = ${move.network}
      and epoch = ${move.epoch}
      and number = ${move.from.number}
      and hash = ${move.from.hash}
    returning 1`;
  return rows.length === 1;
}

/** Records what the leader saw of the chain when there was nothing to read. */
export async function noteHead(
  tx: Tx,
  { network, epoch, head }: { network: NetworkId; epoch: bigint; head: { number: number; timeS: number } },
): Promise<void> {
  await tx`
    update cursors
    set
      head_number = ${head.number}, head_time = to_timestamp(${head.timeS}::float8), last_error = null,
      updated_at = now()
    where network = ${network} and epoch = ${epoch}`;
}

/** No block beyond the cursor becomes final, whatever a node says: the number never goes back. */
export async function noteFinalized(
  tx: Tx,
  { network, epoch, number }: { network: NetworkId; epoch: bigint; number: number },
): Promise<void> {
  await tx`
    update cursors
    set finalized_number = greatest(finalized_number, least(${number}::bigint, number))
    where network = ${network} and epoch = ${epoch}`;
}

/** Shown by health until the next successful step; a former leader's errors are not. The message must be safe to show. */
export async function noteError(
  tx: Tx,
  { network, epoch, message }: { network: NetworkId; epoch: bigint; message: string },
): Promise<void> {
  await tx`
    update cursors
    set last_error = ${message}, last_error_at = now()
    where network = ${network} and epoch = ${epoch}`;
}
