/**
 * Whether transfers could settle a payment, claim, assignment or link, asked before their blocks are reached, so that those which cannot
 * are stored in bulk. Locks nothing.
 */
import type { AuthorizationKey } from "../../core/domain/authorization.ts";
import type { AttributableTransfer } from "../../core/domain/ledger-snapshot.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { idsByAuthorization } from "../payments/ids-by-authorization.ts";
import type { Tx } from "../postgres/client.ts";
import { findFittingLinks, findTaggedLinks, loadClaims } from "./attribution.ts";
import { hasAssignments } from "./reorganised-assignments.ts";

/**
 * Whether a payment of one of these authorizations, or a claim, assignment or link that one of these transfers could settle, is there.
 * Reads what `loadSnapshot` reads, and facilitated payments too; locks nothing.
 */
export async function hasEvidence(
  tx: Tx,
  network: NetworkId,
  { transfers, spent }: { transfers: readonly AttributableTransfer[]; spent: readonly AuthorizationKey[] },
): Promise<boolean> {
  const linked = await findLinkedRecipients(tx, network, new Set(transfers.map(({ to }) => to)));
  const open = transfers.filter(({ to }) => linked.has(to));
  const [isPaid, claims, isAssigned, tagged, fitting] = await Promise.all([
    spent.length > 0 && hasPayments(tx, network, spent),
    loadClaims(tx, network, transfers),
    hasAssignments(tx, network, transfers),
    findTaggedLinks(tx, network, transfers),
    findFittingLinks(tx, network, open, { all: open, takenLinkIds: [] }),
  ]);
  return isPaid || isAssigned || claims.length + tagged.length + fitting.length > 0;
}

/** Those with a link that is not paid: most have none, and cost one index look-up each. */
async function findLinkedRecipients(
  tx: Tx,
  network: NetworkId,
  recipients: ReadonlySet<Hex>,
): Promise<Set<Hex>> {
  if (recipients.size === 0) return new Set();
  const rows = await tx<{ recipient: Hex }[]>`
    select recipient
    from unnest(${[...recipients]}::bytea[]) as given (recipient)
    where exists (
        select from payment_links link
        where link.network = ${network}
          and link.recipient = given.recipient
          and address_key(link.recipient) = address_key(given.recipient)
          and link.is_unpaid
      )`;
  return new Set(rows.map(({ recipient }) => recipient));
}

async function hasPayments(
  tx: Tx,
  network: NetworkId,
  authorizations: readonly AuthorizationKey[],
): Promise<boolean> {
  const rows = await tx`
    ${idsByAuthorization(tx, { network }, authorizations)}
    limit 1`;
  return rows.length > 0;
}
