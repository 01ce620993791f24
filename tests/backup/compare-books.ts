/** Compares the money of two databases: they must agree on everything that both can know. */

import type { Sql } from "../../db/postgres/client.ts";

export type Comparison = {
  links: number;
  transfers: number;
  /** Sentences; empty when the books agree. */
  differences: string[];
};

const EXAMPLES_MAX = 10;

/**
 * `restored` must know every transfer of the chain's blocks that both have read, and say the same of each link that it has. Links made
 * after the backup are in `live` alone.
 */
export async function compareBooks(live: Sql, restored: Sql): Promise<Comparison> {
  const differences: string[] = [];
  const [linksLive, linksRestored] = await Promise.all([listSettledLinks(live), listSettledLinks(restored)]);
  const known = new Map(linksLive.map((link) => [link.id, link]));
  for (const link of linksRestored) {
    const other = known.get(link.id);
    if (!other) differences.push(`${link.id} is in the restored database alone`);
    else if (describe(other) !== describe(link))
      differences.push(`${link.id} is ${describe(link)}, and was ${describe(other)}`);
  }
  const ids = linksRestored.map(({ id }) => id);
  const [sumsLive, sumsRestored] = await Promise.all([
    readTransferSums(live, ids),
    readTransferSums(restored, ids),
  ]);
  const networks = new Set([...sumsLive, ...sumsRestored].map(({ network }) => network));
  for (const network of networks) {
    const [a, b] = [sumsLive, sumsRestored].map((sums) => sums.find((sum) => sum.network === network));
    if (a?.units !== b?.units || a?.count !== b?.count)
      differences.push(
        `${network}: ${b?.count ?? 0} transfers of ${b?.units ?? 0n} micro-USDC, and were ${a?.count ?? 0} of ${a?.units ?? 0n}`,
      );
  }
  return {
    links: linksRestored.length,
    transfers: sumsRestored.reduce((sum, { count }) => sum + count, 0),
    differences: differences.slice(0, EXAMPLES_MAX),
  };
}

function describe({ status, paidUnits, txHash }: SettledLink): string {
  return status === "PAID" ? `PAID ${paidUnits} micro-USDC by ${txHash}` : status;
}

type SettledLink = { id: string; status: string; paidUnits: bigint | null; txHash: string | null };

/** Every link; an open one counts as unpaid, whatever state its attempts are in. */
async function listSettledLinks(sql: Sql): Promise<SettledLink[]> {
  return sql<SettledLink[]>`
    select
      link.id,
      case when link.status = 'PAID' then 'PAID' else 'unpaid' end as status,
      transfer.amount_units::numeric(78, 0) as paid_units,
      transfer.tx_hash
    from payment_links link
    left join transfers transfer on transfer.link_id = link.id and transfer.pays and transfer.status <> 'ORPHANED'
    order by link.id`;
}

type TransferSum = { network: string; count: number; units: bigint };

/** Transfers to the wallets of these links, by network. */
async function readTransferSums(sql: Sql, linkIds: readonly string[]): Promise<TransferSum[]> {
  return sql<TransferSum[]>`
    select network, count(*)::int as count, sum(amount_units)::numeric(78, 0) as units
    from transfers
    where status <> 'ORPHANED'
      and (network, to_address) in (select network, recipient from payment_links where id = any (${linkIds}::text[]))
    group by network
    order by network`;
}
