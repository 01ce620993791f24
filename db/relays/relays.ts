/**
 * Relayer lanes (one per key) and their transactions. Nonce, signed bytes and hash are stored before anything is sent.
 *
 *   SIGNED --handed to a node--> BROADCAST --receipt in a block--> MINED --deep enough--> CONFIRMED
 *   SIGNED | BROADCAST --an external transaction used the nonce--> LOST (what it carried is queued again)
 */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import type { Relay } from "../schema.ts";
import type { Lane } from "./nonces.ts";

export type LaneLoad = { transactions: number; gas: bigint };

/** Each lane's pending transactions and the gas they may still use. */
export async function readLaneLoads(tx: Tx, network: NetworkId): Promise<Map<string, LaneLoad>> {
  const rows = await tx<({ relayer: string } & LaneLoad)[]>`
    select relayer, count(*)::int as transactions, sum(gas_limit)::bigint as gas
    from relays
    where network = ${network} and state in ('SIGNED', 'BROADCAST')
    group by relayer`;
  return new Map(rows.map(({ relayer, ...load }) => [relayer, load]));
}

export type NewRelay = Lane & {
  nonce: bigint;
  kind: Relay["kind"];
  callTo: Hex;
  callData: Hex;
  gasLimit: bigint;
  walletId?: string;
  attempt: NewAttempt;
};
export type NewAttempt = {
  txHash: Hex;
  raw: Hex;
  maxFeePerGas: bigint;
  maxPriorityFeePerGas: bigint;
  isNoop?: boolean;
  /** Payments of the relay that this attempt does not carry. */
  leftOut?: readonly string[];
};

/** Stores a signed transaction with its first attempt. Returns the relay's id. */
export async function insertRelay(tx: Tx, relay: NewRelay): Promise<bigint> {
  const [row] = await tx<{ id: bigint }[]>`
    with given as (
      select decode(${relay.callData.slice(2)}::text, 'hex') as call_data, decode(${relay.attempt.raw.slice(2)}::text, 'hex') as raw
    ),
    relay as (
      insert into relays (network, relayer, nonce, kind, call_to, call_data_start, call_data_bytes, gas_limit, wallet_id)
      select
        ${relay.network}, ${relay.relayer}, ${relay.nonce}, ${relay.kind}, ${relay.callTo}, position(call_data in raw),
        octet_length(call_data), ${relay.gasLimit}, ${relay.walletId ?? null}
      from given
      returning id
    )
    insert into relay_attempts (tx_hash, relay_id, raw, max_fee_per_gas, max_priority_fee_per_gas, is_noop)
    select
      ${relay.attempt.txHash}, relay.id, given.raw, ${relay.attempt.maxFeePerGas.toString()}::numeric,
      ${relay.attempt.maxPriorityFeePerGas.toString()}::numeric, ${relay.attempt.isNoop ?? false}
    from relay, given
    returning relay_id as id`;
  if (!row) throw new Error("inserting a relay returned no row");
  return row.id;
}

/** Stores a replacement at the same nonce, before it is sent. False when another worker stored one of this fee: send nothing then. */
export async function insertAttempt(tx: Tx, relayId: bigint, attempt: NewAttempt): Promise<boolean> {
  const rows = await tx`
    insert into relay_attempts (tx_hash, relay_id, raw, max_fee_per_gas, max_priority_fee_per_gas, is_noop, left_out)
    values (
      ${attempt.txHash}, ${relayId}, decode(${attempt.raw.slice(2)}::text, 'hex'), ${attempt.maxFeePerGas.toString()}::numeric,
      ${attempt.maxPriorityFeePerGas.toString()}::numeric, ${attempt.isNoop ?? false},
      ${[...(attempt.leftOut ?? [])]}::text[]
    )
    on conflict do nothing
    returning 1`;
  return rows.length === 1;
}

/** Records a node's response to an attempt. Accepted: the relay is BROADCAST; else it stays SIGNED and is resent, as the bytes may be public. */
export async function recordSend(
  tx: Tx,
  relayId: bigint,
  sent: { txHash: string; answer: string; isAccepted: boolean },
): Promise<void> {
  await tx`
    with attempt as (
      update relay_attempts
      set sends = sends + 1, last_sent_at = now(), last_answer = ${sent.answer}
      where tx_hash = ${sent.txHash}
    )
    update relays
    set state = 'BROADCAST'
    where id = ${relayId} and state = 'SIGNED' and ${sent.isAccepted}::boolean`;
}

export type InFlightAttempt = {
  txHash: Hex;
  maxFeePerGas: string;
  maxPriorityFeePerGas: string;
  isNoop: boolean;
  /** Payments of the relay that it does not carry. */
  leftOut: string[];
  ageMs: number;
  sinceSentMs: number | null;
  /** False once the bytes were deleted because its block was final. */
  hasBytes: boolean;
};
export type InFlightRelay = Pick<
  Relay,
  "id" | "network" | "relayer" | "nonce" | "kind" | "state" | "callTo" | "gasLimit"
> & {
  misses: number;
  /** Its block left the chain. */
  isReopened: boolean;
  attempts: InFlightAttempt[];
};

/**
 * The pending relays of a network, key by key, lowest nonce first; `after` is the last one of the page before. Without their bytes,
 * which are rarely needed.
 */
export async function findInFlight(
  tx: Tx,
  network: NetworkId,
  { after, limit }: { after: Pick<Relay, "relayer" | "nonce"> | undefined; limit: number },
): Promise<InFlightRelay[]> {
  return tx<InFlightRelay[]>`
    select
      relay.id, relay.network, relay.relayer, relay.nonce, relay.kind, relay.state, relay.call_to,
      relay.gas_limit, relay.misses, relay.is_reopened,
      (
        select jsonb_agg(
          jsonb_build_object(
            'txHash', attempt.tx_hash,
            'maxFeePerGas', attempt.max_fee_per_gas::text,
            'maxPriorityFeePerGas', attempt.max_priority_fee_per_gas::text,
            'isNoop', attempt.is_noop,
            'leftOut', attempt.left_out,
            'ageMs', extract(epoch from now() - attempt.created_at) * 1000,
            'sinceSentMs', extract(epoch from now() - attempt.last_sent_at) * 1000,
            'hasBytes', attempt.raw is not null
          )
          order by attempt.max_fee_per_gas
        )
        from relay_attempts attempt
        where attempt.relay_id = relay.id
      ) as attempts
    from relays relay
    where relay.network = ${network}
      and relay.state in ('SIGNED', 'BROADCAST')
      and (relay.relayer, relay.nonce) > (${after?.relayer ?? ""}, ${after?.nonce ?? -1n}::bigint)
    order by relay.relayer, relay.nonce
    limit ${limit}`;
}

/** A lane's next nonce on a node's chain at a head. */
export type UsedNonces = { relayer: Hex; chainNonce: bigint; headNumber: bigint };

/** SQL: CONFIRMED relays whose nonce is unused on a chain that is as high as their block: a reorganisation removed them. */
export function relaysBeyond(tx: Tx, network: NetworkId, lanes: readonly UsedNonces[]) {
  return tx`
    select relay.id
    from unnest(
      ${lanes.map(({ relayer }) => relayer)}::text[],
      ${lanes.map(({ chainNonce }) => chainNonce.toString())}::text[]::bigint[],
      ${lanes.map(({ headNumber }) => headNumber.toString())}::text[]::bigint[]
    ) as lane (relayer, chain_nonce, head_number)
    join relays relay
      on relay.network = ${network}
      and relay.relayer = lane.relayer
      and relay.nonce >= lane.chain_nonce
      and relay.state <> 'LOST'
      and relay.state = 'CONFIRMED'
      and relay.block_number <= lane.head_number`;
}

/**
 * Whether a relay is not final yet, was reorganised away although final, or a payment or operation is unsettled. Otherwise a pass
 * of the monitor has nothing to do.
 */
export async function hasUnfinished(
  tx: Tx,
  network: NetworkId,
  lanes: readonly UsedNonces[],
): Promise<boolean> {
  const [row] = await tx<{ isUnfinished: boolean }[]>`
    select
      exists (
        select from relays
        where network = ${network} and state in ('SIGNED', 'BROADCAST', 'MINED')
      )
      or exists (select from open_payments where network = ${network})
      or exists (
        select from wallet_operations
        where network = ${network} and state in ('SIGNED', 'BROADCAST')
      )
      or exists (${relaysBeyond(tx, network, lanes)}) as is_unfinished`;
  return row?.isUnfinished ?? true;
}

/** The signed bytes of an attempt. */
export async function readRaw(tx: Tx, txHash: Hex): Promise<Hex> {
  const [row] = await tx<{ raw: Hex }[]>`
    select '0x' || encode(raw, 'hex') as raw
    from relay_attempts
    where tx_hash = ${txHash} and raw is not null`;
  if (!row) throw new Error(`no attempt with the hash ${txHash} has its bytes`);
  return row.raw;
}

/** The call data of a relay, which is part of the bytes of its first attempt. */
export async function readCallData(tx: Tx, relayId: bigint): Promise<Hex> {
  const [row] = await tx<{ callData: Hex }[]>`
    select '0x' || encode(substring(attempt.raw from relay.call_data_start for relay.call_data_bytes), 'hex') as call_data
    from relays relay
    join relay_attempts attempt on attempt.relay_id = relay.id
    where relay.id = ${relayId}
      and relay.call_data_start > 0
      and octet_length(attempt.raw) >= relay.call_data_start - 1 + relay.call_data_bytes
    order by attempt.created_at, attempt.max_fee_per_gas
    limit 1`;
  if (!row) throw new Error(`the bytes of relay ${relayId} contain no call data`);
  return row.callData;
}

export type RelayReceipt = {
  relayId: bigint;
  txHash: string;
  blockNumber: bigint;
  blockHash: string;
  succeeded: boolean;
  gasUsed: bigint;
  feeWei: bigint;
};

/** Records the receipts of mined relays. */
export async function markMined(tx: Tx, receipts: readonly RelayReceipt[]): Promise<void> {
  const rows = receipts.map((receipt) => ({
    relay_id: receipt.relayId.toString(),
    tx_hash: receipt.txHash,
    block_number: receipt.blockNumber.toString(),
    block_hash: receipt.blockHash,
    succeeded: receipt.succeeded,
    gas_used: receipt.gasUsed.toString(),
    fee_wei: receipt.feeWei.toString(),
  }));
  await tx`
    update relays
    set
      state = 'MINED', tx_hash = given.tx_hash, block_number = given.block_number, block_hash = given.block_hash,
      succeeded = given.succeeded, gas_used = given.gas_used, fee_wei = given.fee_wei, misses = 0, mined_at = now(),
      is_reopened = false
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as given (
      relay_id bigint, tx_hash text, block_number bigint, block_hash text, succeeded boolean, gas_used bigint, fee_wei numeric
    )
    where relays.id = given.relay_id and relays.state in ('SIGNED', 'BROADCAST')`;
}

/**
 * MINED relays whose block the indexer has, at least `depthBlocks` deep, are CONFIRMED once none of their payments waits. Where the indexer
 * has pruned that block, only those of `provenIds` are.
 */
export async function confirmRelays(
  tx: Tx,
  network: NetworkId,
  { depthBlocks, provenIds }: { depthBlocks: number; provenIds: readonly bigint[] },
): Promise<void> {
  await tx`
    update relays
    set state = 'CONFIRMED'
    from cursors
    where relays.network = ${network}
      and cursors.network = relays.network
      and relays.state = 'MINED'
      and relays.block_number <= cursors.number - ${depthBlocks}::bigint + 1
      and not exists (
        select from relay_payments carried
        join payments on payments.id = any(carried.payment_ids) and payments.relay_id = carried.relay_id
        where carried.relay_id = relays.id and payments.state in ('SIGNED', 'BROADCAST')
        offset 0
      )
      and coalesce(
        (
          select blocks.hash = relays.block_hash
          from blocks
          where blocks.network = relays.network and blocks.number = relays.block_number
        ),
        relays.id = any(${provenIds.map(String)}::text[]::bigint[])
      )`;
}

/** Records that another poll found the nonce used but no receipt. Returns the number of such polls. */
export async function countMiss(tx: Tx, relayId: bigint): Promise<number> {
  const [row] = await tx<{ misses: number }[]>`
    update relays
    set misses = misses + 1
    where id = ${relayId} and state in ('SIGNED', 'BROADCAST')
    returning misses`;
  return row?.misses ?? 0;
}

/**
 * An external transaction used the nonce: the relay can never be mined. Only once the ledger has read the chain as far as the nonce was
 * seen used, `seenAtBlock`: had one of our attempts used it, the ledger would show what it carried. False until then.
 */
export async function markLost(tx: Tx, relayId: bigint, seenAtBlock: bigint): Promise<boolean> {
  const rows = await tx`
    update relays
    set state = 'LOST'
    from cursors
    where relays.id = ${relayId}
      and relays.state in ('SIGNED', 'BROADCAST')
      and cursors.network = relays.network
      and cursors.number >= ${seenAtBlock}
    returning relays.id`;
  return rows.length === 1;
}

/** Nonces between the chain's next one and the lane's next one without a live relay: gaps to fill. */
export async function findNonceGaps(
  tx: Tx,
  lane: Lane,
  chainNonce: bigint,
  limit: number,
): Promise<bigint[]> {
  const rows = await tx<{ nonce: bigint }[]>`
    select nonce
    from relayers lane, generate_series(${chainNonce}::bigint, lane.next_nonce - 1) as nonce
    where lane.network = ${lane.network}
      and lane.address = ${lane.relayer}
      and not exists (
        select from relays
        where relays.network = lane.network
          and relays.relayer = lane.address
          and relays.nonce = nonce.nonce
          and relays.state <> 'LOST'
      )
    order by nonce
    limit ${limit}`;
  return rows.map((row) => row.nonce);
}
