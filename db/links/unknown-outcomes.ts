/**
 * Doubtful payments: those of a link that ended while no node answered, so that another transaction may have executed them. The link's
 * next payment is not signed before the chain has been asked about each (worker/payments/resolve-unknown-outcomes.ts). A doubt is opened in
 * `failPayments` (db/payments/payments.ts).
 */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

/** With this many open doubts a link takes no further payment. */
export const UNKNOWN_OUTCOMES_MAX = 8;

/** SQL: number of a link's payments in doubt. `linkId` names a column. */
export function countUnknownOutcomes(tx: Tx, linkId: string) {
  return tx`
    (
      select count(*)
      from payments doubtful
      where doubtful.link_id = ${tx(linkId)}
        and doubtful.doubt_until > now()
        and doubtful.state = 'FAILED'
    )`;
}

/** Whether a link has reached the limit of open doubts. */
export async function hasTooManyUnknownOutcomes(tx: Tx, linkId: string): Promise<boolean> {
  const [row] = await tx<{ isFull: boolean }[]>`
    select ${countUnknownOutcomes(tx, "link.id")} >= ${UNKNOWN_OUTCOMES_MAX} as is_full
    from payment_links link
    where link.id = ${linkId}`;
  return row?.isFull ?? false;
}

/** The ledger has decided: these authorizations did not pay their link. */
export async function resolveOutcomes(tx: Tx, paymentIds: readonly string[]): Promise<void> {
  if (paymentIds.length === 0) return;
  await tx`
    update payments
    set doubt_since = null, doubt_until = null
    where id = any(${[...paymentIds]}::text[]) and state = 'FAILED'`;
}

/** A node reported these unused at a head: ends doubts that began before the block `depthBlocks` below it. */
export async function resolveUnusedOutcomes(
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
