/**
 * Movements in the form that bank-statement importers accept: amounts in an ISO 4217 currency with few decimals. Each is rounded, and a
 * final row carries the rounding difference, so that the file adds up to the rounded total. Pure.
 */

import { type ExportRow, type ExportSummary, rowIdOf } from "./export.ts";
import { ExportRefusal } from "./export-refusal-error.ts";
import { decimalsOf, type FiatValue, toMinorUnits } from "./fiat.ts";
import { localTime } from "./local-time.ts";
import { formatUnits } from "./money.ts";
import { changeOf, detailsOf } from "./statement.ts";

export type ImportRow = {
  /** Day of the file's time zone. */
  day: string;
  /** Signed minor units of the currency, never 0. */
  minorUnits: bigint;
  kind: ExportRow["kind"] | "ROUNDING";
  description: string;
  reference: string;
  counterparty: string;
  /** The row's exact value and its place on the chain; "" for the rounding row. */
  usdc: string;
  rate: string;
  place: string;
};

/** Collects rows and the rounding difference. */
export type Rounding = { minorUnits: bigint; units: bigint; lastDay: string };

export const newRounding = (): Rounding => ({ minorUnits: 0n, units: 0n, lastDay: "" });

/** Undefined for a movement that rounds to nothing: it is in the rounding row alone. Throws ExportRefusal where a day has no rate. */
export function importRow(
  row: ExportRow,
  { valuation, timeZone }: Pick<ExportSummary, "valuation" | "timeZone">,
  { rounding, places }: { rounding: Rounding; places: number },
): ImportRow | undefined {
  if (!valuation) throw new ExportRefusal("this format needs a currency");
  const day = localTime(row.detectedAt, timeZone).slice(0, 10);
  const change = changeOf(row);
  const value = valuation.valueOf(change, day);
  if (!value) throw missingRate(valuation.currency, day);
  const minorUnits = toMinorUnits(value.units, places);
  rounding.minorUnits += minorUnits;
  rounding.units += value.units;
  rounding.lastDay = day;
  if (minorUnits === 0n) return undefined;
  return {
    day,
    minorUnits,
    kind: row.kind,
    description: detailsOf(row),
    reference: row.reference ?? "",
    counterparty: row.counterparty,
    usdc: formatUnits(change),
    rate: describeRate(value),
    place: rowIdOf(row),
  };
}

/** The row that makes the rounded values add up to the rounded sum; undefined when they already do. */
export function roundingRow({ minorUnits, units, lastDay }: Rounding, places: number): ImportRow | undefined {
  const left = toMinorUnits(units, places) - minorUnits;
  if (left === 0n) return undefined;
  return {
    day: lastDay,
    minorUnits: left,
    kind: "ROUNDING",
    description: "Rounding difference",
    reference: "",
    counterparty: "",
    usdc: "",
    rate: "",
    place: "",
  };
}

export function missingRate(currency: string, day: string): ExportRefusal {
  return new ExportRefusal(
    `there is no ${currency} rate for ${day}: see GET /v1/exchange-rates, or enter your own rate`,
  );
}

/** Decimal places of a currency in a format that allows at most `max`. */
export function placesOf({ valuation }: Pick<ExportSummary, "valuation">, max: number): number {
  return valuation ? Math.min(decimalsOf(valuation.currency), max) : max;
}

/** "-12.34" of -1234 with two places. */
export function formatMinor(minorUnits: bigint, places: number): string {
  const digits = String(minorUnits < 0n ? -minorUnits : minorUnits).padStart(places + 1, "0");
  const sign = minorUnits < 0n ? "-" : "";
  return places === 0 ? sign + digits : `${sign}${digits.slice(0, -places)}.${digits.slice(-places)}`;
}

/** "0.923 (2026-11-20, ecb)" */
export function describeRate({ rate, rateDay, source }: FiatValue): string {
  return `${rate} (${rateDay}, ${source})`;
}
