/** The payments that a commit of blocks changes, locked by one statement before anything else: see `lockPayments` for the order. */
import type { AuthorizationKey } from "../../core/domain/authorization.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { idsByAuthorization } from "../payments/ids-by-authorization.ts";
import type { Tx } from "../postgres/client.ts";

type Blocks = {
  /** The cursor before these blocks. */
  from: number;
  authorizations: readonly AuthorizationKey[];
  depthNumber: number;
};

/**
 * The payments of these authorizations, for links and facilitated ones, and those that `depthNumber` confirms. Locking them in two statements
 * could deadlock with a worker that ends a batch of both kinds; locking them after links, with one that ends a payment whose transfer it has not
 * seen.
 *
 * Whatever was accepted above the cursor was accepted on a branch that a reorganisation has taken away: every block of the new branch comes after
 * it. The reorganisation sets its `accepted_block` back (orphan-blocks.ts), and the follower for an insert that was uncommitted then; here it is
 * done for one that is committed at this moment.
 */
export async function lockPaymentsOfBlocks(
  tx: Tx,
  network: NetworkId,
  { from, authorizations, depthNumber }: Blocks,
): Promise<void> {
  await tx`
    with locked as (
      select id, accepted_block
      from payments
      where id = any(array(
        select payment_id
        from transfers
        where network = ${network} and status = 'DETECTED' and block_number <= ${depthNumber} and payment_id is not null
        union
        select id
        from payments
        where network = ${network} and facilitated_mined_block <= ${depthNumber}
        union
        ${idsByAuthorization(tx, { network }, authorizations)}
      ))
      order by id
      for update
    )
    update payments
    set accepted_block = ${from}
    from locked
    where payments.id = locked.id and locked.accepted_block > ${from}`;
}
