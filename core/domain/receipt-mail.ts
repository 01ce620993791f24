/**
 * The e-mail that delivers the receipt to a customer, in the receipt's language. The merchant's text appears as plain text, never as
 * a link.
 */
import { removeDirectionControls } from "./direction-controls.ts";
import { type DocumentTexts, documentTextsOf } from "./document-texts.ts";
import type { Language } from "./language.ts";
import { escapeHtml, type MailText } from "./mail-html.ts";
import { formatUnits } from "./money.ts";
import { NETWORKS } from "./networks.ts";
import { pageColors } from "./page-colors.ts";
import type { Receipt } from "./receipt.ts";

const DEFAULT_ACCENT = "#0b50e6";

export type ReceiptMailFrame = {
  baseUrl: string;
  /** Content id of the merchant's logo, which is attached. */
  logoId: string | undefined;
  accent: string | null;
  documentNumber: string | undefined;
  language: Language;
  timeZone: string;
};

export function renderReceiptMail(receipt: Receipt, frame: ReceiptMailFrame): MailText {
  const { baseUrl, logoId, accent, language } = frame;
  const texts = documentTextsOf(language);
  const { messages, isRightToLeft } = texts;
  const isTest = NETWORKS[receipt.network].isTestnet;
  const color = pageColors(accent ?? DEFAULT_ACCENT, "light").accent;
  const mark = `<img src="cid:${escapeHtml(logoId ?? "")}" alt="" width="48" height="48" style="display:block;margin:0 0 16px;object-fit:contain">\n`;
  const testNote = `<p style="margin:0 0 16px;padding:8px 12px;background:#fff3dd;color:#855000;border-radius:6px">${escapeHtml(messages.testNetwork)}</p>\n`;
  const named = {
    amount: texts.amount(formatUnits(receipt.amountUnits)),
    merchant: oneLine(receipt.merchantName),
  };
  const query = `transactionId=${receipt.transactionId ?? ""}&lang=${language}`;
  const url = `${baseUrl}/pay/${receipt.linkId}/receipt?${query}`;
  const lines = linesOf(receipt, frame, texts).map(([name, value]) => ({ name, value: oneLine(value) }));
  // also on the outermost element of the body: mail clients drop the document around it
  const direction = `lang="${language}" dir="${isRightToLeft ? "rtl" : "ltr"}"`;
  return {
    subject: fill(messages.mail.subject, named),
    text: [
      fill(messages.mail.confirmed, named),
      ...(isTest ? [messages.testNetwork] : []),
      "",
      ...lines.map((line) => fill(messages.mail.line, line)),
      "",
      fill(messages.mail.line, { name: messages.receipt, value: url }),
      "",
      fill(messages.mail.foot, named),
      "",
    ].join("\n"),
    html: `<!doctype html>
<html ${direction}>
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escapeHtml(messages.receipt)}</title></head>
<body style="margin:0;padding:24px;background:#f4f5f7;color:#1b1f24;font:16px/1.5 -apple-system,'Segoe UI',Roboto,sans-serif">
<div ${direction} style="max-width:560px;margin:0 auto;padding:24px;background:#ffffff;border:1px solid #e1e4e8;border-radius:8px">
${logoId === undefined ? "" : mark}<p style="margin:0 0 16px">${fillHtml(messages.mail.confirmed, named)}</p>
${isTest ? testNote : ""}<table style="width:100%;border-collapse:collapse;font-size:14px">
${lines.map((line) => row(line, isRightToLeft)).join("\n")}
</table>
<p style="margin:16px 0"><a href="${escapeHtml(url)}" style="color:${color}">${escapeHtml(messages.mail.open)}</a></p>
<p style="margin:0;color:#57606a;font-size:14px">${fillHtml(messages.mail.foot, named)}</p>
</div>
</body>
</html>
`,
  };
}

/** The same names and values as on the PDF. */
function linesOf(
  receipt: Receipt,
  { documentNumber, timeZone }: ReceiptMailFrame,
  { messages, amount, time }: DocumentTexts,
): [name: string, value: string][] {
  const { chainId, displayName } = NETWORKS[receipt.network];
  const { refundedUnits } = receipt;
  const lines: [string, string | null | false | undefined][] = [
    [messages.mail.number, documentNumber],
    [messages.mail.paidTo, receipt.merchantName],
    [messages.paidFor, receipt.description],
    [messages.reference, receipt.reference],
    [messages.amountPaid, amount(formatUnits(receipt.amountUnits))],
    [messages.amountRefunded, refundedUnits > 0n && amount(formatUnits(refundedUnits))],
    [messages.paidOn, time(receipt.paidAt, timeZone)],
    [messages.network, `${displayName} (${chainId})`],
    [messages.from, receipt.payer],
    [messages.to, receipt.recipient],
    [messages.transaction, receipt.txHash],
    [messages.block, receipt.blockNumber.toString()],
    [messages.link, receipt.linkId],
    [messages.transactionId, receipt.transactionId],
  ];
  return lines.filter((line): line is [string, string] => typeof line[1] === "string" && line[1] !== "");
}

type Values = Readonly<Record<string, string>>;

function fill(text: string, values: Values): string {
  return text.replace(/\{(\w+)\}/g, (place, name: string) => values[name] ?? place);
}

/** Each value is isolated (bidi), so that a merchant's name does not reverse the sentence around it. */
function fillHtml(text: string, values: Values): string {
  const isolated = Object.entries(values).map(([name, value]) => [name, `<bdi>${escapeHtml(value)}</bdi>`]);
  return fill(escapeHtml(text), Object.fromEntries(isolated));
}

function row({ name, value }: { name: string; value: string }, isRightToLeft: boolean): string {
  const [start, end] = isRightToLeft ? ["right", "left"] : ["left", "right"];
  const cell = `padding:6px 0;border-top:1px solid #e1e4e8;vertical-align:top;text-align:${start}`;
  return `<tr><th style="${cell};padding-${end}:16px;width:32%;font-weight:400;color:#57606a">${escapeHtml(name)}</th><td style="${cell};word-break:break-word"><bdi>${escapeHtml(value)}</bdi></td></tr>`;
}

/** Without line breaks, and without characters that change the direction of the following text (UAX 9). */
function oneLine(text: string): string {
  return removeDirectionControls(text)
    .replace(/[\p{Cc}\u2028\u2029]+/gu, " ")
    .trim();
}
