/**
 * The epoch of a network's leading indexer, a fencing token: a new leader raises it, and what a leader books is conditional on its own.
 * Moves of the cursor check it in the same statement (cursors.ts); other transactions that book hold it until they end.
 */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Cursor, cursors } from "../schema.ts";

/** Starts a new leader's term: raises the epoch (a fencing token), so that an older leader cannot write any more. Undefined before the first start. */
export async function beginEpoch(tx: Tx, network: NetworkId): Promise<Cursor | undefined> {
  const [row] = await tx<Cursor[]>`
    update cursors
    set epoch = epoch + 1
    where network = ${network}
    returning ${columnsOf(tx, cursors)}`;
  return row;
}

/** Locks the cursor until the transaction ends, for writes that do not move it, and returns its position. Undefined for an older leader. */
export async function holdEpoch(
  tx: Tx,
  network: NetworkId,
  epoch: bigint,
): Promise<{ number: number } | undefined> {
  const [row] = await tx<{ number: bigint }[]>`
    select number
    from cursors
    where network = ${network} and epoch = ${epoch}
    for update`;
  return row && { number: Number(row.number) };
}
