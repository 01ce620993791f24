/** Amounts as a client wrote them. JSON.parse rounds to a double; money is read from the digits in the body. */
import { invalid } from "../../core/domain/errors.ts";
import {
  formatUnits,
  LINK_AMOUNT_MAX_UNITS,
  parseUnitsFromNumber,
  USDC_DECIMALS,
} from "../../core/domain/money.ts";

/** A JSON number (RFC 8259 section 6) without a sign. */
const NUMBER = /^(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/;
const LITERAL_MAX_CHARS = 100;

/**
 * The exact micro-USDC of the number at `field` of a JSON object, from its literal: 0.1234567, 1e-7 and 0.30000000000000004 have
 * too many decimals, 1.50 and 1e2 are exact. Throws VALIDATION_ERROR when it is not a link's amount.
 */
export function readAmountUnits(bodyText: string, field: string, parsed: number): bigint {
  const literal = literalOf(bodyText, field);
  const units = literal === undefined ? parseUnitsFromNumber(parsed) : unitsOfLiteral(literal);
  if (parsed <= 0) throw invalid(field, "must be greater than 0");
  if (units === undefined) throw invalid(field, `must have at most ${USDC_DECIMALS} decimals`);
  if (units < 1n) throw invalid(field, "must be greater than 0");
  if (units > LINK_AMOUNT_MAX_UNITS)
    throw invalid(field, `must be at most ${Number(formatUnits(LINK_AMOUNT_MAX_UNITS))}`);
  return units;
}

/** Micro-USDC of a literal; undefined when it is negative, absurdly long, or finer than micro-USDC. */
function unitsOfLiteral(literal: string): bigint | undefined {
  const match = literal.length <= LITERAL_MAX_CHARS ? NUMBER.exec(literal) : null;
  if (!match) return undefined;
  const [, whole = "", fraction = "", exponent = "0"] = match;
  const digits = BigInt(whole + fraction);
  const places = USDC_DECIMALS + Number(exponent) - fraction.length;
  if (places >= 0) return digits * 10n ** BigInt(Math.min(places, LITERAL_MAX_CHARS));
  const divisor = 10n ** BigInt(-places);
  return digits % divisor === 0n ? digits / divisor : undefined;
}

type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;

/** The text of a number member of the outermost object, as it was sent. */
function literalOf(bodyText: string, field: string): string | undefined {
  const sources = new Map<unknown, string>();
  const noteSource: Reviver = function (key, value, context) {
    if (key === field && typeof value === "number" && context?.source) sources.set(this, context.source);
    return value;
  };
  return sources.get(JSON.parse(bodyText, noteSource));
}
