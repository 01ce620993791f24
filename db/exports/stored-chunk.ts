/** A stored chunk of an export's file, compressed if that makes it smaller. */
import { constants, zstdCompressSync } from "node:zlib";

/** `isZstd`: `bytes` are a zstd frame of the chunk, not the chunk itself. */
export type StoredChunk = { bytes: Uint8Array; isZstd: boolean };

/**
 * The lowest level: 64 kB of JSON take 0.2 ms and shrink to a sixth. Higher levels take more time than they save the database.
 * The frame's checksum turns a changed byte into an error instead of a wrong file.
 */
const FRAME = {
  params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 },
};
/** Minimum saving: already compressed formats (xlsx, pdf) would shrink by a few percent, which is not worth decompressing them. */
const WORTH_SHARE = 0.9;

/** Synchronous, like decompression: 64 kB take far less than a millisecond, and another thread would not save CPU time. */
export function packChunk(chunk: Uint8Array): StoredChunk {
  const frame = zstdCompressSync(chunk, FRAME);
  if (frame.byteLength > chunk.byteLength * WORTH_SHARE) return { bytes: chunk, isZstd: false };
  return { bytes: frame, isZstd: true };
}

/** Throws when the bytes differ from those stored. Uses Bun, because node:zlib treats a truncated frame as an empty one. */
export function unpackChunk({ bytes, isZstd }: StoredChunk): Uint8Array {
  if (!isZstd) return bytes;
  // decompressed to nothing without an error
  if (bytes.byteLength === 0) throw new Error("a zstd frame is empty");
  return Bun.zstdDecompressSync(bytes);
}
