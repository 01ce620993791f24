/** A strict reader of the spreadsheets we write: the first sheet's cells as the spreadsheet holds them. */
import { crc32, inflateRawSync } from "node:zlib";

export type XlsxCell = { text: string } | { number: number; format: string } | undefined;

/** Files of a zip by name. Throws when it is not a whole one, or a checksum is wrong. */
export function readZip(bytes: Uint8Array): Map<string, Uint8Array> {
  const zip = Buffer.from(bytes);
  const end = zip.lastIndexOf(Buffer.from([0x50, 0x4b, 5, 6]));
  if (end < 0) throw new Error("not a whole zip");
  const files = new Map<string, Uint8Array>();
  let at = zip.readUInt32LE(end + 16);
  for (let n = zip.readUInt16LE(end + 10); n > 0; n--) {
    const [method, size] = [zip.readUInt16LE(at + 10), zip.readUInt32LE(at + 20)];
    const nameLength = zip.readUInt16LE(at + 28);
    const local = zip.readUInt32LE(at + 42);
    const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
    const packed = zip.subarray(start, start + size);
    const name = zip.toString("utf8", at + 46, at + 46 + nameLength);
    const content = method === 8 ? inflateRawSync(packed) : packed;
    const stated = [zip.readUInt32LE(at + 16), zip.readUInt32LE(at + 24)];
    if (crc32(content) !== stated[0] || content.length !== stated[1]) throw new Error(`${name} is damaged`);
    files.set(name, content);
    at += 46 + nameLength + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
  }
  return files;
}

/** Rows of the first sheet. A number comes with its format. */
export function readXlsx(bytes: Uint8Array): XlsxCell[][] {
  const files = readZip(bytes);
  const xml = (name: string) => new TextDecoder().decode(files.get(name) ?? new Uint8Array());
  const styles = xml("xl/styles.xml");
  const formats = new Map(
    [...styles.matchAll(/<numFmt numFmtId="(\d+)" formatCode="([^"]*)"/g)].map(([, id, code = ""]) => [
      id,
      unescapeXml(code),
    ]),
  );
  const cellStyles = [
    ...(/<cellXfs[^>]*>(.*?)<\/cellXfs>/s.exec(styles)?.[1] ?? "").matchAll(
      /<xf [^>]*numFmtId="(\d+)"|<xf\b/g,
    ),
  ].map(([, id]) => formats.get(id) ?? "");
  const sheet = xml("xl/worksheets/sheet1.xml");
  return [...sheet.matchAll(/<row\b[^>]*>(.*?)<\/row>/gs)].map(([, row = ""]) => {
    const cells: XlsxCell[] = [];
    for (const [, attributes = "", inner = ""] of row.matchAll(/<c\b([^>]*?)(?:\/>|>(.*?)<\/c>)/gs)) {
      const [, letters = ""] = /r="([A-Z]+)\d+"/.exec(attributes) ?? [];
      if (/<f>/.test(inner)) throw new Error("a formula");
      const text = /^<is><t xml:space="preserve">(.*?)<\/t><\/is>$/s.exec(inner)?.[1];
      if (/t="inlineStr"/.test(attributes) !== (text !== undefined))
        throw new Error(`a broken text: ${inner}`);
      if (text !== undefined) {
        cells[columnOf(letters)] = { text: unescapeText(text) };
        continue;
      }
      const value = /^<v>(-?\d+(?:\.\d+)?)<\/v>$/.exec(inner)?.[1];
      if (value === undefined) throw new Error(`neither text nor number: ${inner}`);
      const style = cellStyles[Number(/s="(\d+)"/.exec(attributes)?.[1] ?? -1)] ?? "";
      cells[columnOf(letters)] = { number: Number(value), format: style };
    }
    return cells;
  });
}

/** The day of a date cell: days since 1899-12-30. */
export function dayOfSerial(serial: number): string {
  return new Date(Date.UTC(1899, 11, 30) + serial * 86_400_000).toISOString().slice(0, 10);
}

function columnOf(letters: string): number {
  return [...letters].reduce((sum, letter) => sum * 26 + letter.charCodeAt(0) - 64, 0) - 1;
}

/** XML first, then characters by their numbers (ECMA-376 part 1, 22.9.2.19). */
function unescapeText(text: string): string {
  return unescapeXml(text).replace(/_x([0-9a-f]{4})_/gi, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  );
}

function unescapeXml(text: string): string {
  const signs: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
  return text.replace(/&(#\d+|#x[0-9a-f]+|\w+);/gi, (whole, name: string) => {
    if (name.startsWith("#x")) return String.fromCodePoint(Number.parseInt(name.slice(2), 16));
    if (name.startsWith("#")) return String.fromCodePoint(Number(name.slice(1)));
    return signs[name] ?? whole;
  });
}
