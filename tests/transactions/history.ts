/** History rows as the indexer writes them, inserted directly: these tests are about reading. */
import { randomBytes } from "node:crypto";
import { newTransactionId } from "../../core/domain/ids.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { TransactionStatus, TransactionType } from "../../core/domain/payment.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { toByteaText } from "../../db/postgres/hex-bytes.ts";

export type GivenRow = {
  type?: TransactionType;
  status?: TransactionStatus;
  amountUnits?: bigint;
  network?: NetworkId;
  description?: string;
  counterparty?: Hex;
  txHash?: Hex | null;
  blockNumber?: bigint | null;
  detectedAt?: Date | string;
  linkId?: string | null;
};

/** Inserts rows in order and returns their ids in that order. */
export async function insertHistory(sql: Sql, userId: string, rows: readonly GivenRow[]): Promise<string[]> {
  const given = rows.map((row) => ({
    id: newTransactionId(),
    user_id: userId,
    network: row.network ?? "base-sepolia",
    type: row.type ?? "RECEIVE",
    status: row.status ?? "CONFIRMED",
    amount_units: (row.amountUnits ?? 1_000_000n).toString(),
    counterparty: toByteaText(row.counterparty ?? `0x${"ab".repeat(20)}`),
    description: row.description ?? "",
    tx_hash: row.txHash === null ? null : toByteaText(row.txHash ?? `0x${randomBytes(32).toString("hex")}`),
    log_index: 0,
    block_number: row.blockNumber === undefined ? "100" : (row.blockNumber?.toString() ?? null),
    link_id: row.linkId ?? null,
    detected_at:
      row.detectedAt instanceof Date
        ? row.detectedAt.toISOString()
        : (row.detectedAt ?? new Date().toISOString()),
  }));
  await sql`
    insert into transactions (
      id, owner, network, type, status, amount_units, counterparty, description, tx_hash, log_index, block_number,
      link_id, detected_at, confirmed_at
    )
    select
      id, owner_key(user_id), network, type, status, amount_units, counterparty, description, tx_hash, log_index, block_number,
      link_id, detected_at, case when status = 'CONFIRMED' then detected_at end
    from json_to_recordset(${JSON.stringify(given)}::text::json) as row (
      id text, user_id text, network text, type text, status text, amount_units numeric, counterparty bytea,
      description text, tx_hash bytea, log_index int, block_number bigint, link_id text, detected_at timestamptz
    )`;
  return given.map((row) => row.id);
}
