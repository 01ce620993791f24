/** What an importer takes, or a schedule makes, must be whole: a file that leaves money out is not made. */

import { EXPORT_ROWS_MAX, type ExportSummary } from "../../../core/domain/export.ts";
import { ExportRefusal } from "../../../core/domain/export-refusal-error.ts";

/** Throws ExportRefusal. */
export function refuseTruncated({ rows, matched }: Pick<ExportSummary, "rows" | "matched">): void {
  if (matched > rows)
    throw new ExportRefusal(
      `this format holds at most ${EXPORT_ROWS_MAX} movements, but ${matched} match: choose a shorter period`,
    );
}
