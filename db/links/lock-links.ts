import type { Tx } from "../postgres/client.ts";

/** Takes the row locks of these links in one order, so that what follows sees them as they are and nobody moves them meanwhile. */
export async function lockLinks(tx: Tx, linkIds: readonly string[]): Promise<void> {
  await tx`
    select id
    from payment_links
    where id = any(${[...new Set(linkIds)]}::text[])
    order by id
    for update`;
}
