/** JSON: an array of transactions in the list's format, one per line. */
import { type ExportSummary, exportedObject } from "../../core/domain/export.ts";
import { type Batches, utf8 } from "./renderer.ts";

export async function* renderJson(summary: ExportSummary, batches: Batches): AsyncGenerator<Uint8Array> {
  let separator = "[\n";
  for await (const rows of batches) {
    if (rows.length === 0) continue;
    yield utf8(separator + rows.map((row) => JSON.stringify(exportedObject(row, summary))).join(",\n"));
    separator = ",\n";
  }
  yield utf8(separator === "[\n" ? "[]\n" : "\n]\n");
}
