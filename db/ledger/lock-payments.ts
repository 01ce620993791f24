/** The payments that a commit of blocks changes, locked by one statement before anything else: see `lockPayments` for the order. */
import type { AuthorizationKey } from "../../core/domain/authorization.ts";
import { NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
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
  const { address: token } = NETWORKS[network].usdc;
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
      select payment.id
      from unnest(
        ${authorizations.map((one) => one.payer)}::bytea[],
        ${authorizations.map((one) => one.nonce)}::bytea[]
      ) as given (payer, nonce)
      cross join lateral (
        select id
        from payments
        where network = ${network} and token = ${token} and payer = given.payer and nonce = given.nonce
          and authorization_digest(network, token, payer, nonce)
            = authorization_digest(${network}, ${token}, given.payer, given.nonce)
        limit 1
      ) payment
    ))
    order by id
    for update`;
}
