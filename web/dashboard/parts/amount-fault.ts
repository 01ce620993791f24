/** What is wrong with an amount that a person typed. English texts, to be translated. */
import { readUnits } from "../send/check-signed-operation.ts";

export const TWO_READINGS =
  "The amount can be read in two ways: write a thousand as 1000.00 and one as 1.00.";
export const NOT_AN_AMOUNT = "Not an amount: use at most 6 decimal places, such as 12.50.";

const THOUSANDS = /^[1-9]\d{0,2}(?:,\d{3})+$/;
const THOUSANDS_OR_POINTS = /^[1-9]\d{0,2}(?:[,.]\d{3})+$/;

/**
 * Undefined for an amount that can be read in one way. "1,000" is a thousand, or one with a decimal comma; so is "1.000" for who groups
 * digits with a point.
 */
export function faultOfAmount(typed: string, groupsWithPoint: boolean): string | undefined {
  if ((groupsWithPoint ? THOUSANDS_OR_POINTS : THOUSANDS).test(typed.trim())) return TWO_READINGS;
  return readUnits(typed) === undefined ? NOT_AN_AMOUNT : undefined;
}
