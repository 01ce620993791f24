/** Parses amounts exactly. JSON.parse rounds to a double, so money is parsed from the digits in the body. */
import { invalid } from "../../core/domain/errors.ts";
import { LINK_AMOUNT_MAX_UNITS } from "../../core/domain/link.ts";
import { formatUnits, parseUnitsFromNumber, USDC_DECIMALS } from "../../core/domain/money.ts";

/** Decimal text, which has no exponent. */
const PLAIN = /^\d+(?:\.\d+)?$/;
/** A JSON number (RFC 8259 section 6) without a sign. */
const NUMBER = /^(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/;
const LITERAL_MAX_CHARS = 100;

/**
 * The exact micro-USDC of the number at `field` of a JSON object, from its literal: 0.1234567, 1e-7 and 0.30000000000000004 have
 * too many decimals, 1.50 and 1e2 are exact. Throws VALIDATION_ERROR when it is not a valid link amount.
 */
export function readAmountUnits(bodyText: string, field: string, parsed: number): bigint {
  const { document, literals } = readLiterals(bodyText, field);
  const units = toExactUnits(field, parsed, literals.get(document));
  if (units > LINK_AMOUNT_MAX_UNITS)
    throw invalid(field, `must be at most ${Number(formatUnits(LINK_AMOUNT_MAX_UNITS))}`);
  return units;
}

/** The same without an upper bound, for a number or plain decimal text; `literal` is the number as sent. */
export function toExactUnits(field: string, given: number | string, literal: string | undefined): bigint {
  if (typeof given === "string" ? given.startsWith("-") : given <= 0)
    throw invalid(field, "must be greater than 0");
  if (typeof given === "string" && !PLAIN.test(given))
    throw invalid(field, "must be decimal text or a number");
  const units = typeof given === "string" ? unitsOfLiteral(given) : unitsOfNumber(given, literal);
  if (units === undefined) throw invalid(field, `must have at most ${USDC_DECIMALS} decimals`);
  if (units < 1n) throw invalid(field, "must be greater than 0");
  return units;
}

function unitsOfNumber(parsed: number, literal: string | undefined): bigint | undefined {
  return literal === undefined ? parseUnitsFromNumber(parsed) : unitsOfLiteral(literal);
}

/** Converts a literal to micro-USDC; undefined when it is negative, too long, or more precise than micro-USDC. */
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

/** Parses the body again, keeping the literals of the numbers at `field` by the object they are in. */
export function readLiterals(
  bodyText: string,
  field: string,
): { document: unknown; literals: ReadonlyMap<unknown, string> } {
  const literals = new Map<unknown, string>();
  const noteSource: Reviver = function (key, value, context) {
    if (key === field && typeof value === "number" && context?.source) literals.set(this, context.source);
    return value;
  };
  return { document: JSON.parse(bodyText, noteSource), literals };
}
