/** SQL: when a payment was accepted, and whether we executed it. The caller adds `was_settled`. */
import type { AcceptanceFacts } from "../../core/domain/ledger-snapshot.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";

/** Columns of a query of `payments`; `txHashes`: the transactions that executed these authorizations. */
export function acceptanceColumns(
  tx: Tx,
  { network, txHashes }: { network: NetworkId; txHashes: readonly Hex[] },
) {
  return tx`
      payments.created_at as accepted_at,
      -- above the cursor: on a branch that was reorganised away (lock-payments.ts)
      case
        when accepted_block is not null then least(accepted_block, (select number from cursors where network = ${network}))
      end as accepted_block,
      array(
        select tx_hash
        from relay_attempts
        where tx_hash = any(${[...txHashes]}::text[])
      ) as relay_hashes,
      exists (
        select from transfers gone
        where gone.authorization_nonce = payments.nonce and gone.from_address = payments.payer
          and gone.network = payments.network and gone.status = 'ORPHANED' and gone.detected_at < payments.created_at
        offset 0
      ) as was_public`;
}

export type AcceptanceRow = Omit<AcceptanceFacts, "acceptedAtMs" | "acceptedBlock"> & {
  acceptedAt: Date;
  acceptedBlock: bigint | null;
};

export function toAcceptance<Row extends AcceptanceRow>({ acceptedAt, acceptedBlock, ...row }: Row) {
  return {
    ...row,
    acceptedAtMs: acceptedAt.getTime(),
    acceptedBlock: acceptedBlock === null ? undefined : Number(acceptedBlock),
  };
}
