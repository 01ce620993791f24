import type { AuthorizationKey } from "../../core/domain/authorization.ts";
import { type Hex, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

/** SQL: the ids of the payments of these authorizations (ERC-3009) of a token, by default USDC, one at most each, by the index of their digests. */
export function idsByAuthorization(
  tx: Tx,
  { network, token = NETWORKS[network].usdc.address }: { network: NetworkId; token?: Hex },
  authorizations: readonly AuthorizationKey[],
): ReturnType<Tx> {
  return tx`
    select payment.id
    from unnest(
      ${authorizations.map((one) => one.payer)}::bytea[],
      ${authorizations.map((one) => one.nonce)}::bytea[]
    ) as given (payer, nonce)
    cross join lateral (
      select id
      from payments
      where network = ${network}
        and token = ${token}
        and payer = given.payer
        and nonce = given.nonce
        and authorization_digest(network, token, payer, nonce)
          = authorization_digest(${network}, ${token}, given.payer, given.nonce)
      limit 1
    ) payment`;
}
