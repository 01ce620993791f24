/** The renderer of each format. PDF libraries and fonts are loaded with the first PDF: they would add 0.3 s of CPU time to a worker's startup. */
import type { ExportFormat, ExportProfile } from "../../core/domain/export.ts";
import { BOOKS_RENDERERS } from "./bookkeeping-export.ts";
import { renderCsv } from "./csv.ts";
import { renderJson } from "./json.ts";
import type { Renderer } from "./renderer.ts";
import { renderText } from "./text-report.ts";

const RENDERERS: Partial<Record<ExportFormat, Renderer>> = {
  csv: renderCsv,
  json: renderJson,
  text: renderText,
  pdf: renderPdf,
};

/** Undefined for a format that the profile does not have. */
export function rendererOf(profile: ExportProfile, format: ExportFormat): Renderer | undefined {
  return (profile === "books" ? BOOKS_RENDERERS : RENDERERS)[format];
}

async function* renderPdf(...args: Parameters<Renderer>): AsyncGenerator<Uint8Array> {
  const pdf = await import("./pdf/pdf.ts");
  yield* pdf.renderPdf(...args);
}
