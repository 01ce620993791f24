/** Links that their merchants list for agents: marked, and listed while x402 can pay them. */
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { isUsedUp } from "./max-uses.ts";

export async function setDiscoverable(
  tx: Tx,
  { id, userId, isDiscoverable }: { id: string; userId: string; isDiscoverable: boolean },
): Promise<void> {
  await tx`
    update payment_links
    set is_discoverable = ${isDiscoverable}, updated_at = now()
    where id = ${id}
      and user_id = ${userId}
      and parent_id is null
      and is_discoverable <> ${isDiscoverable}`;
}

/** The public fields. */
export type ListedLink = {
  id: string;
  network: NetworkId;
  recipient: Hex;
  /** The minimum when the payer chooses. */
  amountUnits: bigint;
  minUnits: bigint | null;
  maxUnits: bigint | null;
  description: string;
  expiresAt: Date;
  updatedAt: Date;
  /** The merchant's chosen name, if any. */
  displayName: string | null;
};

export type ListingFilter = {
  networks: readonly NetworkId[];
  recipient?: Hex | undefined;
  /** Micro-USDC; a payment of less is not relayed. */
  relayMinUnits: bigint;
};

/** Newest first, with the total number. Links that are paid, held by a payment, expired or used up are left out. */
export async function listDiscoverable(
  tx: Tx,
  filter: ListingFilter,
  { limit, offset }: { limit: number; offset: number },
): Promise<{ links: ListedLink[]; total: number }> {
  const links = await tx<ListedLink[]>`
    select
      link.id, link.network, link.recipient, link.amount_units, link.min_units, link.max_units, link.description,
      link.expires_at, link.updated_at, users.display_name
    ${payable(tx, filter)}
    order by link.created_at desc, link.id desc
    limit ${limit}
    offset ${offset}`;
  const [count] = await tx<{ total: number }[]>`
    select count(*)::int as total
    ${payable(tx, filter)}`;
  return { links, total: count?.total ?? 0 };
}

function payable(tx: Tx, { networks, recipient, relayMinUnits }: ListingFilter) {
  return tx`
    from payment_links link
    join users on users.id = link.user_id
    where link.is_discoverable
      and link.stage = 'OPEN'
      and link.status = 'ACTIVE'
      and link.expires_at > now()
      and link.network = any(${[...networks]}::text[])
      and coalesce(link.max_units, link.amount_units) >= ${relayMinUnits}::bigint
      and not ${isUsedUp(tx)}
      ${recipient === undefined ? tx`` : tx`and link.recipient = ${recipient}`}`;
}
