/**
 * Which export requests are refused before they are queued. The worker refuses what can only be
 * seen from the rows (worker/exports/build-export.ts).
 */
import { z } from "zod";
import { invalid } from "../../core/domain/errors.ts";
import type { FiatChoice } from "../../core/domain/exchange-rate.ts";
import {
  EXPORT_PROFILES,
  type ExportFormat,
  type ExportProfile,
  IMPORT_FORMATS,
} from "../../core/domain/export.ts";
import { isTimeZone } from "../../core/domain/local-time.ts";
import { METADATA_KEY_MAX, METADATA_PAIRS_MAX } from "../../core/domain/order-data.ts";
import { PROOF_ROWS_MAX } from "../../core/domain/proven-export.ts";
import type { TransactionFilter } from "../../core/domain/transaction.ts";
import type { MerchantBooks } from "../../db/exports/schema.ts";
import { countChosen } from "../../db/transactions/transactions.ts";
import type { ApiDeps } from "../http/deps.ts";
import { userId } from "../http/own-user-id.ts";
import { bodyFilters, toFilter } from "../transactions/filter.ts";
import { fiatFields } from "./fiat-choice.ts";

/** Strict, because with a misspelt filter everything would be exported. */
export const exportBody = z
  .strictObject({
    userId: userId.optional().describe("Your own user id, if given"),
    format: z
      .enum(["csv", "json", "pdf", "xlsx", "excel_csv", ...IMPORT_FORMATS])
      .describe(
        "xero_csv, quickbooks_csv and datev hold values in a currency, rounded per row, with a final rounding row",
      ),
    profile: z
      .enum(EXPORT_PROFILES)
      .optional()
      .describe(
        "standard: eight columns; accounting: these and more; books: confirmed movements (beside a base wallet no test money) with gross, fee and net, oldest first, the only profile for other formats than csv, json and pdf",
      ),
    metadataColumns: z
      .array(z.string().min(1).max(METADATA_KEY_MAX))
      .max(METADATA_PAIRS_MAX)
      .refine((names) => new Set(names).size === names.length, "must not name a key twice")
      .optional()
      .describe("Metadata keys of links that become columns of the profile books"),
    timeZone: z
      .string()
      .max(64)
      .refine(isTimeZone, "must be an IANA time zone, for example Europe/Berlin")
      .default("UTC"),
    proof: z
      .boolean()
      .optional()
      .describe(
        `json only: adds a proof against its block's hash to each confirmed movement, for \`verify-export\`; an object instead of a list, ${PROOF_ROWS_MAX} movements at most, oldest first`,
      ),
    ...fiatFields,
    ...bodyFilters,
  })
  .meta({ id: "ExportRequest" });

/** Throws VALIDATION_ERROR for a format that the profile does not have. */
export function profileOf({
  format,
  profile,
  metadataColumns,
  fiatCurrency,
}: z.infer<typeof exportBody>): ExportProfile {
  const isImport = IMPORT_FORMATS.some((one) => one === format);
  const isSpreadsheet = isImport || format === "xlsx" || format === "excel_csv";
  const chosen = profile ?? (isSpreadsheet ? "books" : "standard");
  if (isSpreadsheet && chosen !== "books") throw invalid("profile", "must be books for this format");
  if (format === "pdf" && chosen === "books")
    throw invalid("format", "must not be pdf for the profile books: use POST /v1/statements for a document");
  if (metadataColumns && isImport) throw invalid("metadataColumns", "cannot be added to this format");
  if (metadataColumns && chosen !== "books")
    throw invalid("metadataColumns", "are columns of the profile books only");
  if (fiatCurrency && chosen !== "books")
    throw invalid("fiatCurrency", "adds columns to the profile books only");
  return chosen;
}

type ProofAsked = { format: string; profile: ExportProfile | undefined; filter: TransactionFilter };

/** Throws VALIDATION_ERROR for a file that cannot carry proofs. */
export async function refuseUnproven(
  { sql }: Pick<ApiDeps, "sql">,
  userId: string,
  { format, profile, filter }: ProofAsked,
): Promise<void> {
  if (format !== "json") throw invalid("proof", "is available for the format json only");
  if (profile !== undefined && profile !== "accounting")
    throw invalid("proof", "is available for the profile accounting only");
  const count = await countChosen(sql, userId, filter);
  if (count > PROOF_ROWS_MAX)
    throw invalid(
      "proof",
      `takes at most ${PROOF_ROWS_MAX} transactions, but ${count} match: narrow the filter`,
    );
}

/** Books contain only confirmed money. */
export function filterOf(body: z.infer<typeof exportBody>, profile: ExportProfile): TransactionFilter {
  const filter = toFilter(body);
  if (profile !== "books") return filter;
  if (filter.statuses.some((status) => status !== "CONFIRMED"))
    throw invalid("statuses", "can only be CONFIRMED in the profile books");
  return { ...filter, statuses: ["CONFIRMED"] };
}

/** Throws VALIDATION_ERROR when a merchant's settings lack what the format needs. */
export function refuseUnset(
  format: ExportFormat,
  { fiat, books }: { fiat: FiatChoice | undefined; books: MerchantBooks | undefined },
): void {
  if (!IMPORT_FORMATS.some((one) => one === format)) return;
  if (!fiat) throw invalid("fiatCurrency", "is required by this format, here or in your books settings");
  if (format === "datev" && !books?.datev)
    throw invalid("format", "needs the datev numbers in your books settings");
}
