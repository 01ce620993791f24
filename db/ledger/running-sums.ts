/**
 * Running sums of the wallets' transfers, which reconciliation compares with balances: `booked_units` up to block `booked_number`. A sum
 * is continued from where it ended, a bounded number of transfers at a time, so its cost does not depend on the wallet's age. Whatever
 * changes transfers below `booked_number` discards it (`discardSums`, `discardSumsAbove`, a rebuild).
 */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

export type RunningSum = {
  id: string;
  address: Hex;
  /** Sum of the transfers up to block `number`. */
  units: bigint;
  number: bigint;
  /** What `storeSums` compares: unchanged as long as the transfers that were read are. */
  version: bigint;
  ledgerVersion: bigint;
  /** The block up to which a recount has progressed; null when there is none. */
  recountUnits: bigint | null;
  recountNumber: bigint | null;
};

/** Before sums up to `number` are made: a reorganisation below it discards them. */
export async function raiseReconciledNumber(
  tx: Tx,
  { network, epoch, number }: { network: NetworkId; epoch: bigint; number: number },
): Promise<void> {
  await tx`
    update cursors
    set reconciled_number = ${number}
    where network = ${network} and epoch = ${epoch} and reconciled_number < ${number}`;
}

/**
 * Continues the sums of these wallets by about `rows` transfers each way, at most up to block `number`, and stops at the block of a sum
 * that is counted again. Writes nothing.
 */
export async function continueSums(
  tx: Tx,
  network: NetworkId,
  { ids, number, rows }: { ids: readonly string[]; number: number; rows: number },
): Promise<RunningSum[]> {
  const direction = (side: "to_address" | "from_address") => tx`
    network = ${network}
    and ${tx(side)} = wallet.address
    and address_key(${tx(side)}) = address_key(wallet.address)
    and block_number > wallet.booked_number
    and status <> 'ORPHANED'`;
  // the block before the first transfer that is too many, or all of the first block
  const edge = (side: "to_address" | "from_address") => tx`
    select greatest(block_number - 1, wallet.booked_number + 1)
    from transfers
    where ${direction(side)} and block_number <= aim.number
    order by block_number
    offset ${rows}
    limit 1`;
  const sum = (side: "to_address" | "from_address") => tx`
    select coalesce(sum(amount_units), 0) as units
    from transfers
    where ${direction(side)} and block_number <= until.number`;
  return tx<RunningSum[]>`
    select
      wallet.id, wallet.address, wallet.booked_version as version, cursors.ledger_version, wallet.recount_units,
      wallet.recount_number, until.number, wallet.booked_units + received.units - sent.units as units
    from wallets wallet
    join cursors on cursors.network = wallet.network
    cross join lateral (
      select least(
        ${number}::bigint,
        case when wallet.recount_number > wallet.booked_number then wallet.recount_number end
      ) as number
    ) aim
    cross join lateral (
      -- "offset 0": found once, not again by each sum
      select least(aim.number, (${edge("to_address")}), (${edge("from_address")})) as number
      offset 0
    ) until
    cross join lateral (${sum("to_address")}) received
    cross join lateral (${sum("from_address")}) sent
    where wallet.id = any(${[...ids]}::text[]) and wallet.network = ${network} and wallet.booked_number <= ${number}`;
}

/**
 * Stores sums made by `continueSums`; those that have not reached `number` stay due. Returns the wallets stored: not those whose
 * transfers changed since they were read. The caller holds the cursor's row.
 */
export async function storeSums(
  tx: Tx,
  network: NetworkId,
  { sums, number }: { sums: readonly RunningSum[]; number: number },
): Promise<Set<string>> {
  const rows = sums.map((sum) => ({
    id: sum.id,
    units: sum.units.toString(),
    number: sum.number.toString(),
    version: sum.version.toString(),
    ledger_version: sum.ledgerVersion.toString(),
  }));
  const stored = await tx<{ id: string }[]>`
    update wallets
    set
      booked_units = given.units, booked_number = given.number,
      is_counting = is_counting or given.number < ${number}
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as given (
      id text, units numeric, number bigint, version bigint, ledger_version bigint
    )
    join cursors on cursors.network = ${network}
    where wallets.id = given.id
      and wallets.booked_version = given.version
      and cursors.ledger_version = given.ledger_version
    returning wallets.id`;
  return new Set(stored.map(({ id }) => id));
}

/** Transfers of these wallets changed below the head: restarts their sums. */
export async function discardSums(tx: Tx, network: NetworkId, addresses: readonly Hex[]): Promise<void> {
  if (addresses.length === 0) return;
  await tx`
    update wallets
    set
      booked_units = 0, booked_number = -1, booked_version = booked_version + 1, recount_units = null,
      recount_number = null
    where network = ${network}
      and address = any(${[...new Set(addresses)]}::bytea[])
      and backfilled_at is not null`;
}

/**
 * Blocks above `ancestor` left the chain. Sums that reach above it start again, including those in progress: none is stored after this.
 * Sums are made at final blocks, so this is free unless a final block was replaced.
 */
export async function discardSumsAbove(tx: Tx, network: NetworkId, ancestor: number): Promise<void> {
  const rows = await tx`
    update cursors
    set ledger_version = ledger_version + 1, reconciled_number = ${ancestor}
    where network = ${network} and reconciled_number > ${ancestor}
    returning 1`;
  if (rows.length === 0) return;
  await tx`
    update wallets
    set booked_units = 0, booked_number = -1, recount_units = null, recount_number = null
    where network = ${network} and booked_number > ${ancestor}`;
}

/** Restarts their sums, which are compared with the current ones when complete. */
export async function startRecount(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx`
    update wallets
    set
      recount_units = booked_units, recount_number = booked_number, booked_units = 0, booked_number = -1,
      booked_version = booked_version + 1, is_counting = true
    where id = any(${[...ids]}::text[])`;
}

/** The next wallets whose sums are recounted, in rotation. */
export async function takeWalletsToRecount(tx: Tx, network: NetworkId, limit: number): Promise<string[]> {
  const [taken] = await tx<{ ids: string[] }[]>`
    with next as (
      select wallet.id
      from cursors
      cross join lateral (
        select id
        from wallets
        where network = ${network} and id > cursors.recounted_wallet and reconciled_at is not null and not is_counting
        order by id
        limit ${limit}
      ) wallet
      where cursors.network = ${network}
    )
    update cursors
    set recounted_wallet = coalesce((select max(id) from next), '')
    where network = ${network}
    returning array(select id from next) as ids`;
  return taken?.ids ?? [];
}
