/** Updates the rows of ACTIVE links past their expiry to EXPIRED. When a link expires: `core/domain/link-expiry.ts`. */
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

/** SQL: an open link is past its expiry. By the index, which begins with the network. */
export function hasLapsed(tx: Tx) {
  return tx`network = any(${[...NETWORK_IDS]}::text[]) and open_until <= now()`;
}

/** ACTIVE -> EXPIRED for at most `limit` links past their expiry. */
export async function expireLinks(tx: Tx, limit: number): Promise<{ id: string; userId: string }[]> {
  return tx<{ id: string; userId: string }[]>`
    update payment_links
    set status = 'EXPIRED', updated_at = now()
    where id in (
        -- per network, because the index begins with it and a backlog is then not scanned to its end
        select lapsed.id
        from unnest(${[...NETWORK_IDS]}::text[]) as each (network)
        cross join lateral (
          select id
          from payment_links
          where network = each.network and open_until <= now() and status = 'ACTIVE'
          order by open_until
          limit ${limit}
          for update skip locked
        ) lapsed
        limit ${limit}
      )
      and status = 'ACTIVE'
    returning id, user_id`;
}
