/** Journal entries for DATEV. */

import { importRow, newRounding, placesOf, roundingRow } from "../../../core/domain/bank-import-rows.ts";
import { DATEV_PLACES, datevHead, datevRecord, toWindows1252 } from "../../../core/domain/datev.ts";
import type { ExportSummary } from "../../../core/domain/export.ts";
import { ExportRefusal } from "../../../core/domain/export-refusal-error.ts";
import { localTime } from "../../../core/domain/local-time.ts";
import type { Batches } from "../renderer.ts";
import { refuseTruncated } from "./refuse-truncated.ts";

export async function* renderDatev(summary: ExportSummary, batches: Batches): AsyncGenerator<Uint8Array> {
  refuseTruncated(summary);
  const { datev: settings, valuation, timeZone, generatedAt, oldest, newest } = summary;
  if (!settings || !valuation) throw new ExportRefusal("this format needs the DATEV settings and a currency");
  if (!oldest || !newest) throw new ExportRefusal("there are no movements to post");
  const dayOf = (instant: Date) => localTime(instant, timeZone).slice(0, 10);
  const head = {
    ...{ settings, generatedAt, currency: valuation.currency },
    ...{ firstDay: dayOf(oldest), lastDay: dayOf(newest) },
  };
  const places = placesOf(summary, DATEV_PLACES);
  const rounding = newRounding();
  const lines = (records: readonly string[]) =>
    toWindows1252(records.map((record) => `${record}\r\n`).join(""));
  yield lines(datevHead(head));
  for await (const rows of batches)
    yield lines(
      rows.flatMap((row) => {
        const made = importRow(row, summary, { rounding, places });
        return made ? [datevRecord(made, head, places)] : [];
      }),
    );
  const last = roundingRow(rounding, places);
  if (last) yield lines([datevRecord(last, head, places)]);
}
