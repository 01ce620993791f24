/** The renderer of each format. The PDF's libraries and fonts are loaded with the first PDF: they cost a worker's start 0.3 s of CPU. */
import type { ExportFormat } from "../../core/domain/export.ts";
import { renderCsv } from "./csv.ts";
import { renderJson } from "./json.ts";
import type { Renderer } from "./renderer.ts";
import { renderText } from "./text.ts";

export const RENDERERS = {
  csv: renderCsv,
  json: renderJson,
  text: renderText,
  pdf: renderPdf,
} as const satisfies Record<ExportFormat, Renderer>;

async function* renderPdf(...args: Parameters<Renderer>): AsyncGenerator<Uint8Array> {
  const pdf = await import("./pdf/pdf.ts");
  yield* pdf.renderPdf(...args);
}
