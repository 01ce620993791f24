/**
 * The rows that bookkeeping programs import: one per movement of money, even when fifty share a transaction, with an id that survives
 * reorganisations and rebuilds. Money in is positive and money out negative; the sum of `net` is the change of the wallet's balance.
 * Pure.
 */
import { type ExportRow, type ExportSummary, rowIdOf } from "./export.ts";
import type { Valuation } from "./fiat.ts";
import { localTime } from "./local-time.ts";
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

const FIAT_COLUMNS = [
  { key: "fiatCurrency", title: "Fiat Currency", kind: "text" },
  { key: "fiatValue", title: "Fiat Value", kind: "amount" },
  { key: "fiatRate", title: "Fiat Rate", kind: "decimal" },
  { key: "fiatRateDate", title: "Fiat Rate Date", kind: "date" },
  { key: "fiatRateSource", title: "Fiat Rate Source", kind: "text" },
] as const satisfies readonly BooksColumn[];

/** In their default order. */
export const BOOKS_COLUMNS: readonly BooksColumn[] = [...COLUMNS, ...FIAT_COLUMNS];
export const BOOKS_KEYS: readonly string[] = BOOKS_COLUMNS.map(({ key }) => key);

export type BooksChoice = Pick<ExportSummary, "timeZone" | "metadataColumns" | "valuation">;

/** The chosen columns, and a row's cells in that order; a column that this export does not have is blank. */
export function chosenBooks(
  choice: BooksChoice,
  chosen: readonly { column: string; title: string }[] | undefined,
): { columns: readonly BooksColumn[]; cellsOf: (row: ExportRow) => TableRow } {
  const all = booksColumns(choice);
  if (!chosen) return { columns: all, cellsOf: (row) => booksCells(row, choice) };
  const places = chosen.map(({ column }) => all.findIndex(({ key }) => key === column));
  return {
    columns: chosen.map(({ title }, index) => ({
      key: title,
      title,
      kind: all[places[index] ?? -1]?.kind ?? "text",
    })),
    cellsOf(row) {
      const cells = booksCells(row, choice);
      return places.map((place) => cells[place] ?? null);
    },
  };
}

/** If a currency is chosen, the columns of the value in it; blank where there is no rate. */
function booksColumns({ metadataColumns, valuation }: BooksChoice): readonly BooksColumn[] {
  const chosen = metadataColumns.map((name): BooksColumn => {
    const column = `metadata.${name}`;
    return { key: column, title: column, kind: "text" };
  });
  return [...COLUMNS, ...(valuation ? FIAT_COLUMNS : []), ...chosen];
}

/** In the order of `booksColumns`. A fee has its own row, so that nothing is counted twice. */
function booksCells(row: ExportRow, { timeZone, metadataColumns, valuation }: BooksChoice): TableRow {
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
    ...(valuation ? fiatCells(valuation, change, time.slice(0, 10)) : []),
    ...metadataColumns.map((name) => pairOf(row, name)),
  ];
}

/** Blank without such a key, also for the names of an object's own methods. */
function pairOf({ orderMetadata }: ExportRow, name: string): string {
  return orderMetadata && Object.hasOwn(orderMetadata, name) ? (orderMetadata[name] ?? "") : "";
}

/** The value of the movement, at the rate of its day in the file's time zone. */
function fiatCells(valuation: Valuation, change: bigint, day: string): TableRow {
  const value = valuation.valueOf(change, day);
  if (!value) return [valuation.currency, null, null, null, ""];
  return [valuation.currency, value.units, value.rate, value.rateDay, value.source];
}
