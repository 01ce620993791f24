/** Ends unknown outcomes of payments (db/links/unknown-outcomes.ts) that the ledger or the chain has decided. */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { lockedPayments } from "./locked-payments.ts";

/** The ledger has decided: these authorizations did not pay their link. */
export async function resolveOutcomes(tx: Tx, paymentIds: readonly string[]): Promise<void> {
  if (paymentIds.length === 0) return;
  await tx`
    with ${lockedPayments(tx, tx`${[...paymentIds]}::text[]`)}
    update payments
    set doubt_since = null, doubt_until = null
    from locked
    where payments.id = locked.id and payments.state = 'FAILED'`;
}

/** A node reported these unused at a head: resolves those that ended before the block `depthBlocks` below it. */
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
    with ${lockedPayments(tx, tx`${[...paymentIds]}::text[]`)}
    update payments
    set doubt_since = null, doubt_until = null
    from locked, blocks
    where payments.id = locked.id
      and payments.state = 'FAILED'
      and blocks.network = ${network}
      and blocks.number = ${headNumber}::bigint - ${depthBlocks}::bigint
      and payments.doubt_since <= blocks.block_time`;
}
