/** Recursive length prefixes (Yellow Paper appendix B) over hex text without 0x: nodes' answers are hex, and engines join strings quickly. */

/** Bytes as hex digits, or a list. */
export type RlpItem = string | readonly RlpItem[];

const SHORT_MAX = 55;

export function rlpText(digits: string): string {
  const isByteItself = digits.length === 2 && digits < "80";
  return isByteItself ? digits : lengthPrefix(digits.length / 2, 0x80) + digits;
}

/** Of items that are encoded already. */
export function rlpList(items: readonly string[]): string {
  const payload = items.join("");
  return lengthPrefix(payload.length / 2, 0xc0) + payload;
}

/** A number in as few bytes as possible. */
export function quantityText(quantity: string): string {
  const digits = quantity.slice(2).replace(/^0+/, "");
  return digits.length % 2 === 1 ? `0${digits}` : digits;
}

export function bytesText(data: string): string {
  return data.slice(2).toLowerCase();
}

/** The item that these digits encode. Throws when they are not one item and nothing else. */
export function readRlp(digits: string): RlpItem {
  const { item, end } = readItem(digits, 0);
  if (end !== digits.length) throw new RangeError("bytes follow the RLP item");
  return item;
}

function readItem(digits: string, at: number): { item: RlpItem; end: number } {
  const first = byteAt(digits, at);
  if (first < 0x80) return { item: digits.slice(at, at + 2), end: at + 2 };
  const isList = first >= 0xc0;
  const base = isList ? 0xc0 : 0x80;
  const { start, end } = boundsOf(digits, at, first - base);
  if (!isList) return { item: digits.slice(start, end), end };
  const items: RlpItem[] = [];
  for (let next = start; next < end; ) {
    const read = readItem(digits, next);
    items.push(read.item);
    next = read.end;
    if (next > end) throw new RangeError("an RLP item is longer than its list");
  }
  return { item: items, end };
}

function boundsOf(digits: string, at: number, length: number): { start: number; end: number } {
  const lengthBytes = Math.max(0, length - SHORT_MAX);
  const start = at + 2 + 2 * lengthBytes;
  const bytes = lengthBytes === 0 ? length : Number.parseInt(digits.slice(at + 2, start), 16);
  const end = start + 2 * bytes;
  if (!(end <= digits.length)) throw new RangeError("an RLP item is cut off");
  return { start, end };
}

function byteAt(digits: string, at: number): number {
  const byte = Number.parseInt(digits.slice(at, at + 2), 16);
  if (Number.isNaN(byte)) throw new RangeError("an RLP item is cut off");
  return byte;
}

function lengthPrefix(bytes: number, offset: number): string {
  if (bytes <= SHORT_MAX) return (offset + bytes).toString(16);
  const length = quantityText(`0x${bytes.toString(16)}`);
  return (offset + SHORT_MAX + length.length / 2).toString(16) + length;
}
