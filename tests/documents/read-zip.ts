/** A strict reader of stored zip archives: directory, local headers and checksums must agree. */
import { crc32 } from "node:zlib";

export function readZip(given: Uint8Array): Map<string, Buffer> {
  const bytes = Buffer.from(given);
  const end = bytes.length - 22;
  if (bytes.readUInt32LE(end) !== 0x06054b50) throw new Error("the archive has no end");
  const count = bytes.readUInt16LE(end + 10);
  const files = new Map<string, Buffer>();
  let at = bytes.readUInt32LE(end + 16);
  let next = 0;
  for (let index = 0; index < count; index++) {
    if (bytes.readUInt32LE(at) !== 0x02014b50) throw new Error(`no directory entry at ${at}`);
    const [crc, size, full] = [16, 20, 24].map((place) => bytes.readUInt32LE(at + place));
    const nameLength = bytes.readUInt16LE(at + 28);
    const offset = bytes.readUInt32LE(at + 42);
    const name = bytes.toString("utf8", at + 46, at + 46 + nameLength);
    if (offset !== next || bytes.readUInt32LE(offset) !== 0x04034b50) throw new Error(`no file at ${offset}`);
    if (bytes.compare(bytes, at + 6, at + 30, offset + 4, offset + 28) !== 0)
      throw new Error(`the headers of ${name} differ`);
    const start = offset + 30 + nameLength;
    const content = bytes.subarray(start, start + (size ?? 0));
    if (size !== full || crc32(content) !== crc) throw new Error(`${name} is damaged`);
    if (files.has(name)) throw new Error(`${name} is there twice`);
    files.set(name, content);
    next = start + content.length;
    at += 46 + nameLength;
  }
  if (at !== end || next !== bytes.readUInt32LE(end + 16)) throw new Error("something stands between");
  return files;
}
