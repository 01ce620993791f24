/** Bank statements for import into Xero and QuickBooks Online. */

import {
  formatMinor,
  type ImportRow,
  importRow,
  newRounding,
  placesOf,
  roundingRow,
} from "../../../core/domain/bank-import-rows.ts";
import type { ExportRow, ExportSummary } from "../../../core/domain/export.ts";
import { encodeCsv } from "../encode-csv.ts";
import { neutralizeCell } from "../neutralize-formulas.ts";
import { type Batches, type Renderer, utf8 } from "../renderer.ts";
import { refuseTruncated } from "./refuse-truncated.ts";

const PLACES_MAX = 2;
type Layout = { titles: readonly string[]; cells: (row: ImportRow, amount: string) => readonly string[] };

/** Xero: day first. Its list of columns is Xero's own template. */
const XERO: Layout = {
  titles: ["*Date", "*Amount", "Payee", "Description", "Reference", "Check Number"],
  cells: (row, amount) => [
    ...[`${row.day.slice(8, 10)}/${row.day.slice(5, 7)}/${row.day.slice(0, 4)}`, amount],
    ...[row.counterparty, describe(row), row.reference, ""].map(neutralizeCell),
  ],
};
/** QuickBooks Online: its layout of three columns, month first. */
const QUICKBOOKS: Layout = {
  titles: ["Date", "Description", "Amount"],
  cells: (row, amount) => [
    `${row.day.slice(5, 7)}/${row.day.slice(8, 10)}/${row.day.slice(0, 4)}`,
    neutralizeCell([describe(row), row.reference].filter(Boolean).join(" · ")),
    amount,
  ],
};

export const renderXero: Renderer = (summary, batches) => renderBank(summary, batches, XERO);
export const renderQuickBooks: Renderer = (summary, batches) => renderBank(summary, batches, QUICKBOOKS);

async function* renderBank(
  summary: ExportSummary,
  batches: Batches,
  { titles, cells }: Layout,
): AsyncGenerator<Uint8Array> {
  refuseTruncated(summary);
  const places = placesOf(summary, PLACES_MAX);
  const rounding = newRounding();
  const toCells = (row: ImportRow) => cells(row, formatMinor(row.minorUnits, places));
  yield toCsv([titles]);
  for await (const rows of batches) yield toCsv(rows.flatMap(read).map(toCells));
  const last = roundingRow(rounding, places);
  if (last) yield toCsv([toCells(last)]);

  function read(row: ExportRow): ImportRow[] {
    const made = importRow(row, summary, { rounding, places });
    return made ? [made] : [];
  }
}

/** The exact amount and its place on the chain, in the description because importers keep no other field. */
function describe({ description, usdc, rate, place }: ImportRow): string {
  return usdc === "" ? description : `${description} · ${usdc} USDC at ${rate} · ${place}`;
}

function toCsv(records: readonly (readonly string[])[]): Uint8Array {
  return utf8(encodeCsv(records));
}
