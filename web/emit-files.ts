/** Writes built files with precompressed copies, under names that change with their content. */
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { basename, extname, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const HASH_CHARS = 10;
const COMPRESSED = new Set([".js", ".css", ".svg", ".html"]);

/** Returns the hashed name. */
export function emit(folder: string, name: string, content: Buffer): string {
  const extension = extname(name);
  const hash = createHash("sha256").update(content).digest("hex").slice(0, HASH_CHARS);
  const hashed = `${basename(name, extension)}-${hash}${extension}`;
  write(folder, hashed, content);
  return hashed;
}

export function write(folder: string, hashed: string, content: Buffer): void {
  writeFileSync(join(folder, hashed), content);
  if (!COMPRESSED.has(extname(hashed))) return;
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  writeFileSync(join(folder, `${hashed}.br`), brotliCompressSync(content, { params }));
  writeFileSync(join(folder, `${hashed}.gz`), gzipSync(content, { level: 9 }));
}
