/** A chunk of an export's file as it is stored: compressed where that makes it smaller. */
import { constants, zstdCompressSync } from "node:zlib";

/** `isZstd`: `bytes` are a zstd frame of the chunk, not the chunk itself. */
export type StoredChunk = { bytes: Uint8Array; isZstd: boolean };

/**
 * The lowest level: 64 kB of JSON take 0.2 ms, and a sixth of them is left. Higher ones take more time than they save the database. The
 * frame's checksum makes a changed byte an error instead of a file that is wrong.
 */
const FRAME = {
  params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 },
};
/** Of compressed formats (xlsx, pdf) a few percent could be saved, not worth unpacking them. */
const WORTH_SHARE = 0.9;

/** Synchronous, as unpacking is: 64 kB take far less than a millisecond, and another thread would need no less CPU. */
export function packChunk(chunk: Uint8Array): StoredChunk {
  const frame = zstdCompressSync(chunk, FRAME);
  if (frame.byteLength > chunk.byteLength * WORTH_SHARE) return { bytes: chunk, isZstd: false };
  return { bytes: frame, isZstd: true };
}

/** Throws when the bytes are not those that were stored. By Bun: node:zlib takes a frame that was cut for one of nothing. */
export function unpackChunk({ bytes, isZstd }: StoredChunk): Uint8Array {
  if (!isZstd) return bytes;
  // unpacked to nothing, without an error
  if (bytes.byteLength === 0) throw new Error("a zstd frame is empty");
  return Bun.zstdDecompressSync(bytes);
}
