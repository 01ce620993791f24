/** What databases of the version before the baseline have in `migrations`. */
import { openDatabase } from "../../db/postgres/client.ts";
import { migrate } from "../../db/postgres/migrate.ts";
import { createEmptyDatabase, type TestDatabase } from "./postgres.ts";

const NUMBERED = `
  0060_wallet_operations 0061_refunds 0062_owner_changes 0063_wallet_changes 0064_recovery 0065_refund_requests
  0066_send_budgets 0067_members 0068_reconciled_nonces 0069_restored_operations 0070_order_data 0071_receipt_mails
  0072_reusable_links 0073_embedding 0074_page_looks 0075_links_of_customer 0078_discoverable_challenges
  0079_discoverable_links 0080_indexer_leaders 0081_incremental_reconciliation 0082_indexer_pace 0083_hot_payments
  0084_bytes 0085_room_for_payments 0086_webhook_test 0087_traces 0088_statements 0089_spreadsheets 0090_reconciled_sums
  0091_first_start 0092_transaction_sums 0093_processes 0094_exchange_rates 0095_import_formats 0096_drain_leases
  0097_export_profiles 0098_link_exceptions 0099_export_schedules 0100_documents 0101_document_archives
  0102_wide_amount_counts 0104_event_notifications 0105_reopened_relays 0106_event_epoch_once 0108_cheaper_rows
  0114_payer_language 0117_paused_schedules 0118_identity_addresses 0119_claim_language 0120_unlinked_issuers
  0121_documents_of_each_kind 0122_test_documents 0123_test_document_numbers 0124_narrower_list_reads
  0126_events_without_order_data 0128_event_readers 0129_monitor_leases 0130_narrow_document_indexes
  0131_narrow_list_indexes 0132_shorter_difference_keys 0133_shorter_history_indexes 0134_fewer_locked_rows
  0135_room_in_pages 0136_pending_without_rows 0137_payments_in_their_pages 0140_open_links_by_time 0141_counted_links
  0142_narrower_entries 0144_described_transactions 0154_number_parts 0155_numbered_transactions
  0156_document_bytes 0157_link_bytes 0158_shorter_payments 0159_history_owner`;

/** In the order they were applied. */
export const REPLACED = [
  "baseline",
  ...NUMBERED.trim()
    .split(/\s+/)
    .map((name) => `${name}.sql`),
];

/** A database with the baseline's schema and these names: as the version before has made it, when they are all of its own. */
export async function createReplacedDatabase(names: readonly string[] = REPLACED): Promise<TestDatabase> {
  const db = await createEmptyDatabase();
  await migrate(db.url, { only: [] });
  const sql = openDatabase(db.url, { name: "test", maxConnections: 1 });
  await sql.begin(async (tx) => {
    await tx`delete from migrations`;
    await tx`insert into migrations (name, sha256) select name, 'x' from unnest(${[...names]}::text[]) as given (name)`;
  });
  await sql.end({ timeout: 5 });
  return db;
}
