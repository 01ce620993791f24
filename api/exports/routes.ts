/** Exports: request, wait, list, download. The worker renders them; every instance serves them from the database. */
import { Elysia } from "elysia";
import { z } from "zod";
import { conflict, notFound } from "../../core/domain/errors.ts";
import { contentTypeOf, EXPORT_FORMATS, EXPORT_PROFILES, isTimeZone } from "../../core/domain/export.ts";
import { findExport, listExports } from "../../db/exports/exports.ts";
import type { ExportFile } from "../../db/schema.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { documentedResponses } from "../http/documented-responses.ts";
import { errorResponses, errorSchema, isoTime } from "../http/envelope.ts";
import { bodyFilters, toFilter } from "../transactions/filter.ts";
import { serveExport } from "./download.ts";
import { requestExport } from "./request-export.ts";

const LIST_MAX = 100;
const EXPORT_ID = /^exp_[A-Za-z0-9_-]{22}$/;
const tags = ["Exports"];
const mayExport = { allow: ["session", "apiKey"], scope: "exports", needs: "exports" } as const;

const exportBody = z.object({
  format: z.enum(["csv", "json", "pdf"]),
  profile: z.enum(EXPORT_PROFILES).default("standard"),
  timeZone: z
    .string()
    .max(64)
    .refine(isTimeZone, "must be an IANA time zone, for example Europe/Berlin")
    .default("UTC"),
  ...bodyFilters,
});

const exportSchema = z.object({
  id: z.string(),
  status: z.enum(["QUEUED", "RUNNING", "READY", "FAILED"]),
  format: z.enum(EXPORT_FORMATS),
  createdAt: isoTime,
  downloadUrl: z.string(),
  readyAt: isoTime.nullable(),
  expiresAt: isoTime,
  progress: z.object({ rowsDone: z.int(), rowsTotal: z.int().nullable() }),
  total: z
    .int()
    .nullable()
    .describe("Transactions that match the filter; more than rowsTotal when truncated"),
  truncated: z.boolean(),
  byteSize: z.int().nullable(),
});
const one = z.object({
  success: z.literal(true),
  data: z.object({ export: exportSchema }),
  message: z.string(),
});
const many = z.object({
  success: z.literal(true),
  data: z.object({ exports: z.array(exportSchema) }),
  message: z.string(),
});
const exportedFile = {
  200: {
    mediaTypes: EXPORT_FORMATS.map((format) => contentTypeOf(format).replace(/;.*/, "")),
    description:
      "The file, in its own type. `X-Export-Total` is the number of transactions that match the filter",
  },
};
const params = z.object({ id: z.string().max(100) });

export const exportRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "export-routes" })
    .use(access(deps))
    .post(
      "/v1/transactions/export",
      async ({ body, user, headers, requestId, set, status }) => {
        const { format, profile, timeZone } = body;
        const file = await requestExport(deps, {
          userId: user.id,
          requestId,
          format: format === "pdf" ? pdfFormat(headers) : format,
          request: { filter: toFilter(body), profile, timeZone },
          waitMs: prefersAsync(headers.prefer) ? 0 : deps.config.exportWaitMs,
        });
        if (file.status === "READY") return serveExport(deps, set, file);
        if (prefersAsync(headers.prefer)) set.headers["preference-applied"] = "respond-async";
        set.headers.location = `/v1/transactions/exports/${file.id}`;
        set.headers["retry-after"] = "1";
        return status(202, answerOne(deps, file, "The export is in progress"));
      },
      {
        auth: { ...mayExport, limit: "exports" },
        body: exportBody,
        detail: {
          summary: "Export transactions as a file",
          description:
            "Returns the file. With `Prefer: respond-async`, or when the export takes longer than the server waits, returns 202 and a download URL. `pdf` is a text report, or a PDF with `Accept: application/pdf`.",
          tags,
          responses: documentedResponses({
            ...exportedFile,
            202: one,
            400: errorSchema,
            401: errorSchema,
            403: errorSchema,
            413: errorSchema,
            429: errorSchema,
          }),
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
        detail: { summary: `Your newest ${LIST_MAX} exports of the last 7 days`, tags },
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
        detail: { summary: "Progress of an export", tags },
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

/** The two meanings of `pdf`: a text report, unless a PDF is accepted explicitly or will be downloaded later. */
function pdfFormat(headers: Record<string, string | undefined>): "pdf" | "text" {
  const wantsPdf = /\bapplication\/pdf\b/i.test(headers.accept ?? "");
  return wantsPdf || prefersAsync(headers.prefer) ? "pdf" : "text";
}

/** RFC 7240 section 4.1. */
function prefersAsync(prefer: string | undefined): boolean {
  return /(^|,)\s*respond-async\s*(,|;|$)/i.test(prefer ?? "");
}

async function getExport(deps: ApiDeps, id: string, userId: string): Promise<ExportFile> {
  const file = EXPORT_ID.test(id) ? await findExport(deps.sql, { id, userId }) : undefined;
  if (!file) throw notFound("Export");
  return file;
}

function answerOne(deps: ApiDeps, file: ExportFile, message: string) {
  return { success: true as const, data: { export: presentExport(deps, file) }, message };
}

function presentExport({ config }: ApiDeps, file: ExportFile): z.infer<typeof exportSchema> {
  return {
    id: file.id,
    status: file.status,
    format: file.format,
    createdAt: file.createdAt.toISOString(),
    downloadUrl: `${config.baseUrl}/v1/transactions/exports/${file.id}/download`,
    readyAt: file.readyAt?.toISOString() ?? null,
    expiresAt: file.expiresAt.toISOString(),
    progress: { rowsDone: file.rowsDone, rowsTotal: file.rowsTotal },
    total: file.rowsMatched === null ? null : Number(file.rowsMatched),
    truncated: file.truncated,
    byteSize: file.byteSize === null ? null : Number(file.byteSize),
  };
}
