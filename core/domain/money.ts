/** Money is a bigint of micro-USDC (10^-6 USDC, the token's smallest unit) everywhere inside the service; text and numbers exist only on the wire. */

export const USDC_DECIMALS = 6;
export const UNITS_PER_USDC = 1_000_000n;

const DECIMAL_TEXT = /^(\d{1,18})(?:\.(\d{1,18}))?$/;

/** Exact units of plain decimal text; undefined when it is malformed or has more than 6 significant decimal places. */
export function parseUnits(text: string): bigint | undefined {
  const match = DECIMAL_TEXT.exec(text);
  if (!match) return undefined;
  const fraction = (match[2] ?? "").replace(/0+$/, "");
  if (fraction.length > USDC_DECIMALS) return undefined;
  return BigInt(match[1] ?? "0") * UNITS_PER_USDC + BigInt(fraction.padEnd(USDC_DECIMALS, "0"));
}

/**
 * Exact units of a JSON number, read from its shortest decimal form, which is what the client wrote
 * for any amount with at most 15 significant digits. 1e-7, 1.1234567 and 0.30000000000000004 are refused.
 */
export function parseUnitsFromNumber(value: number): bigint | undefined {
  // a sign, an exponent or a name means that it is negative, below one unit, too large, or not a number
  return parseUnits(String(value));
}

/** "12.340000": always 6 places, for balances, transactions and exports. */
export function formatUnits(units: bigint): string {
  const sign = units < 0n ? "-" : "";
  const abs = units < 0n ? -units : units;
  return `${sign}${abs / UNITS_PER_USDC}.${String(abs % UNITS_PER_USDC).padStart(USDC_DECIMALS, "0")}`;
}

/** "1,234,567.890000", for documents that people read. */
export function formatGrouped(units: bigint): string {
  const [whole = "", places = ""] = formatUnits(units).split(".");
  return `${whole.replace(/\B(?=(\d{3})+$)/g, ",")}.${places}`;
}

/** The JSON number of an amount. Exact for every amount a link may have (at most 13 significant digits). */
export function toAmountNumber(units: bigint): number {
  return Number(formatUnits(units));
}
