/** Which wallets the indexer follows, from which block, and what is waiting for it. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

/** Disk blocks read at a time: some twenty rows each. */
const PAGE_BLOCKS = 100;

export async function countJoinedWallets(tx: Tx, network: NetworkId): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count
    from wallets
    where network = ${network} and indexed_from is not null`;
  return row?.count ?? 0;
}

/**
 * Addresses of every followed wallet, one per line, page by page in disk order: there may be a million. Requires a repeatable-read
 * transaction, in which no row moves between pages.
 */
export async function* readJoinedWallets(tx: Tx, network: NetworkId): AsyncGenerator<string> {
  const [table] = await tx<{ blocks: number }[]>`
    select (pg_relation_size('wallets') / current_setting('block_size')::int)::int as blocks`;
  const blocks = table?.blocks ?? 0;
  for (let from = 0; from < blocks; from += PAGE_BLOCKS) {
    const [row] = await tx<{ lines: string | null }[]>`
      select string_agg(hex_of(address) || E'\\n', '') as lines
      from wallets
      where ctid >= ${`(${from},0)`}::text::tid
        and ctid < ${`(${from + PAGE_BLOCKS},0)`}::text::tid
        and network = ${network}
        and indexed_from is not null`;
    yield row?.lines ?? "";
  }
}

/** New wallets that are not followed yet, at most `limit`. */
export async function findUnjoinedWallets(
  tx: Tx,
  network: NetworkId,
  limit: number,
): Promise<{ id: string; address: Hex }[]> {
  return tx<{ id: string; address: Hex }[]>`
    select id, address
    from wallets
    where network = ${network} and indexed_from is null
    limit ${limit}`;
}

/**
 * Follows these wallets from the block after the cursor, which is not read yet. Add them to the watched set first: the answer of this
 * statement may be lost. Returns how many were added: none in an older leader's term.
 */
export async function joinWallets(
  tx: Tx,
  { network, epoch, ids }: { network: NetworkId; epoch: bigint; ids: readonly string[] },
): Promise<number> {
  const joined = await tx`
    with term as (
      select number
      from cursors
      where network = ${network} and epoch = ${epoch}
      for update
    )
    update wallets
    set indexed_from = term.number + 1
    from term
    where wallets.id = any(${[...ids]}::text[]) and wallets.indexed_from is null`;
  return joined.count;
}

export type Waiting = {
  /** Wallets that are not followed yet. */
  wallets: boolean;
  /** The next block may settle something: poll frequently. */
  payments: boolean;
  /** Some of these payments touch no wallet: no block may be skipped. */
  facilitated: boolean;
  claims: boolean;
  /** Links that a transfer attributed to them may pay now. */
  released: boolean;
  transfers: boolean;
  /** Sends of our wallets that wait for the chain. */
  operations: boolean;
  /** Whether a link is open. */
  links: boolean;
  /** Whether the page of an open link is being viewed. */
  watches: boolean;
  /** The current term in the database. */
  epoch: bigint;
};

/** What is waiting for the indexer on a network. Takes a few index look-ups. */
export async function findWaiting(tx: Tx, network: NetworkId): Promise<Waiting> {
  const [row] = await tx<Waiting[]>`
    select
      exists (select from wallets where network = ${network} and indexed_from is null) as wallets,
      exists (
        select from open_payments where network = ${network}
      ) as payments,
      exists (
        select from open_payments
        join payments on payments.id = open_payments.payment_id
        where open_payments.network = ${network} and payments.link_id is null
      ) as facilitated,
      exists (select from claims where network = ${network} and state = 'OPEN') as claims,
      exists (
        select from payment_links
        where network = ${network} and is_released
      ) as released,
      exists (select from transfers where network = ${network} and status = 'DETECTED') as transfers,
      exists (
        select from wallet_operations
        where network = ${network} and state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED')
      ) as operations,
      exists (select from payment_links where network = ${network} and open_until is not null) as links,
      exists (select from link_watches where network = ${network} and watched_until > now()) as watches,
      coalesce((select epoch from cursors where network = ${network}), 0) as epoch`;
  return (
    row ?? {
      wallets: false,
      payments: false,
      facilitated: false,
      claims: false,
      released: false,
      transfers: false,
      operations: false,
      links: false,
      watches: false,
      epoch: 0n,
    }
  );
}

/** The block from which each of these addresses is followed; the first block for backfilled ones. Others are absent. */
export async function findFollowedSince(
  tx: Tx,
  network: NetworkId,
  addresses: readonly Hex[],
): Promise<Map<Hex, number>> {
  const rows = await tx<{ address: Hex; since: bigint }[]>`
    select address, case when backfilled_at is null then indexed_from else 0 end as since
    from wallets
    where network = ${network} and address = any(${[...addresses]}::bytea[]) and indexed_from is not null`;
  return new Map(rows.map((row) => [row.address, Number(row.since)]));
}

/** Which of these addresses are wallets of ours, followed or not. */
export async function findWallets(tx: Tx, network: NetworkId, addresses: readonly Hex[]): Promise<Hex[]> {
  const rows = await tx<{ address: Hex }[]>`
    select address
    from wallets
    where network = ${network} and address = any(${[...addresses]}::bytea[])`;
  return rows.map(({ address }) => address);
}

/** When the first wallet was created. */
export async function findOldestWallet(tx: Tx, network: NetworkId): Promise<Date | undefined> {
  const [row] = await tx<{ oldest: Date | null }[]>`
    select min(created_at) as oldest
    from wallets
    where network = ${network} and indexed_from is not null`;
  return row?.oldest ?? undefined;
}
