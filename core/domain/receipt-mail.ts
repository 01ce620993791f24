/** The mail that brings a customer the receipt. What the merchant wrote stands in it as text, never as a link. */
import { pageColors } from "./page-colors.ts";
import { linesOfReceipt, plainAmount, type Receipt } from "./receipt.ts";

const DEFAULT_ACCENT = "#0b50e6";

export type ReceiptMail = { subject: string; text: string; html: string };

export type ReceiptMailFrame = {
  baseUrl: string;
  /** Content id of the merchant's logo, which is attached. */
  logoId: string | undefined;
  accent: string | null;
  documentNumber: string | undefined;
};

export function renderReceiptMail(
  receipt: Receipt,
  { baseUrl, logoId, accent, documentNumber }: ReceiptMailFrame,
): ReceiptMail {
  const color = pageColors(accent ?? DEFAULT_ACCENT, "light").accent;
  const mark = `<img src="cid:${escapeHtml(logoId ?? "")}" alt="" width="48" height="48" style="display:block;margin:0 0 16px;object-fit:contain">\n`;
  const merchant = oneLine(receipt.merchantName);
  const amount = `${plainAmount(receipt.amountUnits)} USDC`;
  const url = `${baseUrl}/pay/${receipt.linkId}/receipt?transactionId=${receipt.transactionId ?? ""}`;
  const why = `Your payment of ${amount} to ${merchant} has been confirmed.`;
  const foot = `You get this mail because ${merchant} gave your address with this order. Nobody will ask you to pay again.`;
  const lines = linesOfReceipt(receipt, documentNumber).map(
    ([name, value]) => [name, oneLine(value)] as const,
  );
  return {
    subject: `Receipt: ${amount} to ${merchant}`,
    text: [
      why,
      "",
      ...lines.map(([name, value]) => `${name}: ${value}`),
      "",
      `Receipt: ${url}`,
      "",
      foot,
      "",
    ].join("\n"),
    html: `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Receipt</title></head>
<body style="margin:0;padding:24px;background:#f4f5f7;color:#1b1f24;font:16px/1.5 -apple-system,'Segoe UI',Roboto,sans-serif">
<div style="max-width:560px;margin:0 auto;padding:24px;background:#ffffff;border:1px solid #e1e4e8;border-radius:8px">
${logoId === undefined ? "" : mark}<p style="margin:0 0 16px">${escapeHtml(why)}</p>
<table style="width:100%;border-collapse:collapse;font-size:14px">
${lines.map(([name, value]) => row(name, value)).join("\n")}
</table>
<p style="margin:16px 0"><a href="${escapeHtml(url)}" style="color:${color}">Open the receipt</a></p>
<p style="margin:0;color:#57606a;font-size:14px">${escapeHtml(foot)}</p>
</div>
</body>
</html>
`,
  };
}

function row(name: string, value: string): string {
  const cell = "padding:6px 0;border-top:1px solid #e1e4e8;vertical-align:top;text-align:left";
  return `<tr><th style="${cell};padding-right:16px;font-weight:400;color:#57606a;white-space:nowrap">${escapeHtml(name)}</th><td style="${cell};word-break:break-word">${escapeHtml(value)}</td></tr>`;
}

function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, " ").trim();
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
