/**
 * Saved exports: a name, a format of the books, columns in the merchant's order and with the merchant's titles, the currency, and which
 * movements. Pure.
 */
import { BOOKS_KEYS } from "./bookkeeping-rows.ts";
import { IMPORT_FORMATS } from "./export.ts";
import type { NetworkId } from "./networks.ts";
import { METADATA_KEY_MAX } from "./order-data.ts";
import type { TransactionType } from "./payment.ts";

/** Formats whose columns can be chosen. */
export const TABLE_FORMATS = ["csv", "excel_csv", "xlsx", "json"] as const;
export const PROFILE_FORMATS = [...TABLE_FORMATS, ...IMPORT_FORMATS] as const;
export const PROFILES_MAX = 50;
export const PROFILE_COLUMNS_MAX = 60;

export type ProfileColumn = { column: string; title: string };
export type ProfileDefinition = {
  format: (typeof PROFILE_FORMATS)[number];
  /** Null: all columns under their own titles. */
  columns: readonly ProfileColumn[] | null;
  /** Null: those of the books settings. */
  fiatCurrency: string | null;
  timeZone: string | null;
  /** Empty: all. */
  types: readonly TransactionType[];
  networks: readonly NetworkId[];
};

const METADATA = "metadata.";

/** Whether a column has that name: one of the books' columns, or `metadata.` followed by a key. */
export function isColumn(name: string): boolean {
  if (BOOKS_KEYS.includes(name)) return true;
  const key = name.slice(METADATA.length);
  return name.startsWith(METADATA) && key.length > 0 && key.length <= METADATA_KEY_MAX;
}

/** Keys of links' metadata that the columns refer to. */
export function metadataKeysOf(columns: readonly ProfileColumn[] | null): string[] {
  const named = (columns ?? []).map(({ column }) => column).filter((name) => name.startsWith(METADATA));
  return [...new Set(named.map((name) => name.slice(METADATA.length)))];
}
