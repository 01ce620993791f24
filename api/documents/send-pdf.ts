/** Responds with a numbered document as a PDF, in the language given by `?lang=`, or in the language it was issued in. */

import { acceptedLanguage, DEFAULT_LANGUAGE, findLanguage } from "../../core/domain/language.ts";
import { documentNumber } from "../../core/domain/numbered-document.ts";
import { type ShownDocument, toPrinted } from "../../db/documents/documents.ts";
import { findLogo, findMerchantPage } from "../../db/links/page-settings.ts";
import type { ApiDeps } from "../http/deps.ts";

export async function sendPdf(
  { sql }: Pick<ApiDeps, "sql">,
  document: ShownDocument,
  { asked, request }: { asked: string | undefined; request: Request },
): Promise<Response> {
  // loaded with the first PDF, because the font code is large
  const { renderDocumentPdf } = await import("../../core/pdf/document-pdf.ts");
  const page = await findMerchantPage(sql, document.userId);
  const logo = page?.logoDigest ? await findLogo(sql, page.logoDigest) : undefined;
  const language =
    findLanguage(asked ?? "") ??
    document.language ??
    acceptedLanguage(request.headers.get("accept-language")) ??
    DEFAULT_LANGUAGE;
  const branding = { accent: page?.accent ?? null, logo, language };
  const bytes = Buffer.from(await renderDocumentPdf(toPrinted(document), branding));
  return new Response(bytes, {
    headers: {
      "content-type": "application/pdf",
      "content-disposition": `attachment; filename="${documentNumber(document)}.pdf"`,
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
      vary: "accept, accept-language",
    },
  });
}
