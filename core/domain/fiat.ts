/**
 * Values of movements in a currency of the merchant's books. A value has six decimal places like USDC itself; importers get that value
 * rounded to the currency's own places. Both round half away from zero. Pure.
 */
import {
  type DayRate,
  type FiatChoice,
  formatRate,
  OWN_RATES,
  RATE_DECIMALS,
  rateFinder,
} from "./exchange-rate.ts";
import { USDC_DECIMALS } from "./money.ts";

export const CURRENCY_CODE = /^[A-Z]{3}$/;
const RATE_SCALE = 10n ** BigInt(RATE_DECIMALS);
const KNOWN_CURRENCIES = new Set(Intl.supportedValuesOf("currency"));

/** A value in millionths of the currency, with the rate used. */
export type FiatValue = { units: bigint; rate: string; rateDay: string; source: string };
/** Values movements by their day; undefined when there is no rate. */
export type Valuation = {
  currency: string;
  valueOf: (units: bigint, day: string) => FiatValue | undefined;
};

export function isCurrency(code: string): boolean {
  return CURRENCY_CODE.test(code) && KNOWN_CURRENCIES.has(code);
}

/** Decimal places of a currency: 2 for EUR, 0 for JPY, 3 for KWD. */
export function decimalsOf(currency: string): number {
  return (
    new Intl.NumberFormat("en", { style: "currency", currency }).resolvedOptions().maximumFractionDigits ?? 2
  );
}

/** US dollars at par need no source. Otherwise `rates` are those of the choice's source, oldest first. */
export function openValuation(choice: FiatChoice, rates: readonly DayRate[]): Valuation {
  const { currency, source, usdcRate } = choice;
  if (currency === "USD" && usdcRate === "par" && source !== OWN_RATES)
    return { currency, valueOf: (units, day) => ({ units, rate: "1", rateDay: day, source: "par" }) };
  const find = rateFinder(rates, { isPublished: source !== OWN_RATES });
  return {
    currency,
    valueOf(units, day) {
      const found = find(day);
      if (!found) return undefined;
      const value = divideRounded(units * found.rateE10, RATE_SCALE);
      return { units: value, rate: formatRate(found.rateE10), rateDay: found.day, source };
    },
  };
}

/** Half away from zero. */
export function divideRounded(dividend: bigint, divisor: bigint): bigint {
  const magnitude = dividend < 0n ? -dividend : dividend;
  const rounded = (2n * magnitude + divisor) / (2n * divisor);
  return dividend < 0n ? -rounded : rounded;
}

/** Millionths as whole minor units: 1234567 in EUR is 123. */
export function toMinorUnits(units: bigint, decimals: number): bigint {
  return divideRounded(units, 10n ** BigInt(USDC_DECIMALS - decimals));
}
