/** The contents of an export in any format: columns, cells, file name. Pure; the worker renders, the API serves. */
import type { DatevSettings } from "./datev-settings.ts";
import type { Valuation } from "./fiat.ts";
import { localTime } from "./local-time.ts";
import { formatUnits } from "./money.ts";
import type { TransactionStatus, TransactionType } from "./payment.ts";
import { directionOf, type HistoryRow, presentTransaction, type TransactionFilter } from "./transaction.ts";
import { unreachable } from "./unreachable.ts";

/** Stored formats; "text" is the plain-text report that a request for `pdf` gets by default, "pdf" the actual PDF. */
export const EXPORT_FORMATS = [
  ...(["csv", "json", "text", "pdf", "xlsx", "excel_csv"] as const),
  ...(["xero_csv", "quickbooks_csv", "datev", "camt053", "zip"] as const),
] as const;
/** Files of confirmed movements in a currency, which other programs import. */
export const IMPORT_FORMATS = ["xero_csv", "quickbooks_csv", "datev"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];
/** standard: the eight documented columns; accounting: these and more; books: confirmed movements in the form that bookkeeping programs import. */
export const EXPORT_PROFILES = ["standard", "accounting", "books"] as const;
export type ExportProfile = (typeof EXPORT_PROFILES)[number];

export const EXPORT_ROWS_MAX = 10_000;
export const EXPORTS_AT_ONCE_PER_USER = 2;

/** A history row with the fields of the accounting profile. */
export type ExportRow = HistoryRow & {
  walletAddress: string | null;
  /** The row's share, in wei, of the fee of its relay; null when we paid none. */
  feeWei: bigint | null;
  isFinalized: boolean;
  /** Of its link. */
  customerEmail: string | null;
  orderMetadata: Record<string, string> | null;
  kind: "PAYMENT" | "RECEIVE" | "SEND" | "REFUND" | "FEE";
  /** For a refund: the history row of the refunded transfer. */
  refundOf: string | null;
  /** Service fee of a send, on its first row; its own row has the kind FEE. Null for anything but our sends and refunds. */
  feeUnits: bigint | null;
};

/** A movement is identified by its place on the chain, not by our row. */
export function rowIdOf({ id, network, txHash, logIndex, type }: ExportRow): string {
  if (txHash === null || logIndex === null) return id;
  return `${network}:${txHash}:${logIndex}:${directionOf(type)}`;
}

export type ExportTotal = {
  type: TransactionType;
  status: TransactionStatus;
  /** Of test networks, whose USDC is no money. */
  isTest: boolean;
  count: number;
  units: bigint;
};

/** What is known before the first row is rendered. */
export type ExportSummary = {
  profile: ExportProfile;
  timeZone: string;
  /** Keys of links' metadata that become separate columns. */
  metadataColumns: readonly string[];
  /** From a saved profile: the columns in their order, and their titles. */
  columns: readonly { column: string; title: string }[] | undefined;
  /** Values of the movements in a currency; undefined: none was chosen. */
  valuation: Valuation | undefined;
  /** From the merchant's settings; undefined when the format needs none. */
  datev: DatevSettings | undefined;
  merchantName: string;
  generatedAt: Date;
  /** The filter in words, one condition per line. */
  filters: readonly string[];
  /** Rows in the file, and rows that matched the filter. */
  rows: number;
  matched: number;
  newest: Date | undefined;
  oldest: Date | undefined;
  totals: readonly ExportTotal[];
};

const STANDARD_COLUMNS = [
  "Date",
  "Type",
  "Amount",
  "Currency",
  "Status",
  "Network",
  "Description",
  "Transaction Hash",
] as const;
const ACCOUNTING_COLUMNS = [
  "Transaction ID",
  "Local Time",
  "Payer",
  "Payee",
  "Block",
  "Log Index",
  "Finality",
  "Network Fee (ETH)",
  "Payment Link ID",
  "Settled By",
  "Reference",
  "Customer E-mail",
  "Metadata",
  "kind",
  "refund_of",
  "fee_usdc",
] as const;

export function columnsOf(profile: ExportProfile): readonly string[] {
  return profile === "standard" ? STANDARD_COLUMNS : [...STANDARD_COLUMNS, ...ACCOUNTING_COLUMNS];
}

/** One row's cells in the order of `columnsOf`, not yet escaped for spreadsheets. */
export function cellsOf(
  row: ExportRow,
  { profile, timeZone }: Pick<ExportSummary, "profile" | "timeZone">,
): string[] {
  const cells = [
    row.detectedAt.toISOString(),
    row.type,
    formatUnits(row.amountUnits),
    "USDC",
    row.status,
    row.network,
    row.description,
    row.txHash ?? "",
  ];
  if (profile === "standard") return cells;
  const { payer, payee } = partiesOf(row);
  return [
    ...cells,
    row.id,
    localTime(row.detectedAt, timeZone),
    payer,
    payee,
    row.blockNumber?.toString() ?? "",
    row.logIndex?.toString() ?? "",
    finalityOf(row),
    row.feeWei === null ? "" : formatEther(row.feeWei),
    row.linkId ?? "",
    row.settledBy ?? "",
    row.reference ?? "",
    row.customerEmail ?? "",
    hasPairs(row.orderMetadata) ? JSON.stringify(row.orderMetadata) : "",
    row.kind,
    row.refundOf ?? "",
    row.feeUnits === null ? "" : formatUnits(row.feeUnits),
  ];
}

/** The shape of the transaction list; the accounting profile adds one object. */
export function exportedObject(
  row: ExportRow,
  { profile, timeZone }: Pick<ExportSummary, "profile" | "timeZone">,
) {
  const transaction = presentTransaction(row);
  if (profile === "standard") return transaction;
  return {
    ...transaction,
    accounting: {
      localTime: localTime(row.detectedAt, timeZone),
      timeZone,
      ...partiesOf(row),
      logIndex: row.logIndex,
      finality: finalityOf(row),
      networkFeeEth: row.feeWei === null ? null : formatEther(row.feeWei),
      paymentLinkId: row.linkId,
      settledBy: row.settledBy,
      reference: row.reference,
      customerEmail: row.customerEmail,
      metadata: row.orderMetadata ?? {},
      kind: row.kind,
      refundOf: row.refundOf,
      feeUsdc: row.feeUnits === null ? null : formatUnits(row.feeUnits),
    },
  };
}

function hasPairs(metadata: Record<string, string> | null): boolean {
  return metadata !== null && Object.keys(metadata).length > 0;
}

function partiesOf(row: ExportRow): { payer: string; payee: string } {
  const own = row.walletAddress ?? "";
  switch (directionOf(row.type)) {
    case "in":
      return { payer: row.counterparty, payee: own };
    case "out":
      return { payer: own, payee: row.counterparty };
  }
}

function finalityOf({ status, isFinalized }: ExportRow): string {
  switch (status) {
    case "CONFIRMED":
      return isFinalized ? "finalized" : "confirmed";
    case "DETECTED":
      return "in a block";
    case "PENDING":
      return "pending";
    case "FAILED":
      return "failed";
    case "ORPHANED":
      return "reorganised away";
    default:
      return unreachable(status);
  }
}

const ETHER_DECIMALS = 18;

function formatEther(wei: bigint): string {
  const text = wei.toString().padStart(ETHER_DECIMALS + 1, "0");
  const fraction = text.slice(-ETHER_DECIMALS).replace(/0+$/, "");
  return fraction === "" ? text.slice(0, -ETHER_DECIMALS) : `${text.slice(0, -ETHER_DECIMALS)}.${fraction}`;
}

/** A filter in words, one condition per line; its bounds in the time zone of the rows. */
export function describeFilter(filter: TransactionFilter, timeZone = "UTC"): string[] {
  const { types, statuses, networks, from, before, search, minUnits, maxUnits } = filter;
  const lines = [
    types.length > 0 && `type ${types.join(" or ")}`,
    statuses.length > 0 && `status ${statuses.join(" or ")}`,
    networks.length > 0 && `network ${networks.join(" or ")}`,
    from && `from ${plainInstant(from, timeZone)}`,
    before && `before ${plainInstant(before, timeZone)}`,
    minUnits !== undefined && `at least ${formatUnits(minUnits)} USDC`,
    maxUnits !== undefined && `at most ${formatUnits(maxUnits)} USDC`,
    search !== undefined && `containing "${search}"`,
  ];
  return lines.filter((line) => typeof line === "string");
}

/** "2026-03-29 00:00:00 UTC", "2026-03-29 00:00:00 +01:00"; a fraction only when it is not zero. */
function plainInstant(instant: Date, timeZone: string): string {
  const [whole = "", fraction = ""] = instant.toISOString().split(/(?=\.)/);
  const places = fraction === ".000Z" ? "" : fraction.slice(0, -1);
  // bounds of years that no row has
  const isPlain = timeZone === "UTC" || !(instant.getTime() > 0 && instant.getUTCFullYear() < 9999);
  const local = isPlain ? `${whole}UTC` : localTime(instant, timeZone);
  return `${local.slice(0, 19).replace("T", " ")}${places} ${local.slice(19)}`;
}

const FILES: Record<ExportFormat, { contentType: string; extension: string }> = {
  csv: { contentType: "text/csv; charset=utf-8", extension: "csv" },
  json: { contentType: "application/json; charset=utf-8", extension: "json" },
  text: { contentType: "text/plain; charset=utf-8", extension: "txt" },
  pdf: { contentType: "application/pdf", extension: "pdf" },
  xlsx: {
    contentType: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    extension: "xlsx",
  },
  excel_csv: { contentType: "text/csv; charset=utf-8", extension: "csv" },
  xero_csv: { contentType: "text/csv; charset=utf-8", extension: "csv" },
  quickbooks_csv: { contentType: "text/csv; charset=utf-8", extension: "csv" },
  datev: { contentType: "text/csv; charset=windows-1252", extension: "csv" },
  camt053: { contentType: "application/xml; charset=utf-8", extension: "xml" },
  zip: { contentType: "application/zip", extension: "zip" },
};

export function contentTypeOf(format: ExportFormat): string {
  return FILES[format].contentType;
}

/**
 * "transactions-2026-11-20.csv": contains no user data. DATEV imports files that begin with EXTF. `name`: of a statement, whose file says
 * of which wallet and period it is.
 */
export function fileNameOf(format: ExportFormat, createdAt: Date, name?: string): string {
  const what = format === "zip" ? "documents" : "transactions";
  const stem = name ?? `${what}-${createdAt.toISOString().slice(0, 10)}`;
  return `${format === "datev" ? "EXTF_" : ""}${stem}.${FILES[format].extension}`;
}
