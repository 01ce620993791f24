/** What is wrong with an amount that a person typed. English texts, to be translated. */
import { readUnits } from "../send/check-signed-operation.ts";

export const TWO_READINGS = "The amount can be read in two ways: write it with a point, such as 12.50.";
export const NOT_AN_AMOUNT = "Not an amount: use at most 6 decimal places, such as 12.50.";

const THOUSANDS = /^[1-9]\d{0,2}(?:,\d{3})+$/;

/** Undefined for an amount that can be read in one way. "1,000" is a thousand, or one with a decimal comma. */
export function faultOfAmount(typed: string): string | undefined {
  if (THOUSANDS.test(typed.trim())) return TWO_READINGS;
  return readUnits(typed) === undefined ? NOT_AN_AMOUNT : undefined;
}
