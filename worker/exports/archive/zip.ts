/**
 * A ZIP archive as a stream (APPNOTE 6.3.10). A file whose bytes are available is stored uncompressed, since PDFs are compressed internally; one that
 * is streamed is deflated, and its size and checksum follow it. Only names and offsets are kept for the directory at the end.
 * ZIP64 is not supported: files and archives must be below 4 GiB, with at most 65,534 files.
 */
import { once } from "node:events";
import { crc32, createDeflateRaw } from "node:zlib";

export type ZipFile = { name: string; modifiedAt: Date } & (
  | { bytes: Uint8Array }
  | { pieces: AsyncIterable<Uint8Array> }
);

const LOCAL_HEADER = 0x04034b50;
const DATA_DESCRIPTOR = 0x08074b50;
const DIRECTORY_ENTRY = 0x02014b50;
const END_OF_DIRECTORY = 0x06054b50;
const VERSION = 20;
/** Names are UTF-8. */
const FLAGS = 0x0800;
const HAS_DESCRIPTOR = 0x0008;
const STORED = 0;
const DEFLATED = 8;
/** Compression level: half the CPU time of the default, for tables that are a few percent larger. */
const DEFLATE_LEVEL = 3;
/** The maximum value of a field means that the actual value is stored elsewhere (ZIP64). */
const FILES_MAX = 0xfffe;
const BYTES_MAX = 0xfffffffe;

type Entry = {
  name: Buffer;
  flags: number;
  method: number;
  crc: number;
  size: number;
  packedSize: number;
  offset: number;
  stamp: number;
};

/** Throws when the archive exceeds the limits of the format. */
export async function* zip(files: AsyncIterable<ZipFile>): AsyncGenerator<Uint8Array> {
  const entries: Entry[] = [];
  let offset = 0;
  for await (const file of files) {
    const entry = entryOf(file, offset);
    entries.push(entry);
    if (entries.length > FILES_MAX) throw new Error("the archive contains too many files");
    for await (const piece of "bytes" in file
      ? storedFile(entry, file.bytes)
      : deflatedFile(entry, file.pieces)) {
      offset += piece.byteLength;
      if (offset > BYTES_MAX || entry.size > BYTES_MAX) throw new Error("the archive is too large");
      yield piece;
    }
  }
  const directory = Buffer.concat(entries.map(directoryEntry));
  const end = Buffer.alloc(22);
  end.writeUInt32LE(END_OF_DIRECTORY, 0);
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(directory.length, 12);
  end.writeUInt32LE(offset, 16);
  yield Buffer.concat([directory, end]);
}

function entryOf(file: ZipFile, offset: number): Entry {
  const about = { name: Buffer.from(file.name), offset, stamp: dosTime(file.modifiedAt) };
  if (!("bytes" in file))
    return { ...about, flags: FLAGS | HAS_DESCRIPTOR, method: DEFLATED, crc: 0, size: 0, packedSize: 0 };
  const size = file.bytes.byteLength;
  return { ...about, flags: FLAGS, method: STORED, crc: crc32(file.bytes), size, packedSize: size };
}

async function* storedFile(entry: Entry, bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield Buffer.concat([localHeader(entry), bytes]);
}

/** Deflates in a runtime thread; sets the sizes and checksum in `entry`. */
async function* deflatedFile(entry: Entry, pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield localHeader(entry);
  const packer = createDeflateRaw({ level: DEFLATE_LEVEL });
  const packed: Buffer[] = [];
  packer.on("data", (piece: Buffer) => {
    entry.packedSize += piece.byteLength;
    packed.push(piece);
  });
  // thrown by the write below, or when waiting for the end
  packer.on("error", () => {});
  try {
    for await (const piece of pieces) {
      entry.crc = crc32(piece, entry.crc);
      entry.size += piece.byteLength;
      await new Promise<void>((resolve, reject) =>
        packer.write(piece, (error) => (error ? reject(error) : resolve())),
      );
      yield* packed.splice(0);
    }
    const ended = once(packer, "end");
    packer.end();
    await ended;
    yield* packed.splice(0);
  } finally {
    packer.destroy();
  }
  const descriptor = Buffer.alloc(16);
  descriptor.writeUInt32LE(DATA_DESCRIPTOR, 0);
  writeSizes(descriptor, entry, 4);
  yield descriptor;
}

function localHeader(entry: Entry): Buffer {
  const head = Buffer.alloc(30);
  head.writeUInt32LE(LOCAL_HEADER, 0);
  head.writeUInt16LE(VERSION, 4);
  writeCommon(head, entry, 6);
  return Buffer.concat([head, entry.name]);
}

/** The fields that a file's local header and its directory entry share. */
function writeCommon(head: Buffer, entry: Entry, at: number): void {
  head.writeUInt16LE(entry.flags, at);
  head.writeUInt16LE(entry.method, at + 2);
  head.writeUInt32LE(entry.stamp, at + 4);
  writeSizes(head, entry, at + 8);
  head.writeUInt16LE(entry.name.length, at + 20);
}

/** Zeros in the header of a file whose sizes follow it. */
function writeSizes(head: Buffer, { crc, size, packedSize }: Entry, at: number): void {
  head.writeUInt32LE(crc, at);
  head.writeUInt32LE(packedSize, at + 4);
  head.writeUInt32LE(size, at + 8);
}

function directoryEntry(entry: Entry): Buffer {
  const head = Buffer.alloc(46);
  head.writeUInt32LE(DIRECTORY_ENTRY, 0);
  head.writeUInt16LE(VERSION, 4);
  head.writeUInt16LE(VERSION, 6);
  writeCommon(head, entry, 8);
  head.writeUInt32LE(entry.offset, 42);
  return Buffer.concat([head, entry.name]);
}

/** Time in the low half, date in the high one; in UTC. */
function dosTime(instant: Date): number {
  const time =
    (instant.getUTCHours() << 11) | (instant.getUTCMinutes() << 5) | (instant.getUTCSeconds() >> 1);
  const date =
    ((instant.getUTCFullYear() - 1980) << 9) | ((instant.getUTCMonth() + 1) << 5) | instant.getUTCDate();
  return date * 0x10000 + time;
}
