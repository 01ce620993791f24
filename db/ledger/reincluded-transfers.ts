/**
 * What was decided about a transfer before its block was reorganised away. Users were given the result, and links of the same amount may have
 * been created, paid or released since, so it is not matched by amount a second time (core/domain/attribute-transfers.ts).
 */
import { placeKey } from "../../core/domain/attribute-transfers.ts";
import type { AttributableTransfer, FirstVerdict } from "../../core/domain/ledger-snapshot.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import type { SettledBy } from "../../core/domain/settled-by.ts";
import type { Tx } from "../postgres/client.ts";
import { byLikeness, type OrphanedTransfer } from "./reorganised-assignments.ts";

/**
 * The first of each transfer that was seen before. `transfers`: of each transaction all that one recipient received, except for those that are
 * stored already: of equal ones these were first here too, so they have the first of their verdicts.
 */
export async function findFirstVerdicts(
  tx: Tx,
  network: NetworkId,
  transfers: readonly AttributableTransfer[],
): Promise<FirstVerdict[]> {
  const hashes = [...new Set(transfers.map(({ txHash }) => txHash))];
  const nonces = transfers.flatMap(({ authorizationNonce }) => authorizationNonce ?? []);
  // equal ones are numbered in one pass: with ten thousand in a block it would take too long if each counted the others
  const rows = await tx<Row[]>`
    select
      tx_hash, log_index, from_address as from, to_address as to, amount_units, authorization_nonce, link_id, settled_by,
      alike_before, status = 'ORPHANED' as is_orphaned
    from (
      select
        id, tx_hash, log_index, from_address, to_address, amount_units, authorization_nonce, link_id, settled_by, status,
        (row_number() over (
          partition by tx_hash, block_hash, from_address, to_address, amount_units, authorization_nonce
          order by log_index
        ) - 1)::int as alike_before
      from transfers
      where (tx_hash = any(${hashes}::bytea[]) or authorization_nonce = any(${nonces}::bytea[]))
        and network = ${network}
    ) seen
    order by id`;
  const given = new Set(transfers.map(placeKey));
  const stored = rows
    .filter((row) => !row.isOrphaned && !given.has(placeKey(row)))
    .map(({ authorizationNonce, ...row }) => ({
      ...row,
      authorizationNonce: authorizationNonce ?? undefined,
    }));
  const findReturned = byLikeness([...stored, ...transfers]);
  const first = new Map<string, FirstVerdict>();
  for (const gone of rows.filter(({ isOrphaned }) => isOrphaned)) {
    const back = findReturned(gone);
    const place = back && placeKey(back);
    if (!place || !given.has(place) || first.has(place)) continue;
    const { linkId, settledBy } = gone;
    const { txHash, logIndex } = back;
    first.set(place, {
      ...{ txHash, logIndex, linkId: linkId ?? undefined, settledBy: settledBy ?? undefined },
    });
  }
  return [...first.values()];
}

type Row = OrphanedTransfer & { linkId: string | null; settledBy: SettledBy | null; isOrphaned: boolean };
