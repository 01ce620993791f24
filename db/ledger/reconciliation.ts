/** The ledger as reconciliation compares it with the chain, and its results. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import type { BlockPoint } from "./cursors.ts";

/** Retention of results. */
const KEPT_DAYS = 30;

export type BookedLog = { blockHash: Hex; logIndex: number };

/** Positions of the non-orphaned transfers of a range. */
export async function findBookedLogs(
  tx: Tx,
  network: NetworkId,
  { from, to }: { from: number; to: number },
): Promise<(BookedLog & { blockNumber: bigint })[]> {
  return tx<(BookedLog & { blockNumber: bigint })[]>`
    select block_number, block_hash, log_index
    from transfers
    where network = ${network} and block_number between ${from}::bigint and ${to}::bigint and status <> 'ORPHANED'`;
}

export async function findRecheckedNumber(tx: Tx, network: NetworkId): Promise<number> {
  const [row] = await tx<{ recheckedNumber: bigint }[]>`
    select rechecked_number from cursors where network = ${network}`;
  return Number(row?.recheckedNumber ?? 0n);
}

/**
 * Records that the blocks `from` up to `to`, next after those read a second time so far, were too. Records nothing when that no longer
 * holds: a concurrent check was faster, or a reorganisation replaced some of them.
 */
export async function noteRechecked(
  tx: Tx,
  { network, epoch, from, to }: { network: NetworkId; epoch: bigint; from: number; to: BlockPoint },
): Promise<void> {
  await tx`
    update cursors
    set rechecked_number = ${to.number}
    where network = ${network}
      and epoch = ${epoch}
      and rechecked_number = ${from - 1}
      and number >= ${to.number}
      and not exists (
        select from blocks
        where blocks.network = ${network} and blocks.number = ${to.number} and blocks.hash <> ${to.hash}
      )`;
}

export type WalletToCompare = {
  id: string;
  address: Hex;
  /** What its ledger holds, beside its opening balance. */
  bookUnits: bigint;
  openingUnits: bigint | null;
  /** When last compared. */
  differenceUnits: bigint;
  isLongAgo: boolean;
};

/** The block of the newest comparison: wallets that moved up to it were compared. */
export async function findComparedNumber(tx: Tx, network: NetworkId): Promise<number | undefined> {
  const [row] = await tx<{ number: bigint }[]>`
    select to_block as number
    from reconciliations
    where network = ${network} and kind = 'BALANCES'
    order by id desc
    limit 1`;
  return row && Number(row.number);
}

/**
 * Up to `limit` each of the wallets that differed when last compared, that never were, whose transfers stand in the blocks after `since`,
 * and that were not compared for a day. Their transfers are summed from where the last comparison ended.
 */
export async function findWalletsToReconcile(
  tx: Tx,
  network: NetworkId,
  { number, since, limit }: { number: number; since: number; limit: number },
): Promise<WalletToCompare[]> {
  const isFollowed = tx`
    network = ${network}
    and backfilled_at is not null
    and indexed_from <= ${number}::bigint + 1
    and booked_number <= ${number}::bigint`;
  return tx<WalletToCompare[]>`
    select
      wallet.id, wallet.address, wallet.opening_units, wallet.difference_units,
      coalesce(wallet.reconciled_at < now() - interval '1 hour', true) as is_long_ago,
      wallet.booked_units + received.units - sent.units as book_units
    from (
      (
        select *
        from wallets
        where ${isFollowed} and difference_units <> 0
        order by reconciled_at nulls first
        limit ${limit}
      )
      union
      (
        select *
        from wallets
        where ${isFollowed} and reconciled_at is null
        limit ${limit}
      )
      union
      (
        select *
        from wallets
        where ${isFollowed} and reconciled_at < now() - interval '1 day'
        order by reconciled_at
        limit ${limit}
      )
      union
      (
        select *
        from wallets
        where ${isFollowed}
          and booked_number < ${number}::bigint
          and address in (
            select unnest(array[from_address, to_address])
            from transfers
            where network = ${network}
              and block_number > ${since}::bigint
              and block_number <= ${number}::bigint
              and status <> 'ORPHANED'
          )
        limit ${limit}
      )
    ) wallet
    cross join lateral (
      select coalesce(sum(amount_units), 0) as units
      from transfers
      where network = ${network}
        and to_address = wallet.address
        and address_key(to_address) = address_key(wallet.address)
        and block_number > wallet.booked_number
        and block_number <= ${number}
        and status <> 'ORPHANED'
    ) received
    cross join lateral (
      select coalesce(sum(amount_units), 0) as units
      from transfers
      where network = ${network}
        and from_address = wallet.address
        and address_key(from_address) = address_key(wallet.address)
        and block_number > wallet.booked_number
        and block_number <= ${number}
        and status <> 'ORPHANED'
    ) sent`;
}

/** Their whole ledger up to block `number`: transfers below the last comparison may have been added or orphaned since. */
export async function sumLedger(
  tx: Tx,
  network: NetworkId,
  { addresses, number }: { addresses: readonly Hex[]; number: number },
): Promise<Map<Hex, bigint>> {
  const rows = await tx<{ address: Hex; units: bigint }[]>`
    select given.address, received.units - sent.units as units
    from unnest(${[...addresses]}::text[]) as given (address)
    cross join lateral (
      select coalesce(sum(amount_units), 0) as units
      from transfers
      where network = ${network}
        and to_address = given.address
        and address_key(to_address) = address_key(given.address)
        and block_number <= ${number}
        and status <> 'ORPHANED'
    ) received
    cross join lateral (
      select coalesce(sum(amount_units), 0) as units
      from transfers
      where network = ${network}
        and from_address = given.address
        and address_key(from_address) = address_key(given.address)
        and block_number <= ${number}
        and status <> 'ORPHANED'
    ) sent`;
  return new Map(rows.map(({ address, units }) => [address, units]));
}

/** They were compared at block `number`. A wallet without an opening balance gets the one that makes its ledger agree now. */
export async function noteReconciled(
  tx: Tx,
  number: number,
  wallets: readonly { id: string; bookUnits: bigint; openingUnits: bigint; differenceUnits: bigint }[],
): Promise<void> {
  const rows = wallets.map(({ id, bookUnits, openingUnits, differenceUnits }) => ({
    id,
    booked_units: bookUnits.toString(),
    opening_units: openingUnits.toString(),
    difference_units: differenceUnits.toString(),
  }));
  await tx`
    update wallets
    set
      reconciled_at = now(), opening_units = coalesce(wallets.opening_units, given.opening_units),
      difference_units = given.difference_units, booked_units = given.booked_units, booked_number = ${number}
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as given (
      id text, booked_units numeric, opening_units numeric, difference_units numeric
    )
    where wallets.id = given.id`;
}

/** Transfers were booked below where these wallets were compared: the next comparison sums their whole ledger. */
export async function forgetComparison(tx: Tx, network: NetworkId, addresses: readonly Hex[]): Promise<void> {
  if (addresses.length === 0) return;
  await tx`
    update wallets
    set booked_units = 0, booked_number = -1
    where network = ${network} and address = any(${[...new Set(addresses)]}::text[]) and booked_number >= 0`;
}

export type ReconciliationResult = {
  network: NetworkId;
  kind: "LOGS" | "BALANCES" | "NONCES";
  fromBlock: number;
  toBlock: number;
  checked: number;
  differences: number;
  repaired: number;
  details: readonly Record<string, string | number>[];
};

/** Stores a result. Of consecutive clean results only the newest is kept, so that the table grows only with problems. */
export async function recordReconciliation(tx: Tx, result: ReconciliationResult): Promise<void> {
  await tx`
    delete from reconciliations
    where network = ${result.network}
      and kind = ${result.kind}
      and (differences = 0 or created_at < now() - make_interval(days => ${KEPT_DAYS}))`;
  await tx`
    insert into reconciliations (network, kind, from_block, to_block, checked, differences, repaired, details)
    values (
      ${result.network}, ${result.kind}, ${result.fromBlock}, ${result.toBlock}, ${result.checked},
      ${result.differences}, ${result.repaired}, ${JSON.stringify(result.details)}::text::jsonb
    )`;
}

/** Wallets that differ now, and what the last day found and could not repair: transfers in no block, nonces without an operation. Undefined before the first comparison. */
export async function countDifferences(tx: Tx, network: NetworkId): Promise<number | undefined> {
  const [row] = await tx<{ differences: number; isKnown: boolean }[]>`
    select
      (
        (select count(*) from wallets where network = ${network} and difference_units <> 0)
        + (
          select coalesce(sum(differences - repaired), 0)
          from reconciliations
          where network = ${network} and kind in ('LOGS', 'NONCES') and created_at > now() - interval '1 day'
        )
      )::int as differences,
      exists (select from reconciliations where network = ${network}) as is_known`;
  return row?.isKnown ? row.differences : undefined;
}
