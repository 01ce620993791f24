/** When wallets had their first payment link: a transfer before it cannot carry a link tag of theirs, so its calldata is not read. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

/** Which of these wallets have payment links, and when the first was created. */
export async function findFirstLinks(
  tx: Tx,
  network: NetworkId,
  addresses: readonly Hex[],
): Promise<Map<Hex, Date>> {
  const rows = await tx<{ address: Hex; madeAt: Date }[]>`
    select given.address, first_link.created_at as made_at
    from unnest(${[...addresses]}::bytea[]) as given (address)
    join wallets on wallets.network = ${network} and wallets.address = given.address
    cross join lateral (
      select min(first_of_stage.created_at) as created_at
      from (values ('OPEN'), ('PAID'), ('EXPIRED'), ('CANCELLED')) as every (stage)
      cross join lateral (
        select created_at
        from payment_links
        where owner_key(user_id) = owner_key(wallets.user_id) and stage = every.stage and parent_id is null
        order by created_at
        limit 1
      ) first_of_stage
    ) first_link
    where first_link.created_at is not null
      -- one look-up for the many wallets without links
      and exists (
        select from payment_links
        where owner_key(user_id) = owner_key(wallets.user_id) and parent_id is null
      )`;
  return new Map(rows.map((row) => [row.address, row.madeAt]));
}
