/** Exports: request, wait, list, download. The worker renders them; every instance serves them from the database. */

import { Elysia } from "elysia";
import { z } from "zod";
import { conflict, notFound } from "../../core/domain/errors.ts";
import { fiatChoiceOf } from "../../core/domain/exchange-rate.ts";
import { EXPORT_ID } from "../../core/domain/ids.ts";
import { findExport, listExports } from "../../db/exports/exports.ts";
import { findMerchantBooks } from "../../db/exports/merchant-books.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { documentedResponses } from "../http/documented-responses.ts";
import { errorResponses, success } from "../http/envelope.ts";
import { takesHeaders } from "../http/openapi-headers.ts";
import { refuseOtherUser } from "../http/own-user-id.ts";
import { exportBody, filterOf, profileOf, refuseUnproven, refuseUnset } from "./check-export-request.ts";
import { serveExport } from "./download.ts";
import {
  answerOne,
  exportedFile,
  madeFile,
  makeFile,
  many,
  mayExport,
  one,
  prefersAsync,
  presentExport,
} from "./wire.ts";

const LIST_MAX = 100;
const tags = ["Exports"];

const params = z.object({ id: z.string().max(100) });

export const exportRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "export-routes" })
    .use(access(deps))
    .post(
      "/v1/transactions/export",
      async ({ body, user, headers, requestId, set }) => {
        const { format, timeZone, metadataColumns } = body;
        refuseOtherUser(user.id, body.userId);
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
        auth: { ...mayExport, limit: "exports", waits: true },
        body: exportBody,
        detail: {
          operationId: "exportTransactions",
          parameters: takesHeaders("Prefer"),
          summary: "Export transactions as a file",
          description:
            "Returns the file. With `Prefer: respond-async`, or when it takes long, 202 and a download URL. `pdf` is a plain-text report, or a PDF with `Accept: application/pdf`.",
          tags,
          responses: documentedResponses(madeFile),
        },
      },
    )
    .get(
      "/v1/transactions/exports",
      async ({ user }) =>
        success(
          {
            exports: (await listExports(deps.sql, user.id, LIST_MAX)).map((file) =>
              presentExport(deps, file),
            ),
          },
          "Exports retrieved",
        ),
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
            ...errorResponses(401, 403, 404, 409, 429),
          }),
        },
      },
    );

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
