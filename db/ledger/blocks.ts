/** Headers of the blocks that were read: their hashes link the next block to the same chain. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { KEPT_BLOCKS, KEPT_BLOCKS_MAX } from "../../core/domain/reorg-depth.ts";
import type { Tx } from "../postgres/client.ts";

export type KeptBlock = { number: number; hash: Hex; parentHash: Hex; timeS: number };

export async function insertBlocks(tx: Tx, network: NetworkId, blocks: readonly KeptBlock[]): Promise<void> {
  await tx`
    insert into blocks (network, number, hash, parent_hash, block_time)
    select ${network}, number, hash, parent_hash, to_timestamp(time_s)
    from unnest(
      ${blocks.map((block) => block.number)}::bigint[],
      ${blocks.map((block) => block.hash)}::text[],
      ${blocks.map((block) => block.parentHash)}::text[],
      ${blocks.map((block) => block.timeS)}::float8[]
    ) as given (number, hash, parent_hash, time_s)
    on conflict (network, number) do update
    set hash = excluded.hash, parent_hash = excluded.parent_hash, block_time = excluded.block_time`;
}

/** Stored blocks from `from` to `to`, highest first. */
export async function findBlocks(
  tx: Tx,
  network: NetworkId,
  { from, to }: { from: number; to: number },
): Promise<KeptBlock[]> {
  const rows = await tx<{ number: bigint; hash: Hex; parentHash: Hex; blockTime: Date }[]>`
    select number, hash, parent_hash, block_time
    from blocks
    where network = ${network} and number between ${from}::bigint and ${to}::bigint
    order by number desc`;
  return rows.map((row) => ({
    number: Number(row.number),
    hash: row.hash,
    parentHash: row.parentHash,
    timeS: row.blockTime.getTime() / 1000,
  }));
}

/** The highest stored blocks up to `to`, highest first: where nothing of ours was read, not every block is stored. */
export async function findHighestBlocks(
  tx: Tx,
  network: NetworkId,
  { to, limit }: { to: number; limit: number },
): Promise<Pick<KeptBlock, "number" | "hash">[]> {
  const rows = await tx<{ number: bigint; hash: Hex }[]>`
    select number, hash
    from blocks
    where network = ${network} and number <= ${to}::bigint
    order by number desc
    limit ${limit}`;
  return rows.map(({ number, hash }) => ({ number: Number(number), hash }));
}

/** The lowest stored block at or above `number`. */
export async function findNextBlock(
  tx: Tx,
  network: NetworkId,
  number: number,
): Promise<Pick<KeptBlock, "number" | "hash"> | undefined> {
  const [row] = await tx<{ number: bigint; hash: Hex }[]>`
    select number, hash
    from blocks
    where network = ${network} and number >= ${number}::bigint
    order by number
    limit 1`;
  return row && { number: Number(row.number), hash: row.hash };
}

/** Deletes final blocks far below the cursor. */
export async function pruneBlocks(tx: Tx, network: NetworkId): Promise<void> {
  await tx`
    delete from blocks
    using cursors
    where blocks.network = ${network}
      and cursors.network = blocks.network
      and blocks.number < least(
        cursors.number - ${KEPT_BLOCKS},
        greatest(cursors.finalized_number, cursors.number - ${KEPT_BLOCKS_MAX})
      )`;
}

export async function deleteBlocksAbove(tx: Tx, network: NetworkId, number: number): Promise<void> {
  await tx`
    delete from blocks
    where network = ${network} and number > ${number}`;
}
