/** What every format is given and gives. Rows come in batches, newest first; pieces of the file go out as soon as they are whole. */
import type { ExportRow, ExportSummary } from "../../core/domain/export.ts";

export type Batches = AsyncIterable<readonly ExportRow[]>;
export type Renderer = (summary: ExportSummary, batches: Batches) => AsyncGenerator<Uint8Array>;

const encoder = new TextEncoder();

export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}
