/** The receipt as a printable page; works without a script. */
import { getAddress } from "viem";
import { documentTextsOf } from "../../core/domain/document-texts.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { NETWORKS } from "../../core/domain/networks.ts";
import type { Receipt } from "../../core/domain/receipt.ts";
import { type Html, html } from "../pages/html.ts";
import { type Branding, merchantMark, type PageFiles, renderDocument } from "../pages/html-document.ts";
import { ICONS } from "../pages/icons.ts";
import type { PageTexts } from "../pages/page-texts.ts";

export type ReceiptView = {
  receipt: Receipt;
  /** Null when the payment is no longer confirmed. */
  number: string | null;
  /** The page's own URL, and that of the same receipt as a PDF. */
  url: string;
  pdfUrl: string;
  /** The merchant sees fields that the customer and the public do not. */
  isMerchant: boolean;
  branding: Branding;
};

export function receiptPage(view: ReceiptView, texts: PageTexts, files: PageFiles): Html {
  const { receipt, number, url, pdfUrl, isMerchant, branding } = view;
  const { say, formatAmount, formatTime, language } = texts;
  const { messages } = documentTextsOf(language);
  const { displayName, explorerUrl, isTestnet } = NETWORKS[receipt.network];
  const amount = formatAmount(Number(formatUnits(receipt.amountUnits)));
  const refunded = formatAmount(Number(formatUnits(receipt.refundedUnits)));
  const merchant = receipt.merchantName;
  const fact = (name: string, value: Html | string | null) =>
    value !== null && html`<div><dt>${name}</dt><dd>${value}</dd></div>`;
  const bdi = (text: string | null) => (text === null ? null : html`<bdi>${text}</bdi>`);
  const body = html`<main class="card">
<header>
${isTestnet && html`<p class="test">${say("testNetwork")}</p>`}
<p class="merchant">${merchantMark(branding, merchant)}<bdi>${merchant}</bdi></p>
</header>
<div class="state">${ICONS.ok}<h1>${say("receipt")}</h1><p class="sum"><bdi>${amount} USDC</bdi></p></div>
<dl class="facts">
${fact(messages.mail.number, bdi(number))}
${fact(say("paidTo"), bdi(merchant))}
${fact(say("paidFor"), bdi(receipt.description))}
${fact(say("reference"), bdi(receipt.reference))}
${fact(say("amountPaid"), html`<bdi>${amount} USDC</bdi>`)}
${receipt.refundedUnits > 0n && fact(say("refunded"), html`<bdi>${refunded} USDC</bdi>`)}
${fact(say("paidOn"), html`<time datetime="${receipt.paidAt.toISOString()}">${formatTime(receipt.paidAt)}</time>`)}
${fact(say("networkLabel"), displayName)}
${fact(say("from"), html`<bdi class="exact address">${getAddress(receipt.payer)}</bdi>`)}
${fact(say("addressLabel"), html`<bdi class="exact address">${getAddress(receipt.recipient)}</bdi>`)}
${fact(say("transaction"), html`<a href="${explorerUrl}${receipt.txHash}" rel="noopener noreferrer" target="_blank"><bdi class="exact address">${receipt.txHash}</bdi></a>`)}
${isMerchant && fact("E-mail", bdi(receipt.customerEmail))}
</dl>
<a class="button second" href="${pdfUrl}">${say("downloadPdf")}</a>
</main>
<footer><p>USDC · ${displayName}</p><p><bdi>${receipt.linkId}</bdi></p></footer>`;
  const title = `${say("receipt")} · ${amount} USDC · ${merchant}`;
  return renderDocument(texts, files, { title, description: title, url, body, branding });
}
