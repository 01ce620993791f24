import type { Tx } from "../postgres/client.ts";

/** Locks these links in a fixed order, so that what follows sees their current state and no other transaction changes it. */
export async function lockLinks(tx: Tx, linkIds: readonly string[]): Promise<void> {
  await tx`
    select id
    from payment_links
    where id = any(${[...new Set(linkIds)]}::text[])
    order by id
    for update`;
}
