/** Reads an export from one snapshot: its sums by type and status first (`summarizeExport`), then its rows through a cursor, newest first. */
import { type SQL, sql } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import type { ExportRow, ExportTotal } from "../../core/domain/export.ts";
import { TEST_NETWORKS } from "../../core/domain/real-money.ts";
import type { TransactionFilter } from "../../core/domain/transaction.ts";
import { runBuilt, type Tx } from "../postgres/client.ts";
import { transactions } from "../schema.ts";
import { branchesOf, HISTORY_COLUMNS, mergeNewest, scanBranch } from "../transactions/filter.ts";

const dialect = new PgDialect();

type Selection = { userId: string; filter: TransactionFilter; limit: number };

/** Whether a row is of a test network. */
const IS_TEST = sql`network in (${sql.join(
  TEST_NETWORKS.map((id) => sql`${id}`),
  sql`, `,
)})`;

/** Sums of an export's rows by type and status, those of test networks apart, and their time span. */
export async function summarizeExport(
  tx: Tx,
  selection: Selection,
): Promise<(ExportTotal & { newest: Date; oldest: Date })[]> {
  const query = sql`
    select type, status, ${IS_TEST} as is_test, count(*)::int as count, sum(amount_units) as units, max(detected_at) as newest, min(detected_at) as oldest
    from (${chosen(selection)}) chosen
    group by type, status, is_test
    order by type, status, is_test`;
  return runBuilt(tx, { toSQL: () => dialect.sqlToQuery(query) });
}

const CURSOR = "export_rows";

const CHOSEN_COLUMNS = {
  ...HISTORY_COLUMNS,
  owner: transactions.owner,
  operationItemId: transactions.operationItemId,
};

/** With the same column types as the details, because a connection parses every cursor with the types of its first. */
const NO_DETAIL = {
  ...{ walletAddress: sql`null::text`, feeWei: sql`null::numeric`, isFinalized: sql`false` },
  ...{ customerEmail: sql`null::text`, orderMetadata: sql`null::jsonb` },
  ...{ kind: sql`null::text`, refundOf: sql`null::text`, feeUnits: sql`null::bigint` },
};

/** The kind of a row. */
const MOVEMENT_FIELDS = {
  kind: sql`case
    when starts_with(transactions.operation_id, 'rfd_') then 'REFUND'
    when exists (select from wallet_operation_items item where item.id = transactions.operation_item_id and item.is_fee) then 'FEE'
    when transactions.type = 'PAYMENT_LINK' then 'PAYMENT'
    else transactions.type
  end`,
  refundOf: sql`(
    select history.id
    from refunds refund
    join transfers paid
      on paid.network = refund.network
      and paid.tx_hash = bytes_of(refund.paid_tx_hash)
      and paid.log_index = refund.paid_log_index
      and paid.status <> 'ORPHANED'
    join transactions history on history.transfer_id = paid.id and history.type <> 'SEND'
    where refund.id = transactions.operation_id and history.owner = owner_key(refund.user_id)
    limit 1
  )`,
};

/** Looked up for every row, which is half the cost of reading it. `feeUnits` is the fee of the send it belongs to. */
const ACCOUNTING_FIELDS = {
  walletAddress: sql`(select hex_of(address) from wallets where wallets.user_id = user_of(transactions.owner) and wallets.network = transactions.network)`,
  feeWei: sql`(
    select trunc(relays.fee_wei / (
      select count(*)
      from relay_payments carried
      join payments sharing on sharing.id = any(carried.payment_ids) and sharing.relay_id = carried.relay_id
      where carried.relay_id = relays.id
    ))
    from payments
    join relays on relays.id = payments.relay_id
    where payments.id = transactions.payment_id and relays.tx_hash = hex_of(transactions.tx_hash)
  )`,
  isFinalized: sql`coalesce(
    transactions.block_number <= (select finalized_number from cursors where cursors.network = transactions.network),
    false
  )`,
  customerEmail: sql`(select customer_email from payment_links where payment_links.id = transactions.link_id)`,
  orderMetadata: sql`(select metadata from payment_links where payment_links.id = transactions.link_id)`,
  feeUnits: sql`(
    select coalesce(sum(fee.amount_units), 0)::bigint
    from wallet_operation_items item
    left join wallet_operation_items fee on fee.operation_id = item.operation_id and fee.is_fee
    where item.id = transactions.operation_item_id and item.position = 0 and not item.is_fee
    having count(item.id) > 0
  )`,
};

/** Newest first; in a report rows of test networks come last, and before them unconfirmed ones; a statement starts with the oldest. */
export type RowOrder = "newest" | "confirmed-first" | "oldest";
/** `movements`: for a statement, the kind of each and the payment that a refund returns; `accounting`: everything. */
export type RowDetail = "list" | "movements" | "accounting";
type Reading = { detail: RowDetail; order: RowOrder };

const ORDERS: Record<RowOrder, SQL> = {
  newest: sql`detected_at desc, id desc`,
  "confirmed-first": sql`${IS_TEST}, status <> 'CONFIRMED', detected_at desc, id desc`,
  // transfers of a block have the same time
  oldest: sql`detected_at, block_number, log_index, id`,
};

/** Opens a cursor over the rows of an export. It is closed when the transaction ends. */
export async function openExportCursor(
  tx: Tx,
  selection: Selection,
  { detail, order }: Reading,
): Promise<void> {
  const extra = {
    ...NO_DETAIL,
    ...(detail === "list" ? {} : MOVEMENT_FIELDS),
    ...(detail === "accounting" ? ACCOUNTING_FIELDS : {}),
  };
  const columns = Object.entries(extra).map(
    ([name, value]) => sql`${value} as ${sql.identifier(snake(name))}`,
  );
  const query = sql`
    declare ${sql.identifier(CURSOR)} no scroll cursor for
    select ${sql.join([...Object.values(CHOSEN_COLUMNS), ...columns], sql`, `)}
    from (${chosen(selection)}) transactions
    order by ${ORDERS[order]}`;
  await runBuilt(tx, { toSQL: () => dialect.sqlToQuery(query) });
}

/** The next rows; none at the end of the cursor. */
export async function fetchExportRows(tx: Tx, count: number): Promise<ExportRow[]> {
  return tx<ExportRow[]>`fetch forward ${tx.unsafe(String(count))} from ${tx(CURSOR)}`;
}

function chosen({ userId, filter, limit }: Selection): SQL {
  const scans = branchesOf(userId, filter).map((branch) => scanBranch(CHOSEN_COLUMNS, branch, limit));
  return mergeNewest(scans, { limit, offset: 0 });
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
