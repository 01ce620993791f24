/**
 * Rows as bookkeeping imports them: one for each movement of money, also where fifty share a transaction, with an id that stays the same after a
 * reorganisation or a rebuild. Money in is positive and money out negative; the sum of `net` is what the wallet gained. Pure.
 */
import { type ExportRow, localTime, rowIdOf } from "./export.ts";
import { changeOf, detailsOf } from "./statement.ts";
import type { TableColumn, TableRow } from "./table.ts";

type BooksColumn = TableColumn & { key: string };

const COLUMNS = [
  { key: "rowId", title: "Row ID", kind: "text" },
  { key: "date", title: "Date", kind: "date" },
  { key: "time", title: "Time", kind: "time" },
  { key: "timeZone", title: "Time Zone", kind: "text" },
  { key: "kind", title: "Kind", kind: "text" },
  { key: "gross", title: "Gross", kind: "amount" },
  { key: "fee", title: "Fee", kind: "amount" },
  { key: "net", title: "Net", kind: "amount" },
  { key: "currency", title: "Currency", kind: "text" },
  { key: "description", title: "Description", kind: "text" },
  { key: "reference", title: "Reference", kind: "text" },
  { key: "customer", title: "Customer", kind: "text" },
  { key: "counterparty", title: "Counterparty", kind: "text" },
  { key: "wallet", title: "Wallet", kind: "text" },
  { key: "network", title: "Network", kind: "text" },
  { key: "transactionHash", title: "Transaction Hash", kind: "text" },
  { key: "block", title: "Block", kind: "integer" },
  { key: "logIndex", title: "Log Index", kind: "integer" },
  { key: "linkId", title: "Payment Link ID", kind: "text" },
  { key: "paymentId", title: "Payment ID", kind: "text" },
  { key: "operationId", title: "Send or Refund ID", kind: "text" },
  { key: "refundOf", title: "Refund Of", kind: "text" },
  { key: "settledBy", title: "Settled By", kind: "text" },
  { key: "transactionId", title: "Transaction ID", kind: "text" },
] as const satisfies readonly BooksColumn[];

export type BooksChoice = { timeZone: string; metadataColumns: readonly string[] };

export function booksColumns({ metadataColumns }: BooksChoice): readonly BooksColumn[] {
  const chosen = metadataColumns.map((name): BooksColumn => {
    const column = `metadata.${name}`;
    return { key: column, title: column, kind: "text" };
  });
  return [...COLUMNS, ...chosen];
}

/** In the order of `booksColumns`. A fee is a row of its own, so that nothing is counted twice. */
export function booksCells(row: ExportRow, { timeZone, metadataColumns }: BooksChoice): TableRow {
  const time = localTime(row.detectedAt, timeZone);
  const change = changeOf(row);
  const isFee = row.kind === "FEE";
  return [
    rowIdOf(row),
    time.slice(0, 10),
    time.slice(11, 19),
    timeZone,
    row.kind,
    isFee ? 0n : change,
    isFee ? -change : 0n,
    change,
    "USDC",
    detailsOf(row),
    row.reference ?? "",
    row.customerEmail ?? "",
    row.counterparty,
    row.walletAddress ?? "",
    row.network,
    row.txHash ?? "",
    row.blockNumber,
    row.logIndex === null ? null : BigInt(row.logIndex),
    row.linkId ?? "",
    row.paymentId ?? "",
    row.operationId ?? "",
    row.refundOf ?? "",
    row.settledBy ?? "",
    row.id,
    ...metadataColumns.map((name) => row.orderMetadata?.[name] ?? ""),
  ];
}
