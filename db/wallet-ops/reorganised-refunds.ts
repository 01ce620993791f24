/**
 * Refunds whose transfer was reorganised away. It usually comes back with other transactions before it, so at another log index, or
 * in another transaction that executed the same authorization; its refunds then move to the new position.
 */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

/** Records which transfer was refunded, because another transfer may soon have its position. Call when the links of these transfers are locked. */
export async function noteOrphanedRefunds(tx: Tx, transferIds: readonly string[]): Promise<void> {
  await tx`
    update refunds
    set orphaned_transfer_id = gone.id
    from transfers gone
    where gone.id = any(${[...transferIds]}::text[]::bigint[])
      and refunds.paid_tx_hash = hex_of(gone.tx_hash)
      and refunds.paid_log_index = gone.log_index
      and refunds.network = gone.network
      and refunds.orphaned_transfer_id is null`;
}

/** SQL: true when a refund is pending that `moveRefunds` may move. */
export function hasOrphanedRefunds(tx: Tx, network: NetworkId) {
  return tx`exists (
    select from refunds
    where network = ${network} and orphaned_transfer_id is not null
  )`;
}

/**
 * Moves refunds to the new positions of their transfers. A transfer is recognised by its authorization, or by its transaction, sender,
 * recipient, amount and order among equal ones. Equal ones that were read one by one may have changed places, with the links that were decided for
 * them (`moveAssignments`): the refund then follows its link. A new branch may execute it with another amount: it is recognised by its order among
 * those of all amounts then, unless both have been in one block, so that the transfer found is another one that a node shows before its own.
 */
export async function moveRefunds(tx: Tx, network: NetworkId): Promise<void> {
  await tx`
    update refunds
    set paid_tx_hash = hex_of(found.tx_hash), paid_log_index = found.log_index, orphaned_transfer_id = null
    from refunds moved
    join transfers gone on gone.id = moved.orphaned_transfer_id
    cross join lateral (
      select ${countBefore(tx)} as place, ${countEqualBefore(tx)} as equal_before
    ) former
    cross join lateral (
      select tx_hash, log_index
      from (
        select
          numbered.*, place = former.place as is_in_order, is_equal and equal_before = former.equal_before as is_own,
          bool_or(is_equal and equal_before = former.equal_before) over () as is_back
        from (
          select
            back.tx_hash, back.log_index, back.amount_units, back.amount_units = gone.amount_units as is_equal,
            coalesce(back.link_id = moved.link_id, false) as is_of_link,
            row_number() over (partition by back.tx_hash, back.block_hash order by back.log_index) - 1 as place,
            row_number() over (partition by back.tx_hash, back.block_hash, back.amount_units order by back.log_index) - 1
              as equal_before
          from transfers back
          where (back.tx_hash = gone.tx_hash or back.authorization_nonce = gone.authorization_nonce)
            and back.network = gone.network
            and back.from_address = gone.from_address
            and back.to_address = gone.to_address
            and back.authorization_nonce is not distinct from gone.authorization_nonce
            and back.status <> 'ORPHANED'
        ) numbered
      ) alike
      where case
        when is_back then is_equal
        else is_in_order and not exists (
          select
          from transfers other
          where ${isAlike(tx, "other")}
          group by block_hash
          having count(*) filter (where amount_units = alike.amount_units) > alike.equal_before
            and count(*) filter (where amount_units = gone.amount_units) > former.equal_before
        )
      end
      order by is_of_link desc, is_own desc
      limit 1
    ) found
    where refunds.id = moved.id and moved.network = ${network} and moved.orphaned_transfer_id is not null`;
}

/** SQL: how many transfers like `gone`, of its amount, come before it in its block. */
export function countEqualBefore(tx: Tx) {
  return tx`(
    select count(*)
    from transfers earlier
    where ${isAlike(tx, "earlier")}
      and earlier.block_hash = gone.block_hash
      and earlier.amount_units = gone.amount_units
      and earlier.log_index < gone.log_index
  )`;
}

/** SQL: how many transfers like `gone`, of any amount, come before it in its block. */
function countBefore(tx: Tx) {
  return tx`(
    select count(*)
    from transfers earlier
    where ${isAlike(tx, "earlier")} and earlier.block_hash = gone.block_hash and earlier.log_index < gone.log_index
  )`;
}

/** SQL: of the transaction, sender, recipient and authorization of `gone`, in any block. */
function isAlike(tx: Tx, name: string) {
  const other = tx(name);
  return tx`(
    ${other}.tx_hash = gone.tx_hash
    and ${other}.network = gone.network
    and ${other}.from_address = gone.from_address
    and ${other}.to_address = gone.to_address
    and ${other}.authorization_nonce is not distinct from gone.authorization_nonce
  )`;
}
