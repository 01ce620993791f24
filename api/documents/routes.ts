/** Numbered receipts and credit notes: the merchant's list, each as JSON or PDF, and the same for everyone who has its id. */

import { Elysia } from "elysia";
import { z } from "zod";
import { invalid, notFound } from "../../core/domain/errors.ts";
import { DOCUMENT_ID } from "../../core/domain/ids.ts";
import { LANGUAGE_TAGS } from "../../core/domain/language.ts";
import { isMonth, periodOfMonth } from "../../core/domain/local-days.ts";
import { ARCHIVE_DOCUMENTS_MAX, DOCUMENT_KINDS } from "../../core/domain/numbered-document.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { findDocument, listDocuments, type ShownDocument } from "../../db/documents/documents.ts";
import { countDocuments } from "../../db/documents/month-documents.ts";
import { findMerchantBooks } from "../../db/exports/merchant-books.ts";
import { madeFile, makeFile } from "../exports/wire.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { documentedResponses } from "../http/documented-responses.ts";
import { errorResponses } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { pageLimit, pageOf } from "../http/list-pages.ts";
import { knownQuery } from "../http/query.ts";
import { documentSchema, presentDocument } from "./present-document.ts";
import { sendPdf } from "./send-pdf.ts";

const tags = ["Receipts"];
const mayRead = {
  allow: ["session", "apiKey"],
  scope: "transactions:read",
  needs: "transactions:read",
} as const;

const listQuery = knownQuery({
  limit: pageLimit(20),
  cursor: z.string().min(1).max(200).optional(),
  kind: z.enum(DOCUMENT_KINDS).optional(),
  status: z.enum(["VALID", "VOID"]).optional(),
  linkId: z.string().max(100).optional(),
  month: z
    .string()
    .refine(isMonth, "must be a month such as 2026-10")
    .optional()
    .describe("Of the payment or refund, in the time zone of your books"),
});
const listAnswer = z
  .object({ documents: z.array(documentSchema), nextCursor: z.string().nullable() })
  .meta({ id: "DocumentList" });
const archiveBody = z.strictObject({
  month: z
    .string()
    .refine(isMonth, "must be a month such as 2026-10")
    .describe("Of the payment or refund, in the time zone of your books"),
  language: z
    .enum(LANGUAGE_TAGS)
    .optional()
    .describe("The language of every document; default: the language each was issued in"),
});
const params = z.object({ id: z.string().max(100) });
const oneQuery = z.object({
  format: z.enum(["json", "pdf"]).optional().describe("Overrides the Accept header"),
  lang: z
    .string()
    .max(40)
    .optional()
    .describe("The language of the PDF; default: the language it was issued in"),
});
type OneQuery = z.infer<typeof oneQuery>;
const description = "JSON, or a PDF with `Accept: application/pdf` or `?format=pdf`";
const one = { mediaTypes: ["application/pdf"], description: "The document", json: documentSchema };

export const documentRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "document-routes" })
    .use(access(deps))
    .use(jsonBody)
    .post(
      "/v1/documents/archive",
      async ({ body, user, headers, requestId, set }) => {
        const books = await findMerchantBooks(deps.sql, user.id);
        const timeZone = books?.timeZone ?? "UTC";
        const period = periodOfMonth(body.month, timeZone);
        if (period.from.getTime() >= Date.now()) throw invalid("month", "must have begun");
        const count = await countDocuments(
          deps.sql,
          { userId: user.id, ...period },
          ARCHIVE_DOCUMENTS_MAX + 1,
        );
        if (count > ARCHIVE_DOCUMENTS_MAX)
          throw invalid(
            "month",
            `has more than ${ARCHIVE_DOCUMENTS_MAX} documents, the maximum of an archive`,
          );
        return makeFile(deps, set, {
          userId: user.id,
          requestId,
          format: "zip",
          prefer: headers.prefer,
          request: {
            filter: NO_FILTER,
            profile: "accounting",
            timeZone,
            archive: { ...period, language: body.language },
          },
        });
      },
      {
        auth: {
          allow: ["session", "apiKey"],
          scope: "exports",
          needs: "exports",
          limit: "exports",
          waits: true,
        },
        body: archiveBody,
        detail: {
          operationId: "createDocumentArchive",
          summary: "All documents of a month as a ZIP file",
          description: `Every receipt and credit note as a PDF, including void ones, and an index (documents.csv); at most ${ARCHIVE_DOCUMENTS_MAX} documents. An export: poll and download it like those of \`/v1/transactions/exports\`.`,
          tags,
          responses: documentedResponses(madeFile),
        },
      },
    )
    .get("/v1/documents", ({ query, user }) => answerList(deps, user.id, query), {
      auth: mayRead,
      query: listQuery,
      response: { 200: listAnswer, ...errorResponses(400, 401, 403, 429) },
      detail: {
        operationId: "listDocuments",
        summary: "Your receipts and credit notes, newest payment or refund first",
        description:
          "A receipt or credit note is issued shortly after its payment or refund is CONFIRMED. A reorganisation voids the document; its number is not reused.",
        tags,
      },
    })
    .get(
      "/v1/documents/:id",
      async ({ params, query, request, user }) => {
        const document = await getDocument(deps, { id: params.id, userId: user.id });
        return answer(deps, document, request, query);
      },
      {
        auth: mayRead,
        params,
        query: oneQuery,
        detail: {
          operationId: "getDocument",
          summary: "A receipt or credit note",
          description,
          tags,
          responses: documentedResponses({
            200: one,
            ...errorResponses(400, 401, 403, 404, 429),
          }),
        },
      },
    )
    .get(
      "/api/v1/public/documents/:id",
      async ({ params, query, request }) =>
        answer(deps, await getDocument(deps, { id: params.id }), request, query),
      {
        limit: "publicLinkData",
        params,
        query: oneQuery,
        detail: {
          operationId: "getPublicDocument",
          summary: "A receipt or credit note, for anyone who has its id",
          description,
          tags,
          responses: documentedResponses({ 200: one, ...errorResponses(400, 404, 429) }),
        },
      },
    );

async function answerList(
  deps: ApiDeps,
  userId: string,
  { limit, cursor, kind, status, linkId, month }: z.infer<typeof listQuery>,
): Promise<z.infer<typeof listAnswer>> {
  if (cursor !== undefined && !DOCUMENT_ID.test(cursor))
    throw invalid("cursor", "is not a cursor of this list");
  const books = month === undefined ? undefined : await findMerchantBooks(deps.sql, userId);
  const period = month === undefined ? undefined : periodOfMonth(month, books?.timeZone ?? "UTC");
  const isVoid = status === undefined ? undefined : status === "VOID";
  const filter = { userId, kind, isVoid, linkId, period, after: cursor };
  const found = await listDocuments(deps.sql, filter, limit + 1);
  // after a document that is not the merchant's there is none, which a reader would take for the end of the list
  if (found.length === 0 && cursor !== undefined && !(await findDocument(deps.sql, { id: cursor, userId })))
    throw invalid("cursor", "is not a cursor of this list");
  const { rows, nextCursor } = pageOf(found, limit, ({ id }) => id);
  return { documents: rows.map((document) => presentDocument(document, deps)), nextCursor };
}

async function getDocument(
  { sql }: Pick<ApiDeps, "sql">,
  place: { id: string; userId?: string },
): Promise<ShownDocument> {
  const document = DOCUMENT_ID.test(place.id) ? await findDocument(sql, place) : undefined;
  if (!document) throw notFound("Document");
  return document;
}

async function answer(
  deps: ApiDeps,
  document: ShownDocument,
  request: Request,
  { format, lang }: OneQuery,
): Promise<Response> {
  const accept = request.headers.get("accept") ?? "";
  if (format === "pdf" || (format === undefined && /\bapplication\/pdf\b/i.test(accept)))
    return sendPdf(deps, document, { asked: lang, request });
  return Response.json(presentDocument(document, deps), {
    headers: { "cache-control": "no-store", vary: "accept" },
  });
}
