/**
 * Open claims of transfers that count for their links already, by other evidence: the payer of one of our relays names its transaction, or the
 * claim came while its block was committed.
 */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { lockLinks } from "./lock-links.ts";

/** The links of such claims. */
export async function findCountedClaims(tx: Tx, network: NetworkId): Promise<string[]> {
  const rows = await tx<{ linkId: string }[]>`
    select distinct link_id
    from claims claim
    where network = ${network} and state = 'OPEN' and ${isCounted(tx)}`;
  return rows.map(({ linkId }) => linkId);
}

/** OPEN -> MATCHED; the transfer's row of the history replaces the one that was opened for the claim. */
export async function matchCountedClaims(
  tx: Tx,
  network: NetworkId,
  linkIds: readonly string[],
): Promise<void> {
  await lockLinks(tx, linkIds);
  await tx`
    with matched as (
      update claims claim
      set state = 'MATCHED', reason = null, updated_at = now()
      where network = ${network} and link_id = any(${[...linkIds]}::text[]) and state = 'OPEN' and ${isCounted(tx)}
      returning id
    )
    delete from transactions
    using matched
    where transactions.claim_id = matched.id and transactions.status = 'PENDING' and transactions.transfer_id is null`;
}

/** SQL: its sender's transfer of the claimed transaction is attributed to the link of `claim`. */
function isCounted(tx: Tx) {
  return tx`exists (
    select from (
      select network, status, from_address, link_id from transfers where tx_hash = bytes_of(claim.tx_hash) offset 0
    ) counted
    where counted.network = claim.network
      and counted.status <> 'ORPHANED'
      and counted.link_id = claim.link_id
      and counted.from_address = bytes_of(claim.client_address)
  )`;
}
