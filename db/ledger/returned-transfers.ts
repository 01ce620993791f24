/**
 * What was decided about a transfer before a reorganisation took its block away. People were given the result, and links of the same amount may have
 * been created, paid or freed since: its amount is not asked a second time (core/domain/attribute-transfers.ts).
 */
import type { AttributableTransfer, FirstVerdict } from "../../core/domain/ledger-snapshot.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { SettledBy } from "../../core/domain/settled-by.ts";
import type { Tx } from "../postgres/client.ts";
import { countAlikeBefore } from "../wallet-ops/moved-refunds.ts";
import { findReturned, type OrphanedTransfer } from "./moved-assignments.ts";

/** The first of each transfer that was seen before. `transfers`: of each transaction all that one recipient received. */
export async function findFirstVerdicts(
  tx: Tx,
  network: NetworkId,
  transfers: readonly AttributableTransfer[],
): Promise<FirstVerdict[]> {
  const hashes = [...new Set(transfers.map(({ txHash }) => txHash))];
  const nonces = transfers.flatMap(({ authorizationNonce }) => authorizationNonce ?? []);
  const orphaned = await tx<(OrphanedTransfer & { linkId: string | null; settledBy: SettledBy | null })[]>`
    select
      tx_hash, log_index, from_address as from, to_address as to, amount_units, authorization_nonce, link_id, settled_by,
      ${countAlikeBefore(tx, "gone")}::int as alike_before
    from transfers gone
    where (tx_hash = any(${hashes}::bytea[]) or authorization_nonce = any(${nonces}::bytea[]))
      and network = ${network}
      and status = 'ORPHANED'
    order by id`;
  const first = new Map<AttributableTransfer, FirstVerdict>();
  for (const gone of orphaned) {
    const back = findReturned(gone, transfers);
    if (!back || first.has(back)) continue;
    const { linkId, settledBy } = gone;
    const { txHash, logIndex } = back;
    first.set(back, {
      ...{ txHash, logIndex, linkId: linkId ?? undefined, settledBy: settledBy ?? undefined },
    });
  }
  return [...first.values()];
}
