/** Exchange rates as integers: a rate times 10^10. Crosses two rates of one day, and decides which day's rate values a day. Pure. */

export const RATE_DECIMALS = 10;
const SCALE = 10n ** BigInt(RATE_DECIMALS);
const RATE_TEXT = /^(\d{1,12})(?:\.(\d{1,10}))?$/;
/** A day without a rate uses the last rate before it, unless that is older than this. */
export const RATE_AGE_MAX_DAYS = 7;
/** The rate source of merchants who enter their own rates. */
export const OWN_RATES = "own";
/** Days for which a merchant may enter a rate, over all currencies: enough for two currencies over more than 30 years. */
export const OWN_RATES_MAX = 25_000;
/** Maximum days per request when each has its own rate. */
export const OWN_RATES_AT_ONCE_MAX = 1_000;
export const RATE_SOURCE = /^[a-z][a-z0-9-]{0,31}$/;

export type UsdcRate = "par" | "source";
/** How movements are valued: in which currency, with which source's rates, what one USDC is worth, and whether later corrections of a rate count. */
export type FiatChoice = { currency: string; source: string; usdcRate: UsdcRate; isCorrected: boolean };
export const DEFAULT_RATE_SOURCE = "ecb";

/** The merchant's settings, overridden by the request. Undefined when neither names a currency. */
export function fiatChoiceOf(
  settings: { fiatCurrency: string | null; rateSource: string; usdcRate: UsdcRate } | undefined,
  asked: { fiatCurrency?: string | null | undefined; correctedRates?: boolean | undefined },
): FiatChoice | undefined {
  const currency = asked.fiatCurrency ?? settings?.fiatCurrency;
  if (!currency) return undefined;
  return {
    currency,
    source: settings?.rateSource ?? DEFAULT_RATE_SOURCE,
    usdcRate: settings?.usdcRate ?? "par",
    isCorrected: asked.correctedRates ?? false,
  };
}

/** Units of `currency` for one unit of `base`. */
export type PublishedRate = { day: string; base: string; currency: string; rateE10: bigint };
export type DayRate = { day: string; rateE10: bigint };
/** Consecutive days with the same rate, both inclusive. */
export type RatePeriod = { firstDay: string; lastDay: string; rateE10: bigint; enteredAt: Date };

/** Undefined unless it is a positive decimal with at most 10 decimal places. */
export function parseRate(text: string): bigint | undefined {
  const match = RATE_TEXT.exec(text);
  if (!match) return undefined;
  const rate = BigInt(match[1] ?? "0") * SCALE + BigInt((match[2] ?? "").padEnd(RATE_DECIMALS, "0"));
  return rate > 0n ? rate : undefined;
}

/** "1.0834": as many places as it needs. */
export function formatRate(rateE10: bigint): string {
  const fraction = String(rateE10 % SCALE)
    .padStart(RATE_DECIMALS, "0")
    .replace(/0+$/, "");
  return fraction === "" ? String(rateE10 / SCALE) : `${rateE10 / SCALE}.${fraction}`;
}

/** Where the price of one USDC comes from: US dollars at par, or the source's own USDC rate. */
export function pricedAs(usdcRate: UsdcRate): "USD" | "USDC" {
  return usdcRate === "par" ? "USD" : "USDC";
}

/**
 * Units of `currency` per USDC, for each day on which the source published both numbers needed, oldest first. Rounded half up to 10
 * decimal places: the rounded number is both printed and used for calculation.
 */
export function crossRates(
  published: readonly PublishedRate[],
  { currency, usdcRate }: Pick<FiatChoice, "currency" | "usdcRate">,
): DayRate[] {
  const against = pricedAs(usdcRate);
  const days = new Map<string, { base: string; rates: Map<string, bigint> }>();
  for (const { day, base, currency: of, rateE10 } of published) {
    const known = days.get(day) ?? { base, rates: new Map([[base, SCALE]]) };
    days.set(day, known);
    known.rates.set(of, rateE10);
  }
  const crossed = [...days].flatMap(([day, { rates }]) => {
    const [price, per] = [rates.get(currency), rates.get(against)];
    return price && per ? [{ day, rateE10: (2n * price * SCALE + per) / (2n * per) }] : [];
  });
  return crossed.filter(({ rateE10 }) => rateE10 > 0n).toSorted((a, b) => (a.day < b.day ? -1 : 1));
}

/**
 * The rate of a day: its own, else the last one before, at most 7 days old. With `isPublished` an earlier rate counts only once a later day
 * was published, because until then the day's own rate may still arrive: a value once shown never changes by itself.
 */
export function rateFinder(
  rates: readonly DayRate[],
  { isPublished }: { isPublished: boolean },
): (day: string) => DayRate | undefined {
  const byDay = new Map(rates.map((rate) => [rate.day, rate]));
  const newest = rates.at(-1)?.day ?? "";
  return (day) => {
    for (let age = 0; age <= RATE_AGE_MAX_DAYS; age += 1) {
      const found = byDay.get(addDays(day, -age));
      if (found) return age === 0 || !isPublished || newest > day ? found : undefined;
    }
    return undefined;
  };
}

/** The calendar day that many days later. */
export function addDays(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);
}
