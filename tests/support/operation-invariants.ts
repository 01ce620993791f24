/** What must always hold of user operations, their transfers and refunds; part of `assertInvariants`. */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";

/** A confirmed operation moved each of its amounts exactly once, one operation spent each nonce, and nothing open is forgotten. */
export async function checkOperations(sql: Sql, network: NetworkId): Promise<string[]> {
  const items = await sql<{ id: string; state: string; position: number; rows: number }[]>`
    select op.id, op.state, item.position, count(history.id)::int as rows
    from wallet_operations op
    join wallet_operation_items item on item.operation_id = op.id
    left join transactions history
      on history.operation_item_id = item.id
      and history.status = 'CONFIRMED'
      and history.amount_units = item.amount_units
      and history.counterparty = bytes_of(item.to_address)
      and history.transfer_id is not null
    where op.network = ${network} and op.state in ('CONFIRMED', 'FAILED', 'EXPIRED', 'CANCELLED')
    group by op.id, op.state, item.id
    having count(history.id) <> case when op.state = 'CONFIRMED' then 1 else 0 end`;
  const nonces = await sql<{ walletId: string; accountNonce: bigint }[]>`
    select wallet_id, account_nonce
    from wallet_operations
    where network = ${network} and state in ('MINED', 'CONFIRMED')
    group by wallet_id, account_nonce
    having count(*) > 1`;
  const pending = await sql<{ id: string }[]>`
    select history.id
    from transactions history
    join wallet_operations op on op.id = history.operation_id
    where op.network = ${network}
      and history.status = 'PENDING'
      and op.state not in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')`;
  const refunds = await sql<{ id: string }[]>`
    select link.id
    from payment_links link
    where link.network = ${network}
      and link.refunded_units <> (
        select coalesce(sum(refund.amount_units), 0)
        from refunds refund
        join wallet_operations op on op.id = refund.id
        where refund.link_id = link.id and op.state = 'CONFIRMED'
      )`;
  return [
    ...items.map(
      ({ id, state, position, rows }) => `operation ${id} ${state}: item ${position} has ${rows} transfers`,
    ),
    ...nonces.map(
      ({ walletId, accountNonce }) => `wallet ${walletId}: nonce ${accountNonce} was spent twice`,
    ),
    ...pending.map(({ id }) => `history ${id}: PENDING, but its operation has ended`),
    ...refunds.map(({ id }) => `link ${id}: refundedAmount is not the sum of its refunds`),
  ];
}
