/** The payments that a commit of blocks changes, locked by one statement before anything else: see `lockPayments` for the order. */
import type { AuthorizationKey } from "../../core/domain/authorization.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { idsByAuthorization } from "../payments/ids-by-authorization.ts";
import type { Tx } from "../postgres/client.ts";

/**
 * Those of these authorizations, links' and facilitated ones, and those that `depthNumber` confirms. Locked in two statements, they would
 * meet a worker that ends a batch of both kinds; locked after links, one that ends a payment whose transfer it has not seen.
 */
export async function lockPaymentsOfBlocks(
  tx: Tx,
  network: NetworkId,
  { authorizations, depthNumber }: { authorizations: readonly AuthorizationKey[]; depthNumber: number },
): Promise<void> {
  await tx`
    select id
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
    for update`;
}
