/** The interface of all formats. Rows arrive in batches, newest first; chunks of the file are emitted as soon as they are complete. */
import type { ExportRow, ExportSummary } from "../../core/domain/export.ts";

export type Batches = AsyncIterable<readonly ExportRow[]>;
export type Renderer = (summary: ExportSummary, batches: Batches) => AsyncGenerator<Uint8Array>;

const encoder = new TextEncoder();

export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}
