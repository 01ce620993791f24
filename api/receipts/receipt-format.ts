/** Which of three formats a receipt is sent in. */

export const RECEIPT_FORMATS = ["json", "html", "pdf"] as const;
export type ReceiptFormat = (typeof RECEIPT_FORMATS)[number];

const TYPES: Readonly<Record<string, ReceiptFormat>> = {
  "application/json": "json",
  "text/html": "html",
  "application/pdf": "pdf",
};
const ITEMS_MAX = 20;

/** `asked` (`?format=`) takes precedence over `Accept`, of which the highest-ranked supported type counts, or the first of equals; else JSON. */
export function chooseFormat(asked: ReceiptFormat | undefined, accept: string | null): ReceiptFormat {
  if (asked) return asked;
  let best: { format: ReceiptFormat; quality: number } = { format: "json", quality: 0 };
  for (const item of (accept ?? "").split(",", ITEMS_MAX)) {
    const [type = "", ...parameters] = item.split(";").map((part) => part.trim().toLowerCase());
    const given = parameters.map((part) => /^q=([\d.]+)$/.exec(part)?.[1]).find(Boolean);
    const quality = given === undefined ? 1 : Number(given);
    const format = TYPES[type];
    if (format && quality > best.quality) best = { format, quality };
  }
  return best.format;
}
