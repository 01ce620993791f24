/**
 * Relays whose block left the chain: they are BROADCAST again, and their stored bytes are resent if they are still wanted. The ledger's blocks decide; where it has
 * none of that height, a node's receipt does.
 *
 *   MINED | CONFIRMED --the ledger has another block there, or a node no such receipt--> BROADCAST
 *   SIGNED | BROADCAST --bytes dropped | not wanted after a reorganisation--> LOST (what it carried is queued again, a no-op uses the nonce)
 */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { relaysBeyond, type UsedNonces } from "./relays.ts";

export type UnprovenRelay = { id: bigint; txHash: Hex; blockHash: Hex };

/** MINED relays at or below the indexer's cursor whose block it has pruned: only a node knows whether that block is canonical. */
export async function findPrunedRelays(tx: Tx, network: NetworkId, limit: number): Promise<UnprovenRelay[]> {
  return tx<UnprovenRelay[]>`
    select relays.id, relays.tx_hash, relays.block_hash
    from relays
    join cursors on cursors.network = relays.network
    where relays.network = ${network}
      and relays.state = 'MINED'
      and relays.block_number <= cursors.number
      and not exists (
        select from blocks
        where blocks.network = relays.network and blocks.number = relays.block_number
      )
    order by relays.id
    limit ${limit}`;
}

/** `isDisproved`: the ledger has another block at its height. Otherwise it has none, and a node is asked. */
export type ContradictedRelay = UnprovenRelay & { isDisproved: boolean };

/**
 * CONFIRMED relays that are contradicted: their nonce is unused on the chain, or they still carry a payment or operation that no block
 * settled. Those in a block that the ledger has are left to it: the node lags, or the indexer has not undone that block yet.
 */
export async function findContradictedRelays(
  tx: Tx,
  network: NetworkId,
  { lanes, limit }: { lanes: readonly UsedNonces[]; limit: number },
): Promise<ContradictedRelay[]> {
  return tx<ContradictedRelay[]>`
    with contradicted as (
      ${relaysBeyond(tx, network, lanes)}
      union
      select payments.relay_id
      from open_payments
      join payments on payments.id = open_payments.payment_id
      where open_payments.network = ${network} and payments.state in ('SIGNED', 'BROADCAST')
      union
      select relay_id
      from wallet_operations
      where network = ${network} and state in ('SIGNED', 'BROADCAST')
    )
    select relays.id, relays.tx_hash, relays.block_hash, blocks.hash is not null as is_disproved
    from contradicted
    join relays on relays.id = contradicted.id
    join cursors on cursors.network = relays.network and cursors.number >= relays.block_number
    left join blocks on blocks.network = relays.network and blocks.number = relays.block_number
    where relays.state = 'CONFIRMED' and blocks.hash is distinct from relays.block_hash
    order by relays.id
    limit ${limit}`;
}

/** Their receipts are not canonical (any more): MINED | CONFIRMED -> BROADCAST, unless the ledger has their block by now. */
export async function reopenRelays(
  tx: Tx,
  relays: readonly Pick<UnprovenRelay, "id" | "blockHash">[],
): Promise<number> {
  if (relays.length === 0) return 0;
  const rows = await tx`
    update relays
    set
      state = 'BROADCAST', is_reopened = true, tx_hash = null, block_number = null, block_hash = null, succeeded = null,
      mined_at = null, misses = 0
    from unnest(
      ${relays.map(({ id }) => id.toString())}::text[]::bigint[],
      ${relays.map(({ blockHash }) => blockHash)}::text[]
    ) as given (id, block_hash)
    where relays.id = given.id
      and relays.state in ('MINED', 'CONFIRMED')
      and relays.block_hash = given.block_hash
      and not exists (
        select from blocks
        where blocks.network = relays.network and blocks.number = relays.block_number and blocks.hash = relays.block_hash
      )
    returning relays.id`;
  return rows.length;
}

/** MINED relays at a height where the indexer has another block: theirs was reorganised away. */
export async function reopenOrphanedRelays(tx: Tx, network: NetworkId): Promise<number> {
  const rows = await tx`
    update relays
    set
      state = 'BROADCAST', is_reopened = true, tx_hash = null, block_number = null, block_hash = null, succeeded = null,
      mined_at = null
    from cursors
    where relays.network = ${network}
      and cursors.network = relays.network
      and relays.state = 'MINED'
      and relays.block_number <= cursors.number
      and exists (
        select from blocks
        where blocks.network = relays.network and blocks.number = relays.block_number and blocks.hash <> relays.block_hash
      )
    returning relays.id`;
  return rows.length;
}

/** A pending relay that can't be resent, as bytes of it were dropped while its block was final: LOST. False when they are all there. */
export async function markDropped(tx: Tx, relayId: bigint): Promise<boolean> {
  const rows = await tx`
    update relays
    set state = 'LOST'
    where id = ${relayId}
      and state in ('SIGNED', 'BROADCAST')
      and exists (
        select from relay_attempts attempt
        where attempt.relay_id = relays.id and attempt.raw is null
      )
    returning 1`;
  return rows.length === 1;
}
