/** A receipt on one page: the merchant, the amount, and every fact of the payment with the hash in full. */
import PDFDocument from "pdfkit";
import { pageColors } from "../domain/page-colors.ts";
import { linesOfReceipt, plainAmount, type Receipt } from "../domain/receipt.ts";
import { MISSING, openPdfText, type TextStyle } from "./text.ts";

const MARGIN = 56;
const PAGE = { width: 595.28, height: 841.89 };
const WIDTH = PAGE.width - 2 * MARGIN;
const NAME_WIDTH = 96;
const ROW_PADDING = 6;
const BAND_HEIGHT = 6;
const LOGO_SIDE = 56;
const LOGO_GAP = 16;
const FOOT_Y = PAGE.height - MARGIN - 10;
/** Of a description of 500 wide letters at this width; all rows together fit one page. */
const LINES_MAX = 14;

const STYLES = {
  merchant: { font: "bold", size: 14, leading: 20, gray: 0.07 },
  title: { font: "regular", size: 11, leading: 16, gray: 0.35 },
  amount: { font: "bold", size: 30, leading: 38, gray: 0.07 },
  name: { font: "regular", size: 9, leading: 13, gray: 0.35 },
  value: { font: "regular", size: 9, leading: 13, gray: 0.07 },
  foot: { font: "regular", size: 7.5, leading: 10, gray: 0.4 },
} as const satisfies Record<string, TextStyle>;

/** `logo`: a PNG. */
export type ReceiptLooks = { accent: string | null; logo: Uint8Array | undefined };

export async function renderReceiptPdf(
  receipt: Receipt,
  { accent, logo }: ReceiptLooks,
): Promise<Uint8Array> {
  const doc = new PDFDocument({
    size: "A4",
    margin: MARGIN,
    info: { Title: "Receipt", Author: receipt.merchantName, CreationDate: receipt.paidAt },
  });
  const pieces: Uint8Array[] = [];
  doc.on("data", (piece: Uint8Array) => pieces.push(piece));
  const ended = new Promise<void>((resolve) => doc.on("end", resolve));
  const text = openPdfText(doc);
  const lines = linesOfReceipt(receipt);
  await text.prepare([MISSING, ...lines.map(([, value]) => value)]);
  let y = MARGIN;

  function write(words: string, style: TextStyle, linesMax: number, width = WIDTH): void {
    for (const line of text.wrap(words, style, width, linesMax)) {
      text.line(line, style, { x: MARGIN, y, width });
      y += style.leading;
    }
  }

  if (accent !== null)
    doc.save().rect(0, 0, PAGE.width, BAND_HEIGHT).fill(pageColors(accent, "light").accent).restore();
  if (logo) {
    const box: [number, number] = [LOGO_SIDE, LOGO_SIDE];
    doc.image(Buffer.from(logo), PAGE.width - MARGIN - LOGO_SIDE, MARGIN, { fit: box, align: "right" });
  }
  write(receipt.merchantName, STYLES.merchant, 2, logo ? WIDTH - LOGO_SIDE - LOGO_GAP : WIDTH);
  write("Receipt", STYLES.title, 1);
  y += 16;
  write(`${plainAmount(receipt.amountUnits)} USDC`, STYLES.amount, 1);
  y += 16;
  for (const [name, value] of lines) {
    text.rule(MARGIN, y, WIDTH, { thickness: 0.5, gray: 0.85 });
    y += ROW_PADDING;
    text.line(name, STYLES.name, { x: MARGIN, y, width: NAME_WIDTH });
    for (const line of text.wrap(value, STYLES.value, WIDTH - NAME_WIDTH, LINES_MAX)) {
      text.line(line, STYLES.value, { x: MARGIN + NAME_WIDTH, y, width: WIDTH - NAME_WIDTH });
      y += STYLES.value.leading;
    }
    y += ROW_PADDING;
  }
  const remark = text.remark();
  if (remark) text.line(remark, STYLES.foot, { x: MARGIN, y: FOOT_Y - STYLES.foot.leading, width: WIDTH });
  const foot =
    "USDC is a digital dollar. The transaction above is the proof of payment; anybody can look it up on the network.";
  text.line(foot, STYLES.foot, { x: MARGIN, y: FOOT_Y, width: WIDTH });
  text.flush();
  doc.end();
  await ended;
  return Buffer.concat(pieces);
}
