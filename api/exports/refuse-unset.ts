/** What a format for another program needs of a merchant's settings. */
import { invalid } from "../../core/domain/errors.ts";
import type { FiatChoice } from "../../core/domain/exchange-rate.ts";
import { type ExportFormat, IMPORT_FORMATS } from "../../core/domain/export.ts";
import type { MerchantBooks } from "../../db/exports/schema.ts";

/** Throws VALIDATION_ERROR where it is missing. */
export function refuseUnset(
  format: ExportFormat,
  { fiat, books }: { fiat: FiatChoice | undefined; books: MerchantBooks | undefined },
): void {
  if (!IMPORT_FORMATS.some((one) => one === format)) return;
  if (!fiat) throw invalid("fiatCurrency", "is required by this format, here or in your books settings");
  if (format === "datev" && !books?.datev)
    throw invalid("format", "needs the numbers of datev in your books settings");
}
