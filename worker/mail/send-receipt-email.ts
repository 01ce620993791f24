/**
 * E-mails the receipt to a customer, at most once: the row says "sent" before the message is handed to the server, and is reset only when the
 * server refused it. A payment that was reorganised away before the e-mail has no receipt, so nothing is sent.
 */

import { DEFAULT_LANGUAGE, type Language } from "../../core/domain/language.ts";
import { documentNumber } from "../../core/domain/numbered-document.ts";
import { renderReceiptMail } from "../../core/domain/receipt-mail.ts";
import { defaultMerchantName } from "../../core/domain/user.ts";
import type { DocumentBranding } from "../../core/pdf/document-pdf.ts";
import type { Log } from "../../core/runtime/log.ts";
import { type ShownDocument, toPrinted } from "../../db/documents/documents.ts";
import type { JobPayload } from "../../db/jobs/queue.ts";
import { findLogo } from "../../db/links/page-settings.ts";
import {
  findReceipt,
  findUnsentReceipt,
  markReceiptSent,
  markReceiptUnsent,
} from "../../db/links/receipts.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { findNumberedReceipt } from "../documents/issue-documents-job.ts";
import type { MailAttachment, Mailer } from "./mailer.ts";

export type ReceiptEmailDeps = { sql: Sql; mailer: Mailer; log: Log; config: { baseUrl: string } };

/** Returns when there is nothing (more) to send; throws to be retried. */
export async function sendReceiptEmail(
  { sql, mailer, log, config }: ReceiptEmailDeps,
  { receiptId: id }: JobPayload<"send_receipt_email">,
): Promise<void> {
  const unsent = await findUnsentReceipt(sql, id);
  const row = unsent && (await findReceipt(sql, unsent));
  if (!row?.customerEmail) return;
  const receipt = { ...row, merchantName: row.displayName ?? defaultMerchantName(row.email) };
  const logo = row.logoDigest === null ? undefined : await findLogo(sql, row.logoDigest);
  const document = await findNumberedReceipt(sql, row);
  const language = document?.language ?? DEFAULT_LANGUAGE;
  const looks = { accent: row.accent, logo, language };
  const logoId = logo && `logo.${id}@${new URL(config.baseUrl).hostname}`;
  const mail = {
    ...renderReceiptMail(receipt, {
      ...config,
      logoId,
      accent: row.accent,
      documentNumber: document && documentNumber(document),
      language,
      timeZone: document?.facts.timeZone ?? "UTC",
    }),
    to: row.customerEmail,
    messageId: `<${id}@${new URL(config.baseUrl).hostname}>`,
    attachments: [...attachLogo(logo, logoId), ...(await attach(document, looks, log))],
  };
  const connection = await mailer.connect();
  try {
    if (!(await markReceiptSent(sql, id))) return;
    const delivery = await connection.deliver(mail);
    const label = { receiptId: id, linkId: row.linkId };
    if (delivery.outcome === "accepted") return log.info(label, "receipt mailed");
    if (delivery.outcome === "unknown")
      return log.warn(label, `the mail server may or may not have accepted the receipt: ${delivery.reply}`);
    if (delivery.isPermanent)
      return log.warn(label, `the mail server permanently refused the receipt: ${delivery.reply}`);
    await markReceiptUnsent(sql, id);
    throw new Error(`the mail server refused the receipt temporarily: ${delivery.reply}`);
  } finally {
    connection.close();
  }
}

/** The e-mail is complete by itself: if the PDF cannot be rendered, it is sent without. */
async function attach(
  document: ShownDocument | undefined,
  looks: DocumentBranding & { language: Language },
  log: Log,
): Promise<MailAttachment[]> {
  if (!document) return [];
  try {
    const { renderDocumentPdf } = await import("../../core/pdf/document-pdf.ts");
    const content = Buffer.from(await renderDocumentPdf(toPrinted(document), looks));
    return [{ filename: `${documentNumber(document)}.pdf`, content, contentType: "application/pdf" }];
  } catch (error) {
    log.error({ err: error, documentId: document.id }, "rendering a receipt failed");
    return [];
  }
}

/** Embedded in the e-mail: a remote image would reveal when and where it is read. */
function attachLogo(logo: Uint8Array | undefined, cid: string | undefined): MailAttachment[] {
  if (!logo || !cid) return [];
  return [{ filename: "logo.png", content: Buffer.from(logo), contentType: "image/png", cid }];
}
