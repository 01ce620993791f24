/**
 * A merchant's bookkeeping settings: what documents print about the merchant, the time zone in which months begin, and which are closed
 * automatically.
 */
import type { DatevSettings } from "../../core/domain/datev-settings.ts";
import type { UsdcRate } from "../../core/domain/exchange-rate.ts";
import type { Language } from "../../core/domain/language.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type MerchantBooks, merchantBooks } from "./schema.ts";

export async function findMerchantBooks(tx: Tx, userId: string): Promise<MerchantBooks | undefined> {
  const [row] = await tx<MerchantBooks[]>`
    select ${columnsOf(tx, merchantBooks)}
    from merchant_books
    where user_id = ${userId}`;
  return row;
}

export async function findDatevSettings(tx: Tx, userId: string): Promise<DatevSettings | undefined> {
  return (await findMerchantBooks(tx, userId))?.datev ?? undefined;
}

export type BooksChanges = {
  [Name in "legalName" | "postalAddress" | "taxId" | "fiatCurrency"]?: string | null | undefined;
} & {
  timeZone?: string | undefined;
  monthlyStatements?: boolean | undefined;
  rateSource?: string | undefined;
  usdcRate?: UsdcRate | undefined;
  documentLanguage?: Language | undefined;
  datev?: DatevSettings | null | undefined;
};

/** The settings, with their defaults if there were none; locked until the transaction ends. */
export async function lockMerchantBooks(tx: Tx, userId: string): Promise<MerchantBooks> {
  await tx`
    insert into merchant_books (user_id)
    values (${userId})
    on conflict (user_id) do nothing`;
  const [row] = await tx<MerchantBooks[]>`
    select ${columnsOf(tx, merchantBooks)}
    from merchant_books
    where user_id = ${userId}
    for update`;
  if (!row) throw new Error(`the books settings of ${userId} were not stored`);
  return row;
}

/** Of settings that lockMerchantBooks has locked. Omitted settings are unchanged. Monthly statements begin with the month in which they are switched on. */
export async function updateMerchantBooks(
  tx: Tx,
  userId: string,
  changes: BooksChanges,
): Promise<MerchantBooks> {
  const { legalName, postalAddress, taxId, timeZone, monthlyStatements } = changes;
  const { fiatCurrency, rateSource, usdcRate, documentLanguage, datev } = changes;
  const [row] = await tx<MerchantBooks[]>`
    update merchant_books
    set
      legal_name = ${legalName === undefined ? tx`legal_name` : legalName},
      postal_address = ${postalAddress === undefined ? tx`postal_address` : postalAddress},
      tax_id = ${taxId === undefined ? tx`tax_id` : taxId},
      fiat_currency = ${fiatCurrency === undefined ? tx`fiat_currency` : fiatCurrency},
      datev = ${datev === undefined ? tx`datev` : datev && tx`${JSON.stringify(datev)}::text::jsonb`},
      rate_source = coalesce(${rateSource ?? null}::text, rate_source),
      usdc_rate = coalesce(${usdcRate ?? null}::text, usdc_rate),
      document_language = coalesce(${documentLanguage ?? null}::text, document_language),
      time_zone = coalesce(${timeZone ?? null}::text, time_zone),
      monthly_since = case
        when ${monthlyStatements ?? null}::boolean and not monthly_statements then now()
        else monthly_since
      end,
      monthly_statements = coalesce(${monthlyStatements ?? null}::boolean, monthly_statements),
      updated_at = now()
    where user_id = ${userId}
    returning ${columnsOf(tx, merchantBooks)}`;
  if (!row) throw new Error(`the books settings of ${userId} were not stored`);
  return row;
}
