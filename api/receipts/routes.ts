/** Receipts of paid links, for the merchant and for everyone who has the link: JSON, a page, or a PDF. */

import { Elysia } from "elysia";
import { z } from "zod";
import { conflict, notFound, ServiceError } from "../../core/domain/errors.ts";
import { LINK_ID } from "../../core/domain/ids.ts";
import { documentNumber } from "../../core/domain/numbered-document.ts";
import type { Receipt } from "../../core/domain/receipt.ts";
import { defaultMerchantName } from "../../core/domain/user.ts";
import { listCreditNotes } from "../../db/documents/documents.ts";
import { findLink, findPublicLink } from "../../db/links/links.ts";
import { findReceipt, type ReceiptPlace } from "../../db/links/receipts.ts";
import { findNumberedReceipt } from "../documents/numbered-receipt.ts";
import { presentCreditNote } from "../documents/present-document.ts";
import { sendPdf } from "../documents/send-pdf.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { documentedResponses } from "../http/documented-responses.ts";
import { errorResponses } from "../http/envelope.ts";
import { takeFromCallersLimit } from "../http/rate-limits.ts";
import { type Branding, sendPage } from "../pages/html-document.ts";
import { messagePage } from "../pages/link-page.ts";
import { filesOf } from "../pages/page-files.ts";
import { chooseLanguage, textsOf } from "../pages/page-texts.ts";
import { chooseFormat, RECEIPT_FORMATS } from "./receipt-format.ts";
import { receiptPage } from "./receipt-page.ts";
import { presentPublicReceipt, presentReceipt, publicReceiptSchema, receiptSchema } from "./wire.ts";

type ShownReceipt = Receipt & Branding;

const params = z.object({ id: z.string().max(100) });
const publicParams = z.object({ linkId: z.string().max(100) });
const query = z.object({
  format: z.enum(RECEIPT_FORMATS).optional().describe("Overrides the Accept header"),
  paymentId: z.string().max(100).optional().describe("The payment to get the receipt of"),
  transactionId: z.string().max(100).optional().describe("The transaction to get the receipt of"),
  lang: z
    .string()
    .max(40)
    .optional()
    .describe(
      "The language: of the page, by default from Accept-Language; of the PDF, by default the language it was issued in",
    ),
});
type Query = z.infer<typeof query>;
const tags = ["Receipts"];
const description = "JSON, a page with `Accept: text/html`, or a PDF with `Accept: application/pdf`";
const answers = (json: z.ZodType) => ({
  200: { mediaTypes: ["text/html", "application/pdf"], description: "The receipt", json },
  ...errorResponses(400, 404, 409, 429),
});

export const receiptRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "receipt-routes" })
    .use(access(deps))
    .get(
      "/v1/payment-links/:id/receipt",
      async ({ params: { id }, query, request, user }) => {
        const receipt = await getReceipt(deps, { linkId: id, userId: user.id, ...placeOf(query) });
        return answer(deps, { receipt, request, query, isMerchant: true });
      },
      {
        auth: {
          allow: ["session", "apiKey"],
          scope: ["links:read", "payments:read"],
          needs: "links:read",
        },
        params,
        query,
        detail: {
          operationId: "getReceipt",
          summary: "The receipt of a paid link",
          description,
          tags,
          responses: documentedResponses({ ...answers(receiptSchema), ...errorResponses(401, 403) }),
        },
      },
    )
    .get(
      "/api/v1/public/payment-links/:linkId/receipt",
      async ({ params: { linkId }, query, request }) => {
        const receipt = await getReceipt(deps, { linkId, ...placeOf(query) });
        return answer(deps, { receipt, request, query, isMerchant: false });
      },
      {
        limit: "publicLinkData",
        params: publicParams,
        query,
        detail: {
          operationId: "getPublicReceipt",
          summary: "The receipt of a paid link, for its payer",
          description,
          tags,
          responses: documentedResponses(answers(publicReceiptSchema)),
        },
      },
    )
    .get(
      "/pay/:linkId/receipt",
      async ({ params: { linkId }, query, request, set, clientAddress, log, route }) => {
        const texts = textsOf(chooseLanguage(query.lang ?? null, request.headers.get("accept-language")));
        const files = filesOf(deps);
        try {
          await takeFromCallersLimit(deps, set, "publicLinkData", { clientAddress, route });
          const receipt = await getReceipt(deps, { linkId, ...placeOf(query) });
          return await answer(deps, {
            receipt,
            request,
            query: { format: "html", ...query },
            isMerchant: false,
          });
        } catch (error) {
          const status = error instanceof ServiceError ? error.status : 500;
          if (status >= 500) log.error({ err: error }, "rendering a receipt failed");
          const isUnknown = status === 404 || status === 409;
          const page = messagePage(
            isUnknown ? "unknown" : "unavailable",
            texts,
            files,
            pageUrl(deps, linkId),
          );
          return sendPage(page, request, status >= 500 ? 503 : status);
        }
      },
      { params: publicParams, query, detail: { hide: true } },
    );

function placeOf({ paymentId, transactionId }: Query) {
  return { paymentId, transactionId };
}

/** Throws NOT_FOUND for an unknown link or payment, CONFLICT for a link that is not PAID. */
async function getReceipt({ sql }: Pick<ApiDeps, "sql">, place: ReceiptPlace): Promise<ShownReceipt> {
  const { linkId, userId } = place;
  if (!LINK_ID.test(linkId)) throw notFound("Payment link");
  const row = await findReceipt(sql, place);
  if (row) return { ...row, merchantName: row.displayName ?? defaultMerchantName(row.email) };
  const link =
    userId === undefined ? await findPublicLink(sql, linkId) : await findLink(sql, { id: linkId, userId });
  if (!link) throw notFound("Payment link");
  if (link.status === "PAID") throw notFound("Payment");
  throw conflict(`There is no receipt yet: this payment link is ${link.status}`, {
    field: "status",
    issue: link.status,
  });
}

type Answer = { receipt: ShownReceipt; request: Request; query: Query; isMerchant: boolean };

async function answer(deps: ApiDeps, { receipt, request, query, isMerchant }: Answer): Promise<Response> {
  const format = chooseFormat(query.format, request.headers.get("accept"));
  switch (format) {
    case "json": {
      const document = await findNumberedReceipt(deps, receipt);
      const notes = document ? await listCreditNotes(deps.sql, document.id) : [];
      const numbered = {
        documentId: document?.id ?? null,
        documentNumber: document ? documentNumber(document) : null,
        creditNotes: notes.map((note) => presentCreditNote(note, deps)),
      };
      const shown = isMerchant ? presentReceipt(receipt) : presentPublicReceipt(receipt);
      return Response.json(
        { ...shown, ...numbered },
        { headers: { "cache-control": "no-store", vary: "accept" } },
      );
    }
    case "pdf": {
      const document = await findNumberedReceipt(deps, receipt);
      if (!document) throw conflict("There is no receipt: the payment is no longer confirmed");
      return sendPdf(deps, document, { asked: query.lang, request });
    }
    case "html": {
      const texts = textsOf(chooseLanguage(query.lang ?? null, request.headers.get("accept-language")));
      const url = pageUrl(deps, receipt.linkId);
      const which = receipt.transactionId === null ? "" : `&transactionId=${receipt.transactionId}`;
      const pdfUrl = `/api/v1/public/payment-links/${receipt.linkId}/receipt?format=pdf${which}`;
      const document = await findNumberedReceipt(deps, receipt);
      const number = document ? documentNumber(document) : null;
      const view = { receipt, number, url, pdfUrl, isMerchant, branding: receipt };
      return sendPage(receiptPage(view, texts, filesOf(deps)), request);
    }
  }
}

function pageUrl({ config }: Pick<ApiDeps, "config">, linkId: string): string {
  return `${config.baseUrl}/pay/${encodeURIComponent(linkId)}/receipt`;
}
