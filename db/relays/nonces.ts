/** A relayer's next nonce on each network: counted here and never behind the chain's, one writer at a time. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

export type Lane = { network: NetworkId; relayer: Hex };

/** Registers the lane. Its next nonce is never behind the chain's. */
export async function ensureLane(tx: Tx, lane: Lane, chainNonce: bigint): Promise<void> {
  await tx`
    insert into relayers (network, address, next_nonce)
    values (${lane.network}, ${lane.relayer}, ${chainNonce})
    on conflict (network, address) do update
    set next_nonce = greatest(relayers.next_nonce, excluded.next_nonce)`;
}

/** The lane's next nonce, locked until the transaction ends: one writer per lane. */
export async function takeNonce(tx: Tx, lane: Lane): Promise<bigint> {
  const [row] = await tx<{ nonce: bigint }[]>`
    update relayers
    set next_nonce = next_nonce + 1
    where network = ${lane.network} and address = ${lane.relayer}
    returning next_nonce - 1 as nonce`;
  if (!row) throw new Error(`relayer ${lane.relayer} has no lane on ${lane.network}`);
  return row.nonce;
}
