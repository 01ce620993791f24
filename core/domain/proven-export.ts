/** An export with proofs: whoever has the file can check each confirmed movement against the chain without trusting the service. Pure. */
import { type ExportRow, exportedObject } from "./export.ts";
import { formatUnits } from "./money.ts";
import { type Hex, NETWORK_IDS, type NetworkId } from "./networks.ts";
import { directionOf } from "./transaction.ts";

/** Maximum movements per file: each costs reading a block's receipts, and its proof takes some kilobytes. */
export const PROOF_ROWS_MAX = 1_000;
export const PROVEN_FORMAT = "usdc-movements-with-proofs/1";

export type ProvenWallet = { network: NetworkId; address: Hex };
export type ProvenTotals = { rows: number; confirmed: number; moneyIn: string; moneyOut: string };

/** The file's own summary, of every network: after removing or adding rows they no longer add up to it. */
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

/** The same for each network of the rows: test USDC is not added to real USDC. */
export function totalsByNetworkOf(rows: readonly ExportRow[]): (ProvenTotals & { network: NetworkId })[] {
  return NETWORK_IDS.flatMap((network) => {
    const own = rows.filter((row) => row.network === network);
    return own.length > 0 ? [{ network, ...totalsOf(own) }] : [];
  });
}

/** A row of the file, without its proof. */
export function provenObject(row: ExportRow, timeZone: string) {
  return exportedObject(row, { profile: "accounting", timeZone });
}
