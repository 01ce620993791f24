/**
 * Doubts: payments of a link that ended while no node answered. Each may have been executed by somebody else, so the link's next payment
 * is not signed before the chain was asked about them. The conditions of opening one are in `failPayments` (db/payments/payments.ts).
 */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

/** A link with so many takes no further payment until one of them is over. */
export const OPEN_DOUBTS_MAX = 8;

/** SQL: how many payments of a link are in doubt. `linkId` names a column. */
export function countOpenDoubts(tx: Tx, linkId: string) {
  return tx`
    (
      select count(*)
      from payments doubtful
      where doubtful.link_id = ${tx(linkId)}
        and doubtful.doubt_until > now()
        and doubtful.state = 'FAILED'
    )`;
}

/** Whether a link has as many open doubts as it may have. */
export async function isFullOfDoubts(tx: Tx, linkId: string): Promise<boolean> {
  const [row] = await tx<{ isFull: boolean }[]>`
    select ${countOpenDoubts(tx, "link.id")} >= ${OPEN_DOUBTS_MAX} as is_full
    from payment_links link
    where link.id = ${linkId}`;
  return row?.isFull ?? false;
}

/** The ledger has decided: these authorizations did not pay their link. */
export async function endDoubts(tx: Tx, paymentIds: readonly string[]): Promise<void> {
  if (paymentIds.length === 0) return;
  await tx`
    update payments
    set doubt_since = null, doubt_until = null
    where id = any(${[...paymentIds]}::text[]) and state = 'FAILED'`;
}

/** A node called these unused at a head: doubts that began before the block that is `depthBlocks` below it are over. */
export async function endUnusedDoubts(
  tx: Tx,
  network: NetworkId,
  {
    paymentIds,
    headNumber,
    depthBlocks,
  }: { paymentIds: readonly string[]; headNumber: bigint; depthBlocks: number },
): Promise<void> {
  if (paymentIds.length === 0) return;
  await tx`
    update payments
    set doubt_since = null, doubt_until = null
    from blocks
    where payments.id = any(${[...paymentIds]}::text[])
      and payments.state = 'FAILED'
      and blocks.network = ${network}
      and blocks.number = ${headNumber}::bigint - ${depthBlocks}::bigint
      and payments.doubt_since <= blocks.block_time`;
}
