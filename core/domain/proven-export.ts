/** An export with proofs: whoever has the file can check each confirmed movement against the chain without trusting the service. Pure. */
import { type ExportRow, exportedObject } from "./export.ts";
import { formatUnits } from "./money.ts";
import type { Hex, NetworkId } from "./networks.ts";
import { directionOf } from "./transaction.ts";

/** Maximum movements per file: each costs reading a block's receipts, and its proof takes some kilobytes. */
export const PROOF_ROWS_MAX = 1_000;
export const PROVEN_FORMAT = "usdc-movements-with-proofs/1";

export type ProvenWallet = { network: NetworkId; address: Hex };
export type ProvenTotals = { rows: number; confirmed: number; moneyIn: string; moneyOut: string };

/** The file's own summary: after removing or adding rows they no longer add up to it. */
export function totalsOf(rows: readonly ExportRow[]): ProvenTotals {
  const confirmed = rows.filter(({ status }) => status === "CONFIRMED");
  const sum = (direction: "in" | "out") =>
    confirmed
      .filter(({ type }) => directionOf(type) === direction)
      .reduce((total, { amountUnits }) => total + amountUnits, 0n);
  return {
    rows: rows.length,
    confirmed: confirmed.length,
    moneyIn: formatUnits(sum("in")),
    moneyOut: formatUnits(sum("out")),
  };
}

/** A row of the file, without its proof. */
export function provenObject(row: ExportRow, timeZone: string) {
  return exportedObject(row, { profile: "accounting", timeZone });
}
