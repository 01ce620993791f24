/** Statements: sums before and in a period, balances recorded when a period closed, and the monthly statements that were made. */
import type { ExportRow } from "../../core/domain/export.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { LedgerEnd } from "../../core/domain/period-end.ts";
import { directionOf, NO_FILTER } from "../../core/domain/transaction.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import type { Wallet } from "../schema.ts";
import { sumTransactions } from "../transactions/summary.ts";
import { type ClosingBalance, closingBalances, type MerchantBooks, type MonthlyStatement } from "./schema.ts";

export type StatementPeriod = { userId: string; network: NetworkId; from: Date; before: Date };

/**
 * The balance of a wallet when a period begins: its balance when the ledger began, plus every confirmed movement since, from
 * the daily counters, so that the cost does not grow with the history. Use a repeatable read transaction.
 */
export async function sumOpening(tx: Tx, { userId, network, from }: StatementPeriod): Promise<bigint> {
  const [wallet] = await tx<{ openingUnits: bigint }[]>`
    select opening_units from wallets where user_id = ${userId} and network = ${network}`;
  const filter = { ...NO_FILTER, statuses: ["CONFIRMED"] as const, networks: [network], before: from };
  const sums = await sumTransactions(tx, userId, filter);
  return sums.reduce(
    (total, { type, units }) => (directionOf(type) === "in" ? total + units : total - units),
    wallet?.openingUnits ?? 0n,
  );
}

function isConfirmedMovement(tx: Tx, { userId, network }: Pick<StatementPeriod, "userId" | "network">) {
  return tx`
    owner = owner_key(${userId})
    and cell in (
      transaction_cell('SEND', 'CONFIRMED', ${network}),
      transaction_cell('RECEIVE', 'CONFIRMED', ${network}),
      transaction_cell('PAYMENT_LINK', 'CONFIRMED', ${network})
    )
    and is_settled`;
}

export type KindTotal = { kind: ExportRow["kind"]; count: number; units: bigint };

/** Movements of a period by kind. */
export async function sumMovements(
  tx: Tx,
  { userId, network, from, before }: StatementPeriod,
): Promise<KindTotal[]> {
  return tx<KindTotal[]>`
    select kind, count(*)::int as count, sum(amount_units)::numeric(78, 0) as units
    from (
      select
        case
          when starts_with(operation_id, 'rfd_') then 'REFUND'
          when exists (
            select from wallet_operation_items item where item.id = transactions.operation_item_id and item.is_fee
          ) then 'FEE'
          when type = 'PAYMENT_LINK' then 'PAYMENT'
          else type
        end as kind,
        amount_units
      from transactions
      where ${isConfirmedMovement(tx, { userId, network })}
        and detected_at >= ${from}
        and detected_at < ${before}
    ) movements
    group by kind
    order by kind`;
}

export async function findClosingBalance(
  tx: Tx,
  walletId: string,
  endsAt: Date,
): Promise<ClosingBalance | undefined> {
  const [row] = await tx<ClosingBalance[]>`
    select ${columnsOf(tx, closingBalances)}
    from closing_balances
    where wallet_id = ${walletId} and ends_at = ${endsAt}`;
  return row;
}

/** Keeps the newest reading, since an earlier one may be from a block that was reorganised away. */
export async function recordClosingBalance(
  tx: Tx,
  balance: Omit<ClosingBalance, "recordedAt" | "blockHash"> & { blockHash: Hex },
): Promise<void> {
  await tx`
    insert into closing_balances (wallet_id, ends_at, block_number, block_hash, block_time, balance_units)
    values (
      ${balance.walletId}, ${balance.endsAt}, ${balance.blockNumber}, ${balance.blockHash}, ${balance.blockTime},
      ${balance.balanceUnits}
    )
    on conflict (wallet_id, ends_at) do update
    set
      block_number = excluded.block_number, block_hash = excluded.block_hash, block_time = excluded.block_time,
      balance_units = excluded.balance_units, recorded_at = now()`;
}

export type MonthlyWallet = Pick<Wallet, "id" | "userId" | "network" | "address" | "createdAt"> &
  Pick<MerchantBooks, "timeZone"> & { monthlySince: Date };

/** Wallets whose merchants want monthly statements, in the order of their ids after `afterId`. */
export async function listMonthlyWallets(tx: Tx, afterId: string, limit: number): Promise<MonthlyWallet[]> {
  return tx<MonthlyWallet[]>`
    select wallet.id, wallet.user_id, wallet.network, wallet.address, wallet.created_at, books.time_zone, books.monthly_since
    from merchant_books books
    join wallets wallet on wallet.user_id = books.user_id
    where books.monthly_statements and wallet.id > ${afterId}
    order by wallet.id
    limit ${limit}`;
}

/** The newest month of the wallet that has a statement. */
export async function findLastStatementMonth(tx: Tx, walletId: string): Promise<string | undefined> {
  const [row] = await tx<{ month: string }[]>`
    select month
    from monthly_statements
    where wallet_id = ${walletId}
    order by month desc
    limit 1`;
  return row?.month;
}

/** Where the month's statement ends; undefined when there is none, or its file was deleted. */
export async function findStatementEnd(tx: Tx, walletId: string, month: string): Promise<Date | undefined> {
  const [row] = await tx<{ before: Date | null }[]>`
    select (export.request #>> '{statement,before}')::timestamptz as before
    from monthly_statements made
    join exports export on export.id = made.csv_export_id
    where made.wallet_id = ${walletId} and made.month = ${month}`;
  return row?.before ?? undefined;
}

/** False when the month's statement already exists. */
export async function insertMonthlyStatement(
  tx: Tx,
  made: Pick<MonthlyStatement, "walletId" | "userId" | "month">,
): Promise<boolean> {
  const rows = await tx`
    insert into monthly_statements (wallet_id, user_id, month)
    values (${made.walletId}, ${made.userId}, ${made.month})
    on conflict (wallet_id, month) do nothing
    returning month`;
  return rows.length > 0;
}

export async function setStatementFiles(
  tx: Tx,
  { walletId, month }: Pick<MonthlyStatement, "walletId" | "month">,
  files: { pdfExportId: string; csvExportId: string },
): Promise<void> {
  await tx`
    update monthly_statements
    set pdf_export_id = ${files.pdfExportId}, csv_export_id = ${files.csvExportId}
    where wallet_id = ${walletId} and month = ${month}`;
}

export type ListedStatement = Pick<
  MonthlyStatement,
  "month" | "createdAt" | "pdfExportId" | "csvExportId"
> & {
  network: NetworkId;
  status: "IN_PROGRESS" | "READY" | "FAILED";
  refusal: string | null;
  /** Whether a file that failed will be retried; see `retryFailedFiles`. */
  willRetry: boolean;
};

/** One file FAILED, and none is still in progress. `pdf` and `csv` are the month's exports. */
function hasFailed(tx: Tx) {
  return tx`
    'FAILED' in (pdf.status, csv.status)
    and coalesce(pdf.status not in ('QUEUED', 'RUNNING'), true)
    and coalesce(csv.status not in ('QUEUED', 'RUNNING'), true)`;
}

/** Newest first. A file that FAILED has no id. */
export async function listMonthlyStatements(
  tx: Tx,
  userId: string,
  limit: number,
): Promise<ListedStatement[]> {
  return tx<ListedStatement[]>`
    select
      statement.month, wallet.network, statement.created_at,
      case when pdf.status <> 'FAILED' then pdf.id end as pdf_export_id,
      case when csv.status <> 'FAILED' then csv.id end as csv_export_id,
      case
        when pdf.status = 'READY' and csv.status = 'READY' then 'READY'
        when ${hasFailed(tx)} then 'FAILED'
        else 'IN_PROGRESS'
      end as status,
      coalesce(pdf.refusal, csv.refusal) as refusal,
      statement.announced_at is null and coalesce(pdf.refusal, csv.refusal) is null as will_retry
    from monthly_statements statement
    join wallets wallet on wallet.id = statement.wallet_id
    left join exports pdf on pdf.id = statement.pdf_export_id
    left join exports csv on csv.id = statement.csv_export_id
    where statement.user_id = ${userId}
    order by statement.month desc, wallet.network
    limit ${limit}`;
}

/** Marks statements whose files are ready as announced; the caller writes their e-mails in the same transaction. */
export async function takeReadyStatements(
  tx: Tx,
  limit: number,
): Promise<(Pick<MonthlyStatement, "userId" | "month"> & { network: NetworkId })[]> {
  return tx<(Pick<MonthlyStatement, "userId" | "month"> & { network: NetworkId })[]>`
    update monthly_statements statement
    set announced_at = now()
    from wallets wallet
    where wallet.id = statement.wallet_id
      and statement.announced_at is null
      and (statement.wallet_id, statement.month) in (
        select waiting.wallet_id, waiting.month
        from monthly_statements waiting
        join exports pdf on pdf.id = waiting.pdf_export_id and pdf.status = 'READY'
        join exports csv on csv.id = waiting.csv_export_id and csv.status = 'READY'
        where waiting.announced_at is null
        order by waiting.created_at
        limit ${limit}
        for update of waiting skip locked
      )
    returning statement.user_id, statement.month, wallet.network`;
}

export type FailedStatement = Pick<MonthlyStatement, "userId" | "month"> & {
  network: NetworkId;
  refusal: string | null;
  /** None of its files will be retried. */
  isOver: boolean;
  noticeKey: string;
};

/**
 * Statements whose failure is still to be announced with a notice of `noticeKey`, which the caller writes in the same transaction. Those that
 * are not retried, because a file was refused or `retryDays` have passed, are marked as announced; a later success announces the others.
 */
export async function takeFailedStatements(
  tx: Tx,
  { limit, retryDays }: { limit: number; retryDays: number },
): Promise<FailedStatement[]> {
  return tx<FailedStatement[]>`
    with chosen as (
      select
        waiting.wallet_id, waiting.user_id, waiting.month, wallet.network, coalesce(pdf.refusal, csv.refusal) as refusal,
        outcome.is_over, outcome.notice_key
      from monthly_statements waiting
      join wallets wallet on wallet.id = waiting.wallet_id
      left join exports pdf on pdf.id = waiting.pdf_export_id
      left join exports csv on csv.id = waiting.csv_export_id
      cross join lateral (
        select
          (
            coalesce(pdf.refusal, csv.refusal) is not null
            or waiting.created_at <= now() - make_interval(days => ${retryDays}::int)
          ) as is_over,
          'statement-failed:' || wallet.network || ':' || waiting.month as notice_key
      ) outcome
      where waiting.announced_at is null
        and ${hasFailed(tx)}
        and (
          outcome.is_over
          or not exists (
            select from notices
            where notices.user_id = waiting.user_id and notices.key = outcome.notice_key
          )
        )
      order by waiting.created_at
      limit ${limit}
      for update of waiting skip locked
    ),
    ended as (
      update monthly_statements statement
      set announced_at = now()
      from chosen
      where chosen.is_over and statement.wallet_id = chosen.wallet_id and statement.month = chosen.month
    )
    select user_id, month, network, refusal, is_over, notice_key
    from chosen`;
}

/**
 * FAILED -> QUEUED, for the caller to queue their jobs: files of statements not announced yet that failed for a transient reason. Each is
 * retried `firstH` hours after its last attempt began, then after twice as long each time, at most `mostH`.
 */
export async function retryFailedFiles(
  tx: Tx,
  { limit, attempts, firstH, mostH }: { limit: number; attempts: number; firstH: number; mostH: number },
): Promise<{ id: string }[]> {
  return tx<{ id: string }[]>`
    update exports
    set status = 'QUEUED'
    where id in (
        select file.id
        from monthly_statements waiting
        join exports file on file.id in (waiting.pdf_export_id, waiting.csv_export_id)
        where waiting.announced_at is null
          and file.status = 'FAILED'
          and file.started_at <= now()
            - make_interval(hours => least(${mostH}::int, ${firstH}::int * 2 ^ least(file.attempts - ${attempts}::int, 10))::int)
          and not exists (
            select from exports refused
            where refused.id in (waiting.pdf_export_id, waiting.csv_export_id) and refused.refusal is not null
          )
        order by file.started_at
        limit ${limit}
        for update of file skip locked
      )
      and status = 'FAILED'
    returning id`;
}

/**
 * How far the ledger of a wallet is confirmed: `number` is the newest block read, and blocks before `recheckedBefore` were read a second time,
 * perhaps from another node. It is not complete (`isWhole`) before the wallet's earlier blocks were read and its first balance is known.
 * Undefined when the network is not followed.
 */
export async function findLedgerEnd(
  tx: Tx,
  { userId, network, confirmations }: { userId: string; network: NetworkId; confirmations: number },
): Promise<(LedgerEnd & { number: number }) | undefined> {
  type Row = Omit<LedgerEnd, "confirmedBefore"> & { number: bigint; confirmedBefore: Date | null };
  const [row] = await tx<Row[]>`
    select
      cursors.number,
      (
        select block_time + interval '1 second'
        from blocks
        where blocks.network = cursors.network and blocks.number <= cursors.rechecked_number
        order by blocks.number desc
        limit 1
      ) as rechecked_before,
      exists (
        select from wallets
        where user_id = ${userId}
          and wallets.network = cursors.network
          and backfilled_at is not null
          and opening_units is not null
      ) as is_whole,
      least(
        (
          select block_time + interval '1 second'
          from blocks
          where blocks.network = cursors.network and blocks.number <= cursors.number - ${confirmations}::int
          order by blocks.number desc
          limit 1
        ),
        (
          select min(detected_at)
          from transactions
          where owner = owner_key(${userId})
            and cell in (
              transaction_cell('SEND', 'DETECTED', ${network}),
              transaction_cell('RECEIVE', 'DETECTED', ${network}),
              transaction_cell('PAYMENT_LINK', 'DETECTED', ${network})
            )
            and is_settled
        )
      ) as confirmed_before
    from cursors
    where network = ${network}`;
  if (!row?.confirmedBefore) return undefined;
  const { number, confirmedBefore, ...rest } = row;
  return { ...rest, number: Number(number), confirmedBefore };
}
