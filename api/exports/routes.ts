/** Exports: request, wait, list, download. The worker renders them; every instance serves them from the database. */

import { Elysia } from "elysia";
import { z } from "zod";
import { conflict, invalid, notFound } from "../../core/domain/errors.ts";
import { fiatChoiceOf } from "../../core/domain/exchange-rate.ts";
import { EXPORT_PROFILES, type ExportProfile, IMPORT_FORMATS } from "../../core/domain/export.ts";
import { isTimeZone } from "../../core/domain/local-time.ts";
import { METADATA_KEY_MAX, METADATA_PAIRS_MAX } from "../../core/domain/order-data.ts";
import { PROOF_ROWS_MAX } from "../../core/domain/proven-export.ts";
import type { TransactionFilter } from "../../core/domain/transaction.ts";
import { findExport, listExports } from "../../db/exports/exports.ts";
import { findMerchantBooks } from "../../db/exports/merchant-books.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import { countChosen } from "../../db/transactions/transactions.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { documentedResponses } from "../http/documented-responses.ts";
import { errorResponses, errorSchema } from "../http/envelope.ts";
import { takesHeaders } from "../http/openapi-headers.ts";
import { bodyFilters, toFilter } from "../transactions/filter.ts";
import { serveExport } from "./download.ts";
import { fiatFields } from "./fiat-choice.ts";
import { refuseUnset } from "./refuse-unset.ts";
import {
  answerOne,
  exportedFile,
  madeFile,
  makeFile,
  many,
  one,
  prefersAsync,
  presentExport,
} from "./wire.ts";

const LIST_MAX = 100;
const EXPORT_ID = /^exp_[A-Za-z0-9_-]{22}$/;
const tags = ["Exports"];
const mayExport = { allow: ["session", "apiKey"], scope: "exports", needs: "exports" } as const;

const exportBody = z
  .object({
    format: z
      .enum(["csv", "json", "pdf", "xlsx", "excel_csv", ...IMPORT_FORMATS])
      .describe(
        "xero_csv, quickbooks_csv and datev hold values in a currency, rounded row by row, with a rounding row",
      ),
    profile: z
      .enum(EXPORT_PROFILES)
      .optional()
      .describe(
        "standard: eight columns, the default of csv, json and pdf; accounting: these and further ones; books: confirmed movements with gross, fee and net, oldest first, the only one of xlsx, excel_csv and the formats of other programs",
      ),
    metadataColumns: z
      .array(z.string().min(1).max(METADATA_KEY_MAX))
      .max(METADATA_PAIRS_MAX)
      .refine((names) => new Set(names).size === names.length, "must not name a key twice")
      .optional()
      .describe("Keys of links' metadata that become columns of the profile books"),
    timeZone: z
      .string()
      .max(64)
      .refine(isTimeZone, "must be an IANA time zone, for example Europe/Berlin")
      .default("UTC"),
    proof: z
      .boolean()
      .optional()
      .describe(
        `Only of json: each confirmed movement with what proves it by its block's hash, for \`verify-export\`; an object instead of a list, ${PROOF_ROWS_MAX} movements at most, oldest first`,
      ),
    ...fiatFields,
    ...bodyFilters,
  })
  .meta({ id: "ExportRequest" });

const params = z.object({ id: z.string().max(100) });

export const exportRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "export-routes" })
    .use(access(deps))
    .post(
      "/v1/transactions/export",
      async ({ body, user, headers, requestId, set }) => {
        const { format, timeZone, metadataColumns } = body;
        const profile = profileOf(body);
        const books = profile === "books" ? await findMerchantBooks(deps.sql, user.id) : undefined;
        const fiat = profile === "books" ? fiatChoiceOf(books, body) : undefined;
        refuseUnset(format, { fiat, books });
        const filter = filterOf(body, profile);
        if (body.proof) await refuseUnproven(deps, user.id, { format, profile: body.profile, filter });
        return makeFile(deps, set, {
          userId: user.id,
          requestId,
          format: format === "pdf" ? pdfFormat(headers) : format,
          request: { filter, profile, timeZone, metadataColumns, fiat, proof: body.proof },
          prefer: headers.prefer,
        });
      },
      {
        auth: { ...mayExport, limit: "exports" },
        body: exportBody,
        detail: {
          operationId: "exportTransactions",
          parameters: takesHeaders("Prefer"),
          summary: "Export transactions as a file",
          description:
            "Returns the file. With `Prefer: respond-async`, or when the export takes longer than the server waits, returns 202 and a download URL. `pdf` is a text report, or a PDF with `Accept: application/pdf`.",
          tags,
          responses: documentedResponses(madeFile),
        },
      },
    )
    .get(
      "/v1/transactions/exports",
      async ({ user }) => ({
        success: true as const,
        data: {
          exports: (await listExports(deps.sql, user.id, LIST_MAX)).map((file) => presentExport(deps, file)),
        },
        message: "Exports retrieved",
      }),
      {
        auth: mayExport,
        response: { 200: many, ...errorResponses(401, 403, 429) },
        detail: {
          operationId: "listExports",
          summary: `Your newest ${LIST_MAX} exports of the last 7 days`,
          tags,
        },
      },
    )
    .get(
      "/v1/transactions/exports/:id",
      async ({ params, user }) =>
        answerOne(deps, await getExport(deps, params.id, user.id), "Export retrieved"),
      {
        auth: mayExport,
        params,
        response: { 200: one, ...errorResponses(401, 403, 404, 429) },
        detail: { operationId: "getExport", summary: "Progress of an export", tags },
      },
    )
    .get(
      "/v1/transactions/exports/:id/download",
      async ({ params, user, set }) => {
        const file = await getExport(deps, params.id, user.id);
        if (file.status !== "READY")
          throw conflict(`This export is ${file.status}`, { field: "id", issue: file.status });
        return serveExport(deps, set, file);
      },
      {
        auth: mayExport,
        params,
        detail: {
          operationId: "downloadExport",
          summary: "Download an export's file",
          tags,
          responses: documentedResponses({
            ...exportedFile,
            401: errorSchema,
            403: errorSchema,
            404: errorSchema,
            409: errorSchema,
            429: errorSchema,
          }),
        },
      },
    );

/** Throws VALIDATION_ERROR for a format that the profile does not have. */
function profileOf({
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
    throw invalid("format", "must not be pdf for the profile books: POST /v1/statements makes a document");
  if (metadataColumns && isImport) throw invalid("metadataColumns", "cannot be added to this format");
  if (metadataColumns && chosen !== "books")
    throw invalid("metadataColumns", "are columns of the profile books alone");
  if (fiatCurrency && chosen !== "books")
    throw invalid("fiatCurrency", "adds columns to the profile books alone");
  return chosen;
}

type ProofAsked = { format: string; profile: ExportProfile | undefined; filter: TransactionFilter };

/** Throws VALIDATION_ERROR for a file that cannot carry proofs. */
async function refuseUnproven(
  { sql }: Pick<ApiDeps, "sql">,
  userId: string,
  { format, profile, filter }: ProofAsked,
): Promise<void> {
  if (format !== "json") throw invalid("proof", "is of the format json alone");
  if (profile !== undefined && profile !== "accounting")
    throw invalid("proof", "is of the profile accounting alone");
  const count = await countChosen(sql, userId, filter);
  if (count > PROOF_ROWS_MAX)
    throw invalid(
      "proof",
      `takes at most ${PROOF_ROWS_MAX} transactions, these are ${count}: narrow the filter`,
    );
}

/** Books hold confirmed money alone. */
function filterOf(body: z.infer<typeof exportBody>, profile: ExportProfile): TransactionFilter {
  const filter = toFilter(body);
  if (profile !== "books") return filter;
  if (filter.statuses.some((status) => status !== "CONFIRMED"))
    throw invalid("statuses", "can be CONFIRMED alone in the profile books");
  return { ...filter, statuses: ["CONFIRMED"] };
}

/** The two meanings of `pdf`: a text report, unless a PDF is accepted explicitly or will be downloaded later. */
function pdfFormat(headers: Record<string, string | undefined>): "pdf" | "text" {
  const wantsPdf = /\bapplication\/pdf\b/i.test(headers.accept ?? "");
  return wantsPdf || prefersAsync(headers.prefer) ? "pdf" : "text";
}

async function getExport(deps: ApiDeps, id: string, userId: string): Promise<ExportFile> {
  const file = EXPORT_ID.test(id) ? await findExport(deps.sql, { id, userId }) : undefined;
  if (!file) throw notFound("Export");
  return file;
}
