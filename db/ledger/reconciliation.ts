/** The books as reconciliation compares them with the chain, and its results. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import type { BlockPoint } from "./cursors.ts";

/** Results are kept this long. */
const KEPT_DAYS = 30;

export type BookedLog = { blockHash: Hex; logIndex: number };

/** Places of the booked transfers of a range that are not orphaned. */
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
 * The blocks after those read a second time so far, `from` up to `to`, were too. Nothing is noted when that is not so any more: another
 * reading was faster, or a reorganisation replaced some of them.
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

export type WalletInBooks = { id: string; address: Hex; bookUnits: bigint; openingUnits: bigint | null };

/**
 * Up to `limit` wallets that differed when last compared, for that may have been put right, and as many that waited longest, with what
 * the books say they hold after block `number` (not counting their opening balance).
 */
export async function findWalletsToReconcile(
  tx: Tx,
  network: NetworkId,
  { number, limit }: { number: number; limit: number },
): Promise<WalletInBooks[]> {
  return tx<WalletInBooks[]>`
    select wallet.id, wallet.address, wallet.opening_units, received.units - sent.units as book_units
    from (
      (
        select id, address, opening_units
        from wallets
        where network = ${network}
          and difference_units <> 0
          and backfilled_at is not null
          and indexed_from <= ${number}::bigint + 1
        order by reconciled_at nulls first
        limit ${limit}
      )
      union
      (
        select id, address, opening_units
        from wallets
        where network = ${network} and backfilled_at is not null and indexed_from <= ${number}::bigint + 1
        order by reconciled_at nulls first
        limit ${limit}
      )
    ) wallet
    cross join lateral (
      select coalesce(sum(amount_units), 0) as units
      from transfers
      where network = ${network} and to_address = wallet.address and block_number <= ${number} and status <> 'ORPHANED'
    ) received
    cross join lateral (
      select coalesce(sum(amount_units), 0) as units
      from transfers
      where network = ${network} and from_address = wallet.address and block_number <= ${number} and status <> 'ORPHANED'
    ) sent`;
}

/** Their turn is over. A wallet without an opening balance gets the one that makes the books agree now. */
export async function noteReconciled(
  tx: Tx,
  wallets: readonly { id: string; openingUnits: bigint; differenceUnits: bigint }[],
): Promise<void> {
  const rows = wallets.map(({ id, openingUnits, differenceUnits }) => ({
    id,
    opening_units: openingUnits.toString(),
    difference_units: differenceUnits.toString(),
  }));
  await tx`
    update wallets
    set
      reconciled_at = now(), opening_units = coalesce(wallets.opening_units, given.opening_units),
      difference_units = given.difference_units
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as given (
      id text, opening_units numeric, difference_units numeric
    )
    where wallets.id = given.id`;
}

export type ReconciliationResult = {
  network: NetworkId;
  kind: "LOGS" | "BALANCES";
  fromBlock: number;
  toBlock: number;
  checked: number;
  differences: number;
  repaired: number;
  details: readonly Record<string, string | number>[];
};

/** Stores a result. Of clean ones in a row only the newest is kept: the table grows with trouble, not with time. */
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

/** Wallets that differ now, and booked transfers of the last day that no block holds. Undefined before the first comparison. */
export async function countDifferences(tx: Tx, network: NetworkId): Promise<number | undefined> {
  const [row] = await tx<{ differences: number; isKnown: boolean }[]>`
    select
      (
        (select count(*) from wallets where network = ${network} and difference_units <> 0)
        + (
          select coalesce(sum(differences - repaired), 0)
          from reconciliations
          where network = ${network} and kind = 'LOGS' and created_at > now() - interval '1 day'
        )
      )::int as differences,
      exists (select from reconciliations where network = ${network}) as is_known`;
  return row?.isKnown ? row.differences : undefined;
}
