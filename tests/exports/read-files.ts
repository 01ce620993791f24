/** Strict readers of exported files. */
import { inflateSync } from "node:zlib";

/** RFC 4180: CRLF between records and at the end, quotes doubled inside quotes, no bare quote, CR or LF. Throws on anything else. */
export function parseCsv(text: string): string[][] {
  const records: string[][] = [];
  let record: string[] = [];
  let at = 0;
  while (at < text.length) {
    const quoted = text[at] === '"';
    let cell = "";
    if (quoted) {
      for (at++; ; at++) {
        if (at >= text.length) throw new Error("a quoted cell does not end");
        if (text[at] !== '"') cell += text[at];
        else if (text[at + 1] === '"') {
          cell += '"';
          at++;
        } else break;
      }
      at++;
    } else {
      while (at < text.length && !',\r\n"'.includes(text[at] ?? "")) cell += text[at++];
      if (text[at] === '"') throw new Error(`a bare quote at ${at}`);
    }
    record.push(cell);
    if (text[at] === ",") at++;
    else if (text.startsWith("\r\n", at)) {
      records.push(record);
      record = [];
      at += 2;
    } else
      throw new Error(`expected a comma or CRLF at ${at}, got ${JSON.stringify(text.slice(at, at + 5))}`);
  }
  if (record.length > 0) throw new Error("the last record does not end with CRLF");
  return records;
}

/** Micro-USDC of a decimal with exactly six places. */
export function unitsOf(text: string | undefined): bigint {
  if (!/^\d+\.\d{6}$/.test(text ?? "")) throw new Error(`not an amount with 6 places: ${text}`);
  return BigInt((text ?? "").replace(".", ""));
}

export function sum(units: readonly bigint[]): bigint {
  return units.reduce((total, one) => total + one, 0n);
}

/** Every text of a PDF in a standard font, page by page, as our renderer writes it: one hex string per line. */
export function pdfTexts(pdf: Uint8Array): string[] {
  return pdfContents(pdf).flatMap((content) =>
    Array.from(content.matchAll(/<([0-9a-f]*)> Tj/g), ([, hex = ""]) =>
      Buffer.from(hex, "hex").toString("latin1"),
    ),
  );
}

/** The text of a PDF's glyphs in embedded fonts (ToUnicode), word by word, line by line. */
export function pdfWideWords(pdf: Uint8Array): string[] {
  return pdfContents(pdf).flatMap((content) =>
    Array.from(content.matchAll(/\/ActualText <feff([0-9a-f]*)>/g), ([, hex = ""]) =>
      Buffer.from(hex, "hex").swap16().toString("utf16le"),
    ),
  );
}

function pdfContents(pdf: Uint8Array): string[] {
  const bytes = Buffer.from(pdf);
  const text = bytes.toString("latin1");
  if (!text.startsWith("%PDF-1.") || !text.trimEnd().endsWith("%%EOF")) throw new Error("not a whole PDF");
  const found: string[] = [];
  for (const match of text.matchAll(/stream\r?\n/g)) {
    const start = match.index + match[0].length;
    const end = text.indexOf("endstream", start);
    found.push(inflate(bytes.subarray(start, end)) ?? "");
  }
  return found;
}

/** Pages are flushed in order, so the number of page objects is the number of pages. */
export function pdfPageCount(pdf: Uint8Array): number {
  return [
    ...Buffer.from(pdf)
      .toString("latin1")
      .matchAll(/\/Type \/Page\b(?!s)/g),
  ].length;
}

function inflate(bytes: Uint8Array): string | undefined {
  try {
    return inflateSync(bytes).toString("latin1");
  } catch {
    return undefined;
  }
}
