/** Links that are paid and refunded as the ledger holds it, put there directly, and their documents. */
import { newRefundId, newTransactionId } from "../../core/domain/ids.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { refreshDocuments } from "../../db/documents/issue-documents.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { openHistory } from "../../db/wallet-ops/operations.ts";
import { type BookedTransfer, bookTransfer } from "../support/book-transfer.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { type OperationLab, randomHash } from "../support/operation-lab.ts";
import { randomAddress, type SeededMerchant } from "../support/seed.ts";
import { insertHistory } from "../transactions/history.ts";

type Books = { lab: OperationLab; sql: Sql; merchant: SeededMerchant; link: string };

/** `books`: as they are when a test uses them; `link` is meant where none is named. */
export function bookDocuments(books: () => Books) {
  const set = (table: string, where: object, given: object) => {
    const [[column = "", value = ""] = []] = Object.entries(where) as [string, string][];
    const { sql } = books();
    return sql`update ${sql(table)} set ${sql(given)} where ${sql(column)} = ${value}`;
  };

  /** A PAID link with the transfer that pays it and the merchant's history row; returns the transfer's hash. */
  async function paid(linkId = books().link, given: BookedTransfer = {}): Promise<Hex> {
    const { sql, merchant } = books();
    const txHash = given.txHash ?? randomHash();
    await bookTransfer({ sql, merchant }, { link: linkId, pays: true, txHash, ...given });
    await sql`update payment_links set status = 'PAID', paid_at = now() where id = ${linkId}`;
    const [row = ""] = await insertHistory(sql, merchant.userId, [{ type: "PAYMENT_LINK", linkId }]);
    await sql`
      update transactions set transfer_id = (select id from transfers where tx_hash = ${txHash}) where id = ${row}`;
    return txHash;
  }

  /** A CONFIRMED refund of a transfer, with the transfer that moved it. */
  async function refunded(paidTxHash: Hex, linkId = books().link) {
    const { lab, sql, merchant } = books();
    const [id, txHash] = [newRefundId(new Date()), randomHash()];
    const item = { to: randomAddress(), amountUnits: 5n, note: "", isFee: false };
    const given = { kind: "REFUND", userId: merchant.userId, walletId: merchant.walletId } as const;
    const { userOpHash } = await lab.makeOperation(undefined, 0n, {
      id,
      ...given,
      items: [item, { ...item, isFee: true }],
    });
    await sql`
      insert into refunds (
        id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units
      )
      values (${id}, ${merchant.userId}, ${linkId}, ${NETWORK}, ${paidTxHash}, 1, ${item.to}, 'given', 5)`;
    const made = { id, ...given, address: merchant.address, userOpHash };
    const rows = [newTransactionId(), newTransactionId()];
    await openHistory(sql, made, { ids: rows, linkId, description: null, note: null });
    await bookTransfer({ sql, merchant }, { txHash, from: merchant.address, to: item.to, units: 5n });
    await sql`update transfers set log_index = 2 where tx_hash = ${txHash}`;
    await bookTransfer({ sql, merchant }, { txHash, from: merchant.address, to: item.to, units: 5n });
    await set("transfers", { tx_hash: txHash }, { block_hash: randomHash() });
    for (const [place, row] of rows.entries())
      await sql`
        update transactions
        set
          status = 'CONFIRMED', detected_at = now(),
          transfer_id = (select id from transfers where tx_hash = ${txHash} and log_index = ${2 - place})
        where id = ${row}`;
    await sql`
      update wallet_operations
      set state = 'CONFIRMED', tx_hash = ${txHash}, log_index = 9, block_number = 99, succeeded = true
      where id = ${id}`;
    return { id, txHash };
  }

  const issue = (...links: string[]) => books().sql.begin((tx) => refreshDocuments(tx, links));
  return { set, paid, refunded, issue };
}
