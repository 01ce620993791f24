/** A statement as camt.053. */
import { createHash } from "node:crypto";
import { importRow, newRounding, placesOf } from "../../../core/domain/bank-import-rows.ts";
import {
  CAMT_END,
  CAMT_PLACES,
  type CamtHead,
  camtBalances,
  camtDifference,
  camtEntry,
  camtStart,
} from "../../../core/domain/camt053.ts";
import { ExportRefusal } from "../../../core/domain/export-refusal-error.ts";
import type { StatementHead } from "../../../core/domain/statement.ts";
import { utf8 } from "../renderer.ts";
import type { StatementBatches } from "../statement/build-statement.ts";

export async function* renderCamt053(
  head: StatementHead,
  batches: StatementBatches,
): AsyncGenerator<Uint8Array> {
  const { valuation, timeZone } = head;
  if (!valuation) throw new ExportRefusal("this format needs a currency");
  const summary = { valuation, timeZone };
  const places = placesOf(summary, CAMT_PLACES);
  const rounding = newRounding();
  const id = idOf(head, valuation.currency);
  const given: CamtHead = { head, valuation, places, id };
  const balances = camtBalances(given);
  yield utf8(camtStart(given, balances));
  for await (const lines of batches)
    yield utf8(
      lines
        .map(({ row }) => {
          const made = importRow(row, summary, { rounding, places });
          return made ? camtEntry(made, given, row.id) : "";
        })
        .join(""),
    );
  const difference = camtDifference(balances, rounding.minorUnits);
  if (difference) yield utf8(camtEntry(difference, given, `${id}-diff`));
  yield utf8(CAMT_END);
}

/**
 * Importers skip a statement whose id they know, so the id is the same for the same wallet, period and currency, and different for any other, such
 * as a quarter that begins with the same month, or a full month after a partial one. 30 of the 35 characters that the format allows.
 */
function idOf({ walletId, from, before, isFinal }: StatementHead, currency: string): string {
  const place = [walletId, from.toISOString(), before.toISOString(), isFinal, currency].join(" ");
  return createHash("sha256").update(place).digest("hex").slice(0, 30);
}
