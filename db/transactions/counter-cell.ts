/**
 * The counter cell of a row of the history, by type, status and network. It repeats `transaction_cell` of db/schema/transactions.sql, so
 * that a statement holds a number instead of a call that Postgres plans for each cell.
 */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { TransactionStatus, TransactionType } from "../../core/domain/payment.ts";

export type CellKey = { type: TransactionType; status: TransactionStatus; network: NetworkId };

const OF_TYPE = { SEND: 0, RECEIVE: 1000, PAYMENT_LINK: 2000 } satisfies Record<TransactionType, number>;
const OF_STATUS = { PENDING: 0, DETECTED: 100, CONFIRMED: 200, FAILED: 300, ORPHANED: 400 } satisfies Record<
  TransactionStatus,
  number
>;
const OF_NETWORK = { base: 1, "base-sepolia": 2 } satisfies Record<NetworkId, number>;

/** A row's type, status and network, as the indexes hold them. */
export function counterCell({ type, status, network }: CellKey): number {
  return OF_TYPE[type] + OF_STATUS[status] + OF_NETWORK[network];
}
