/** Names of export formats and of their column sets. */
const NAMES = {
  csv: "CSV",
  xlsx: "XLSX",
  excel_csv: "CSV for Excel",
  pdf: "PDF",
  json: "JSON",
  xero_csv: "Xero",
  quickbooks_csv: "QuickBooks",
  datev: "DATEV",
} as const;

export type Format = keyof typeof NAMES;
export const FORMATS = Object.entries(NAMES) as (readonly [Format, string])[];
/** Bookkeeping programs import movements in a currency, with their own columns. */
export const IMPORTED: readonly Format[] = ["xero_csv", "quickbooks_csv", "datev"];

export const nameOfFormat = (format: Format) => NAMES[format];

export const PROFILE_NAMES = {
  standard: "Short",
  accounting: "For accounting",
  books: "For bookkeeping: gross, fee, net",
} as const;
export type Profile = keyof typeof PROFILE_NAMES;
