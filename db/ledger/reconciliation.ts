/** The ledger data that reconciliation compares with the chain, and its results. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { RECONCILIATIONS_KEPT_DAYS } from "../../core/domain/retention.ts";
import type { Tx } from "../postgres/client.ts";
import type { BlockPoint } from "./cursors.ts";

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
 * holds: a concurrent check came first, or a reorganisation replaced some of them.
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
 * Up to `limit` each of the wallets that differed when last compared, that never were, whose sum is being made, whose transfers are in the
 * blocks after `since`, and that were not compared for a day.
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
      coalesce(wallet.reconciled_at < now() - interval '1 hour', true) as is_long_ago
    from (
      (
        select id, address, opening_units, difference_units, reconciled_at
        from wallets
        where ${isFollowed} and difference_units <> 0
        order by reconciled_at nulls first
        limit ${limit}
      )
      union
      (
        select id, address, opening_units, difference_units, reconciled_at
        from wallets
        where ${isFollowed} and reconciled_at is null
        limit ${limit}
      )
      union
      (
        select id, address, opening_units, difference_units, reconciled_at
        from wallets
        where ${isFollowed} and is_counting
        limit ${limit}
      )
      union
      (
        select id, address, opening_units, difference_units, reconciled_at
        from wallets
        where ${isFollowed} and reconciled_at < now() - interval '1 day'
        order by reconciled_at
        limit ${limit}
      )
      union
      (
        select id, address, opening_units, difference_units, reconciled_at
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
    ) wallet`;
}

export async function findWalletsToCompare(tx: Tx, ids: readonly string[]): Promise<WalletToCompare[]> {
  return tx<WalletToCompare[]>`
    select id, address, opening_units, difference_units, true as is_long_ago
    from wallets
    where id = any(${[...ids]}::text[])`;
}

/**
 * They were compared at block `number`. A wallet without an opening balance gets the one that makes its ledger agree now. One whose
 * transfers have changed since its sum was made is left to its next comparison: by that sum the opening balance would be wrong permanently.
 * Returns the ids of the others.
 */
export async function noteReconciled(
  tx: Tx,
  {
    number,
    wallets,
  }: { number: number; wallets: readonly { id: string; openingUnits: bigint; differenceUnits: bigint }[] },
): Promise<ReadonlySet<string>> {
  const rows = wallets.map(({ id, openingUnits, differenceUnits }) => ({
    id,
    opening_units: openingUnits.toString(),
    difference_units: differenceUnits.toString(),
  }));
  const noted = await tx<{ id: string }[]>`
    update wallets
    set
      reconciled_at = now(), opening_units = coalesce(wallets.opening_units, given.opening_units),
      difference_units = given.difference_units, is_counting = false, recount_units = null, recount_number = null
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as given (
      id text, opening_units numeric, difference_units numeric
    )
    where wallets.id = given.id and wallets.booked_number = ${number}
    returning wallets.id`;
  return new Set(noted.map(({ id }) => id));
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
      and (differences = 0 or created_at < now() - make_interval(days => ${RECONCILIATIONS_KEPT_DAYS}))`;
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
