/** When an operation becomes CONFIRMED or FAILED: only by blocks of the chain, and only when they are deep enough. */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { notify } from "../postgres/notifications.ts";
import { moneyOf, writeFailures } from "./queue.ts";
import { refreshRefundedUnits } from "./refunds.ts";

type Depth = { network: NetworkId; depthNumber: number };

/** SQL: true when `confirmDeepOperations` would confirm or fail an operation. */
export function hasDeepOperations(tx: Tx, depth: Depth) {
  return tx`exists (
    select
    from wallet_operations op
    join wallets wallet on wallet.id = op.wallet_id
    where ${isDeepEnough(tx, depth)}
  )`;
}

/** What `confirmDeepOperations` ends, for a caller that ends one at a time. */
export async function findConfirmableOperations(tx: Tx, depth: Depth): Promise<string[]> {
  const rows = await tx<{ id: string }[]>`
    select op.id
    from wallet_operations op
    join wallets wallet on wallet.id = op.wallet_id
    where ${isDeepEnough(tx, depth)}
    order by op.id`;
  return rows.map(({ id }) => id);
}

/** Needs `op` and `wallet`. */
function isDeepEnough(tx: Tx, { network, depthNumber }: Depth) {
  return tx`
    op.network = ${network}
    and op.state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')
    and (
      op.state = 'MINED' and op.block_number <= ${depthNumber}
      or op.state <> 'MINED' and exists (
        select from wallet_operation_events other
        where other.network = op.network
          and other.sender = hex_of(wallet.address)
          and other.nonce = op.account_nonce
          and other.user_op_hash <> op.user_op_hash
          and other.block_number <= ${depthNumber}
      )
    )`;
}

/**
 * At `depthNumber` and below: MINED -> CONFIRMED, or FAILED when the calls failed; and what waits behind a nonce that another operation
 * has spent -> FAILED (NONCE_TAKEN). For all operations, or for `id`. Returns those that ended.
 */
export async function confirmDeepOperations(
  tx: Tx,
  { id, ...depth }: Depth & { id?: string },
): Promise<string[]> {
  const rows = await tx<{ id: string; state: string }[]>`
    with ended as (
      select op.id, op.succeeded, case
        when op.succeeded then null
        when op.state = 'MINED' then coalesce(
          (
            select failure
            from wallet_operation_events event
            where event.network = op.network and event.sender = hex_of(wallet.address) and event.nonce = op.account_nonce
              and event.user_op_hash = op.user_op_hash
            limit 1
          ),
          'REVERTED'
        )
        else 'NONCE_TAKEN'
      end as reason
      from wallet_operations op
      join wallets wallet on wallet.id = op.wallet_id
      where ${isDeepEnough(tx, depth)}
        ${id === undefined ? tx`` : tx`and op.id = ${id}`}
      order by op.id
      for update of op
    ),
    moved as (
      update wallet_operations op
      set
        state = case when ended.reason is null then 'CONFIRMED' else 'FAILED' end, reason = ended.reason,
        confirmed_at = case when ended.reason is null then now() end, updated_at = now()
      from ended
      where op.id = ended.id
      returning op.id, op.user_id, op.kind, op.state, op.tx_hash, op.network
    ),
    event as (
      insert into events (user_id, type, subject_id, data)
      select
        user_id, case kind when 'REFUND' then 'refund.confirmed' else 'wallet.send_confirmed' end, id,
        jsonb_build_object('txHash', tx_hash, 'network', network) || ${moneyOf(tx, "moved")}
      from moved
      -- an owner change has its event when its log is deep enough
      where state = 'CONFIRMED' and kind <> 'OWNERS'
      order by id
    )
    select id, state
    from moved`;
  await writeFailures(
    tx,
    rows.filter(({ state }) => state === "FAILED").map(({ id }) => id),
  );
  const linkIds = await refreshRefundedUnits(
    tx,
    rows.filter(({ state }) => state === "CONFIRMED").map(({ id }) => id),
  );
  await notify(tx, linkIds);
  return rows.map(({ id }) => id);
}
