/** The renderer of each format. */
import type { ExportFormat } from "../../core/domain/export.ts";
import { renderCsv } from "./csv.ts";
import { renderJson } from "./json.ts";
import { renderPdf } from "./pdf/pdf.ts";
import type { Renderer } from "./renderer.ts";
import { renderText } from "./text.ts";

export const RENDERERS = {
  csv: renderCsv,
  json: renderJson,
  text: renderText,
  pdf: renderPdf,
} as const satisfies Record<ExportFormat, Renderer>;
