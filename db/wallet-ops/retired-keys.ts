/**
 * Operations in a pending transaction whose key no running worker has: its fee cannot be raised, and the key may have no ETH left, so another
 * key carries them too. Whichever transaction is mined first executes them; the EntryPoint refuses them in the other. The operation
 * keeps the ids of its former relays, and does not fail while one of them may still execute it.
 */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

/**
 * SIGNED | BROADCAST -> QUEUED: operations whose relay has been pending for `afterS` since its newest attempt, by a key that no worker has.
 * `relayers`: those that one has.
 */
export async function requeueFromRetiredKeys(
  tx: Tx,
  network: NetworkId,
  { relayers, afterS }: { relayers: readonly Hex[]; afterS: number },
): Promise<string[]> {
  const rows = await tx<{ id: string }[]>`
    with stranded as (
      select op.id
      from wallet_operations op
      join relays relay on relay.id = op.relay_id
      where op.network = ${network}
        and op.state in ('SIGNED', 'BROADCAST')
        and relay.state in ('SIGNED', 'BROADCAST')
        and relay.relayer <> all(${[...relayers]}::text[])
        and not exists (
          select from relay_attempts attempt
          where attempt.relay_id = relay.id and attempt.created_at > now() - make_interval(secs => ${afterS}::int)
        )
      order by op.id
      for update of op
    )
    update wallet_operations op
    set
      state = 'QUEUED', former_relay_ids = array_append(op.former_relay_ids, op.relay_id), relay_id = null,
      next_try_at = now(), updated_at = now()
    from stranded
    where op.id = stranded.id
    returning op.id`;
  return rows.map(({ id }) => id);
}

/** SQL; needs `op`: one of its former relays is neither lost nor in a block so deep that the ledger would show what it executed. */
export function mayRunElsewhere(tx: Tx) {
  return tx`exists (
    select from relays former
    where former.id = any(op.former_relay_ids) and former.state not in ('CONFIRMED', 'LOST')
  )`;
}

/** Those of these relays that carry no operation any more: another relay does, or it is final. */
export async function findEmptyRelays(tx: Tx, relayIds: readonly bigint[]): Promise<Set<bigint>> {
  const rows = await tx<{ id: bigint }[]>`
    select relay.id
    from unnest(${relayIds.map(String)}::text[]::bigint[]) as relay (id)
    where not exists (
      select from wallet_operations op
      where op.relay_id = relay.id and op.state in ('SIGNED', 'BROADCAST', 'MINED')
    )`;
  return new Set(rows.map(({ id }) => id));
}
