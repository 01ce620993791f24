/** A table of typed cells, which each file format renders natively: an amount as a number, a date as a date. Pure. */
import { formatUnits } from "./money.ts";

export type ColumnKind =
  | "text"
  /** Micro-USDC. */
  | "amount"
  /** "2026-03-29" of the document's time zone. */
  | "date"
  /** "03:30:00" of the document's time zone. */
  | "time"
  | "integer"
  /** A decimal number as text, with as many decimal places as needed. */
  | "decimal";
export type TableColumn = { title: string; kind: ColumnKind };
export type TableCell = string | bigint | null;
export type TableRow = readonly TableCell[];
export type Table = { columns: readonly TableColumn[]; rows: readonly TableRow[] };

/** A cell as plain text: amounts with six decimal places and a decimal point. */
export function cellText(cell: TableCell | undefined, kind: ColumnKind): string {
  if (cell === null || cell === undefined) return "";
  if (typeof cell === "string") return cell;
  return kind === "amount" ? formatUnits(cell) : cell.toString();
}
