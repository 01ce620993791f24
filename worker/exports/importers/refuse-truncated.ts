/** Files for importers and scheduled files must be complete: a file that would leave money out is refused. */

import { EXPORT_ROWS_MAX, type ExportSummary } from "../../../core/domain/export.ts";
import { ExportRefusal } from "../../../core/domain/export-refusal-error.ts";

/** Throws ExportRefusal. */
export function refuseTruncated({ rows, matched }: Pick<ExportSummary, "rows" | "matched">): void {
  if (matched > rows)
    throw new ExportRefusal(
      `this format holds at most ${EXPORT_ROWS_MAX} movements, but ${matched} match: choose a shorter period`,
    );
}
