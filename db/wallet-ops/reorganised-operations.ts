/** Operations whose block is reorganised away: what was settled there returns to its earlier state. */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { refreshRefundedUnits } from "./refunds.ts";

/**
 * Deletes the events above `ancestor` and resets the operations they settled. A pending one waits again: its relay's bytes
 * are rebroadcast, or it is queued. A reported end is withdrawn by an event.
 */
export async function reopenOperations(
  tx: Tx,
  { network, ancestor }: { network: NetworkId; ancestor: number },
): Promise<string[]> {
  await tx`
    delete from wallet_operation_events
    where network = ${network} and block_number > ${ancestor}`;
  const rows = await tx<{ id: string }[]>`
    with affected as (
      select
        op.id, op.prior_state, op.state in ('CONFIRMED', 'FAILED') as was_reported, relay.id as relay_id, op.prior_state in ('QUEUED', 'SIGNED', 'BROADCAST') as was_live,
        exists (
          select from wallet_operations other
          where other.wallet_id = op.wallet_id
            and other.id <> op.id
            and (
              other.state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')
              or other.block_number > ${ancestor} and other.id > op.id
            )
        ) as has_successor
      from wallet_operations op
      left join relays relay on relay.id = op.relay_id and relay.state <> 'LOST'
      where op.network = ${network} and op.block_number > ${ancestor}
      order by op.id
      for update of op
    ),
    reopened as (
      update wallet_operations op
      set
        state = case
          when not affected.was_live then affected.prior_state
          when affected.relay_id is null then 'QUEUED'
          else 'BROADCAST'
        end,
        reason = case when not affected.was_live then op.prior_reason end,
        relay_id = affected.relay_id,
        is_extra = op.void_of is not null or affected.was_live and affected.has_successor,
        tx_hash = null, log_index = null, block_number = null, succeeded = null, gas_used = null, prior_state = null,
        prior_reason = null, confirmed_at = null, signature_refused_block = null,
        next_try_at = now(), updated_at = now()
      from affected
      where op.id = affected.id
      returning op.id, op.user_id, op.kind, op.network, op.state, affected.was_reported
    ),
    event as (
      insert into events (user_id, type, subject_id, data)
      select
        user_id, case kind when 'REFUND' then 'refund.reorged' else 'wallet.send_reorged' end, id,
        jsonb_build_object('network', network, 'status', state)
      from reopened
      where was_reported and kind <> 'OWNERS'
      order by id
    )
    select id
    from reopened`;
  const ids = rows.map(({ id }) => id);
  await refreshRefundedUnits(tx, ids);
  return ids;
}

/** The history rows of the reset operations: pending ones are PENDING, failed ones are FAILED again. */
export async function reopenOperationHistory(tx: Tx, operationIds: readonly string[]): Promise<void> {
  if (operationIds.length === 0) return;
  await tx`
    update transactions
    set
      status = case when op.state = 'FAILED' then 'FAILED' else 'PENDING' end, failure_reason = op.reason,
      updated_at = now()
    from wallet_operations op
    where op.id = any(${[...operationIds]}::text[])
      and transactions.operation_id = op.id
      and transactions.transfer_id is null
      and transactions.status in ('PENDING', 'FAILED')`;
}
