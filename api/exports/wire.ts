/** The wire format of exports, and the responses to export requests: the file itself, or its download URL. */
import { z } from "zod";
import { contentTypeOf, EXPORT_FORMATS, EXPORT_PROFILES } from "../../core/domain/export.ts";
import { isDay } from "../../core/domain/local-days.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { TRANSACTION_STATUSES, TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import { type ExportRequest, readExportRequest } from "../../db/exports/exports.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, isoTime, success, successSchema } from "../http/envelope.ts";
import type { ResponseSet } from "../http/session-cookie.ts";
import { serveExport } from "./download.ts";
import { type Asked, requestExport } from "./request-export.ts";

export const mayExport = { allow: ["session", "apiKey"], scope: "exports", needs: "exports" } as const;
export const day = z.string().refine(isDay, "must be a day such as 2026-10-31");

const contentsSchema = z
  .object({
    kind: z.enum(["transactions", "statement", "documents"]),
    profile: z.enum(EXPORT_PROFILES),
    types: z.array(z.enum(TRANSACTION_TYPES)).describe("Empty: all"),
    statuses: z.array(z.enum(TRANSACTION_STATUSES)).describe("Empty: all"),
    networks: z.array(z.enum(NETWORK_IDS)).describe("Empty: all"),
    from: isoTime.nullable(),
    before: isoTime.nullable().describe("Exclusive"),
    timeZone: z.string().describe("In which `from` and `before` are days"),
    amountMin: z.string().nullable().describe("USDC"),
    amountMax: z.string().nullable().describe("USDC"),
    search: z.string().nullable(),
  })
  .meta({ id: "ExportContents" });
const exportSchema = z
  .object({
    id: z.string(),
    status: z.enum(["QUEUED", "RUNNING", "READY", "FAILED"]),
    format: z.enum(EXPORT_FORMATS),
    contents: contentsSchema.nullable().describe("What the file holds"),
    createdAt: isoTime,
    downloadUrl: z.string(),
    readyAt: isoTime.nullable(),
    expiresAt: isoTime,
    progress: z.object({ rowsDone: z.int(), rowsTotal: z.int().nullable() }),
    total: z.int().nullable().describe("Transactions that match the filter"),
    truncated: z.boolean(),
    byteSize: z.int().nullable(),
    refusal: z.string().nullable().describe("Why the file cannot be made"),
  })
  .meta({ id: "Export" });
export const one = successSchema(z.object({ export: exportSchema })).meta({ id: "ExportAnswer" });
export const many = successSchema(z.object({ exports: z.array(exportSchema) })).meta({ id: "ExportList" });
export const exportedFile = {
  200: {
    mediaTypes: EXPORT_FORMATS.map((format) => contentTypeOf(format).replace(/;.*/, "")),
    description:
      "The file, with its own content type. `X-Export-Total` is the number of transactions that match the filter",
  },
};
/** Responses of a route that creates a file. */
export const madeFile = {
  ...exportedFile,
  202: one,
  ...errorResponses(400, 401, 403, 409, 413, 429),
};

/** The file if it is ready in time and the client wants to wait; otherwise undefined, with the headers of a 202 set. */
export async function makeFile(
  deps: ApiDeps,
  set: ResponseSet,
  { prefer, ...asked }: Omit<Asked, "waitMs"> & { prefer: string | undefined },
): Promise<Response | ReturnType<typeof answerOne>> {
  const isAsync = prefersAsync(prefer);
  const file = await requestExport(deps, { ...asked, waitMs: isAsync ? 0 : deps.config.exportWaitMs });
  if (file.status === "READY") return serveExport(deps, set, file);
  if (isAsync) set.headers["preference-applied"] = "respond-async";
  set.headers.location = `/v1/transactions/exports/${file.id}`;
  set.headers["retry-after"] = "1";
  set.status = 202;
  return answerOne(deps, file, "The export is in progress");
}

/** RFC 7240 section 4.1. */
export function prefersAsync(prefer: string | undefined): boolean {
  return /(^|,)\s*respond-async\s*(,|;|$)/i.test(prefer ?? "");
}

export function answerOne(deps: ApiDeps, file: ExportFile, message: string) {
  return success({ export: presentExport(deps, file) }, message);
}

export function presentExport({ config }: ApiDeps, file: ExportFile): z.infer<typeof exportSchema> {
  const request = readExportRequest(file.request);
  return {
    id: file.id,
    status: file.status,
    format: file.format,
    contents: request ? presentContents(request) : null,
    createdAt: file.createdAt.toISOString(),
    downloadUrl: `${config.baseUrl}/v1/transactions/exports/${file.id}/download`,
    readyAt: file.readyAt?.toISOString() ?? null,
    expiresAt: file.expiresAt.toISOString(),
    progress: { rowsDone: file.rowsDone, rowsTotal: file.rowsTotal },
    total: file.rowsMatched === null ? null : Number(file.rowsMatched),
    truncated: file.truncated,
    byteSize: file.byteSize === null ? null : Number(file.byteSize),
    refusal: file.refusal,
  };
}

/** A statement or archive has its own period; its filter is not used. */
function presentContents({
  filter,
  profile,
  timeZone,
  statement,
  archive,
}: ExportRequest): z.infer<typeof contentsSchema> {
  const { from, before } = statement ?? archive ?? filter;
  return {
    kind: statement ? "statement" : archive ? "documents" : "transactions",
    profile,
    types: [...filter.types],
    statuses: [...filter.statuses],
    networks: statement ? [statement.network] : [...filter.networks],
    from: from?.toISOString() ?? null,
    before: before?.toISOString() ?? null,
    timeZone: isUtcDay(from) && isUtcDay(before) ? "UTC" : timeZone,
    amountMin: filter.minUnits === undefined ? null : formatUnits(filter.minUnits),
    amountMax: filter.maxUnits === undefined ? null : formatUnits(filter.maxUnits),
    search: filter.search ?? null,
  };
}

/** Days of a filter are UTC days; those of statements and scheduled files are in their own time zone. */
function isUtcDay(instant: Date | undefined): boolean {
  return instant === undefined || instant.getTime() % 86_400_000 === 0;
}
