/** Effects of a proven claim on a transfer attributed to another link by inference. */
import type { Hex } from "../../core/domain/networks.ts";
import { recordEvents } from "../events/events.ts";
import type { Tx } from "../postgres/client.ts";
import { lockLinks } from "./lock-links.ts";

/** Which of these links are PENDING; locked. */
export async function findPendingLinks(tx: Tx, linkIds: readonly string[]): Promise<string[]> {
  if (linkIds.length === 0) return [];
  await lockLinks(tx, linkIds);
  const rows = await tx<{ id: string }[]>`
    select id
    from payment_links
    where id = any(${[...linkIds]}::text[]) and status = 'PENDING'`;
  return rows.map(({ id }) => id);
}

/** MATCHED -> EXPIRED for the claims of links that lost this transaction's transfer to a proof. */
export async function releaseMatchedClaims(
  tx: Tx,
  lost: readonly { linkId: string; txHash: Hex }[],
): Promise<void> {
  if (lost.length === 0) return;
  await tx`
    update claims
    set state = 'EXPIRED', reason = 'counted_elsewhere', updated_at = now()
    from unnest(
      ${lost.map(({ linkId }) => linkId)}::text[],
      ${lost.map(({ txHash }) => txHash)}::text[]
    ) as given (link_id, tx_hash)
    where claims.link_id = given.link_id and claims.tx_hash = given.tx_hash and claims.state = 'MATCHED'`;
}

/** OPEN -> DISPUTED: the proof came after another link was PAID. The merchant is notified by an event and may move the transfer. */
export async function disputeTransfers(
  tx: Tx,
  disputes: readonly { transferId: bigint; claimId: string | undefined; claimedLinkId: string }[],
): Promise<void> {
  for (const { transferId, claimId, claimedLinkId } of disputes) {
    if (claimId === undefined) continue;
    const closed = await tx`
      update claims
      set state = 'DISPUTED', reason = 'counted_elsewhere', updated_at = now()
      where id = ${claimId} and state = 'OPEN'
      returning id`;
    if (closed.length === 0) continue;
    await tx`delete from transactions where claim_id = ${claimId} and transfer_id is null`;
    const [row] = await tx<{ id: string; userId: string; txHash: Hex; linkId: string | null }[]>`
      select id, user_of(owner) as user_id, tx_hash, link_id
      from transactions
      where transfer_id = ${transferId.toString()}::bigint and type <> 'SEND'`;
    if (!row) continue;
    const data = { txHash: row.txHash, linkId: row.linkId, claimedLinkId };
    await recordEvents(tx, [{ userId: row.userId, type: "transaction.disputed", subjectId: row.id, data }]);
  }
}
