/**
 * A receipt or credit note on one page, in its payer's language: the issuer, its number, the amount, and every fact with the full hash.
 * Tagged as PDF/UA requires (ISO 14289-1): headings, a table with row headers, a language, decoration marked as artifacts.
 */
import PDFDocument from "pdfkit";
import { type DocumentTexts, documentTextsOf } from "../domain/document-texts.ts";
import type { Language } from "../domain/language.ts";
import { formatUnits } from "../domain/money.ts";
import { NETWORKS } from "../domain/networks.ts";
import { documentNumber, type PrintedDocument } from "../domain/numbered-document.ts";
import { pageColors } from "../domain/page-colors.ts";
import { RIGHT_TO_LEFT_MARK } from "./reading-order.ts";
import { openTags, taggedOptions } from "./tags.ts";
import { openPdfText, type TextStyle } from "./text.ts";

const MARGIN = 56;
const PAGE = { width: 595.28, height: 841.89 };
const WIDTH = PAGE.width - 2 * MARGIN;
const NAME_WIDTH = 128;
const ROW_PADDING = 5.5;
const BAND_HEIGHT = 6;
const LOGO_SIDE = 56;
const LOGO_GAP = 16;
const FOOT_Y = PAGE.height - MARGIN - 10;
/** Enough for a description of 500 wide letters at this width; all rows together fit on one page. */
const LINES_MAX = 14;
const ADDRESS_LINES_MAX = 6;
const NOTICE_PADDING = 8;
const GAP_ABOVE_FACTS = 16;
/** Below the line about test money. Small, so that the longest document still fits on one page. */
const GAP_BELOW_TEST = 4;

const STYLES = {
  issuer: { font: "bold", size: 13, leading: 18, gray: 0.07 },
  address: { font: "regular", size: 9, leading: 12.5, gray: 0.25 },
  title: { font: "bold", size: 17, leading: 24, gray: 0.07 },
  amount: { font: "bold", size: 28, leading: 36, gray: 0.07 },
  test: { font: "bold", size: 9, leading: 12, gray: 0.25 },
  void: { font: "bold", size: 12, leading: 16, gray: 0 },
  voidText: { font: "regular", size: 9, leading: 13, gray: 0 },
  name: { font: "regular", size: 9, leading: 13, gray: 0.35 },
  value: { font: "regular", size: 9, leading: 13, gray: 0.07 },
  foot: { font: "regular", size: 7.5, leading: 10, gray: 0.4 },
} as const satisfies Record<string, TextStyle>;

/** `logo`: a PNG. */
export type DocumentBranding = { accent: string | null; logo: Uint8Array | undefined };
type Look = DocumentBranding & { language: Language };

export async function renderDocumentPdf(
  printed: PrintedDocument,
  { accent, logo, language }: Look,
): Promise<Uint8Array> {
  const texts = documentTextsOf(language);
  const { messages, isRightToLeft } = texts;
  const { issuer } = printed.facts;
  // so that one of our sentences that begins with "USDC" is still read from right to left
  const sentence = (text: string) => (isRightToLeft ? `${RIGHT_TO_LEFT_MARK}${text}` : text);
  const title = `${titleOf(printed, texts)} ${documentNumber(printed)}`;
  const doc = new PDFDocument({
    ...{ size: "A4", margin: MARGIN, ...taggedOptions(language) },
    info: { Title: title, Author: issuer.name, CreationDate: printed.issuedAt },
  });
  const pieces: Uint8Array[] = [];
  doc.on("data", (piece: Uint8Array) => pieces.push(piece));
  const ended = new Promise<void>((resolve) => doc.on("end", resolve));
  const text = await openPdfText(doc);
  const tags = openTags(doc, text.flush);
  const facts = factsOf(printed, texts);
  const address = [
    ...(issuer.postalAddress?.split("\n") ?? []),
    issuer.taxId && `${messages.taxId} ${issuer.taxId}`,
  ].filter((line): line is string => typeof line === "string" && line.trim() !== "");
  const notice = noticeOf(printed, texts);
  const testNote = NETWORKS[printed.network].isTestnet ? messages.testNetwork : undefined;
  const shown = [
    title,
    issuer.name,
    ...address,
    messages.foot,
    messages.missing,
    messages.void,
    notice ?? "",
    testNote ?? "",
  ];
  await text.prepare([...shown, ...facts.flat()]);
  let y = MARGIN;

  function write(given: string, style: TextStyle, { linesMax = 1, width = WIDTH, inset = 0 } = {}): void {
    const x = (isRightToLeft ? MARGIN + WIDTH - width : MARGIN) + inset;
    for (const line of text.wrap(given, style, width - 2 * inset, linesMax)) {
      text.line(line, style, { x, y, width: width - 2 * inset, align: isRightToLeft ? "right" : undefined });
      y += style.leading;
    }
  }

  if (accent !== null)
    tags.artifact(() => {
      doc.save().rect(0, 0, PAGE.width, BAND_HEIGHT).fill(pageColors(accent, "light").accent).restore();
    });
  if (logo) {
    const box: [number, number] = [LOGO_SIDE, LOGO_SIDE];
    const x = isRightToLeft ? MARGIN : PAGE.width - MARGIN - LOGO_SIDE;
    const bbox: [number, number, number, number] = [x, MARGIN, x + LOGO_SIDE, MARGIN + LOGO_SIDE];
    tags.figure(issuer.name, bbox, () => {
      doc.image(Buffer.from(logo), x, MARGIN, {
        fit: box,
        align: isRightToLeft ? "left" : "right",
      } as object);
    });
  }
  const width = logo ? WIDTH - LOGO_SIDE - LOGO_GAP : WIDTH;
  tags.block("P", () => write(issuer.name, STYLES.issuer, { linesMax: 2, width }));
  if (address.length > 0)
    tags.block("P", () => {
      for (const line of address.slice(0, ADDRESS_LINES_MAX + 1))
        write(line, STYLES.address, { linesMax: 2, width });
    });
  y = Math.max(y, logo ? MARGIN + LOGO_SIDE : 0) + 26;
  tags.block("H1", () => write(title, STYLES.title, { linesMax: 2 }));
  y += 6;
  tags.block("P", () => write(texts.amount(formatUnits(printed.amountUnits)), STYLES.amount));
  if (testNote !== undefined) tags.block("P", () => write(sentence(testNote), STYLES.test));
  if (notice !== undefined) {
    y += 10;
    const top = y;
    y += NOTICE_PADDING;
    tags.block("P", () => {
      write(messages.void, STYLES.void, { inset: NOTICE_PADDING });
      write(sentence(notice), STYLES.voidText, { linesMax: 3, inset: NOTICE_PADDING });
    });
    y += NOTICE_PADDING;
    tags.artifact(() => {
      doc
        .save()
        .lineWidth(1.5)
        .rect(MARGIN, top, WIDTH, y - top)
        .stroke("#000000")
        .restore();
    });
  }
  y += testNote === undefined ? GAP_ABOVE_FACTS : GAP_ABOVE_FACTS - STYLES.test.leading + GAP_BELOW_TEST;
  const table = tags.openTable();
  for (const [name, value] of facts) {
    tags.artifact(() => text.rule(MARGIN, y, WIDTH, { thickness: 0.5, gray: 0.85 }));
    y += ROW_PADDING;
    const top = y;
    const align = isRightToLeft ? ("right" as const) : undefined;
    const nameX = isRightToLeft ? MARGIN + WIDTH - NAME_WIDTH : MARGIN;
    const names = text.wrap(name, STYLES.name, NAME_WIDTH - 8, 2);
    const values = text.wrap(value, STYLES.value, WIDTH - NAME_WIDTH, LINES_MAX);
    const lines = (given: readonly string[], style: TextStyle, x: number, wide: number) => () => {
      for (const [index, line] of given.entries())
        text.line(line, style, { x, y: top + index * style.leading, width: wide, align });
    };
    table.row([
      ["TH", lines(names, STYLES.name, nameX, NAME_WIDTH)],
      ["TD", lines(values, STYLES.value, isRightToLeft ? MARGIN : MARGIN + NAME_WIDTH, WIDTH - NAME_WIDTH)],
    ]);
    y += Math.max(names.length, values.length) * STYLES.value.leading + ROW_PADDING;
  }
  table.end();
  y = FOOT_Y - STYLES.foot.leading;
  if (text.missingCount() > 0)
    tags.block("P", () => write(sentence(`\u2066[U+…]\u2069 ${messages.missing}`), STYLES.foot));
  y = FOOT_Y;
  tags.block("P", () => write(sentence(messages.foot), STYLES.foot));
  tags.end();
  doc.end();
  await ended;
  return Buffer.concat(pieces);
}

function titleOf({ kind }: PrintedDocument, { messages }: DocumentTexts): string {
  return kind === "RECEIPT" ? messages.receipt : messages.creditNote;
}

function noticeOf(printed: PrintedDocument, { messages, time }: DocumentTexts): string | undefined {
  const { voidedAt, voidReason, facts } = printed;
  if (!voidedAt) return undefined;
  const sentence = voidReason === "REASSIGNED" ? messages.voidReassigned : messages.voidReorganised;
  return sentence.replace("{time}", time(voidedAt, facts.timeZone));
}

/** The names and values of the table. */
function factsOf(printed: PrintedDocument, { messages, amount, time }: DocumentTexts): [string, string][] {
  const { facts, kind } = printed;
  const { chainId, displayName } = NETWORKS[printed.network];
  const isReceipt = kind === "RECEIPT";
  const lines: [string, string | null][] = [
    [messages.number, documentNumber(printed)],
    [messages.issuedOn, time(printed.issuedAt, facts.timeZone)],
    [messages.refundOf, printed.receiptNumber],
    [messages.paidFor, facts.description],
    [messages.reference, facts.reference],
    [messages.reason, facts.reason],
    [isReceipt ? messages.amountPaid : messages.amountRefunded, amount(formatUnits(printed.amountUnits))],
    [isReceipt ? messages.paidOn : messages.refundedOn, time(printed.happenedAt, facts.timeZone)],
    [messages.network, `${displayName} (${chainId})`],
    [messages.from, facts.payer],
    [messages.to, facts.recipient],
    [messages.transaction, printed.txHash],
    [messages.block, String(facts.blockNumber)],
    [messages.link, facts.linkId],
    [messages.transactionId, facts.transactionId],
  ];
  return lines.filter((line): line is [string, string] => line[1] !== null && line[1] !== "");
}
