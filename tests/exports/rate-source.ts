/** A source of exchange rates on this machine: the European Central Bank's file of many days, with numbers of a seed. */
import { seededRandom } from "../support/seeded-random.ts";

/** Ten-thousandths for one euro. */
export type Numbers = Record<"USD" | "GBP" | "CHF", bigint>;
export type RateSourceServer = {
  url: string;
  days: Map<string, Numbers>;
  /** What is served instead of the file. */
  serve: (text: string | undefined) => void;
  stop: () => void;
};

/** Weekdays from `first` to `last`. */
export function startRateSource(first: string, last: string, seed: string): RateSourceServer {
  const random = seededRandom(seed);
  const days = new Map<string, Numbers>();
  for (let at = Date.parse(first); at <= Date.parse(last); at += 86_400_000) {
    const near = (value: number) => BigInt(Math.round(value * (0.97 + 0.06 * random())));
    const numbers = { USD: near(10_834), GBP: near(8_410), CHF: near(9_402) };
    if (![0, 6].includes(new Date(at).getUTCDay()))
      days.set(new Date(at).toISOString().slice(0, 10), numbers);
  }
  let instead: string | undefined;
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => new Response(instead ?? toXml(days), { headers: { "content-type": "text/xml" } }),
  });
  return {
    url: `http://127.0.0.1:${server.port}/eurofxref.xml`,
    days,
    serve: (text) => {
      instead = text;
    },
    stop: () => void server.stop(true),
  };
}

/** The newest day first, as the bank writes it. */
export function toXml(days: RateSourceServer["days"]): string {
  const cubes = [...days].toReversed().map(([day, numbers]) => {
    const rates = Object.entries(numbers).map(
      ([currency, value]) =>
        `<Cube currency="${currency}" rate="${value / 10_000n}.${String(value % 10_000n).padStart(4, "0")}"/>`,
    );
    return `<Cube time="${day}">${rates.join("")}</Cube>`;
  });
  return `<?xml version="1.0" encoding="UTF-8"?><gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01"><Cube>${cubes.join("\n")}</Cube></gesmes:Envelope>`;
}

/** The source's number for one USDC at par, times 10^10, half up, and its day: by arithmetic of its own. */
export function rateOf(
  { days }: Pick<RateSourceServer, "days">,
  currency: string,
  day: string,
): { day: string; rate: bigint } | undefined {
  for (let back = 0; back <= 7; back += 1) {
    const date = new Date(Date.parse(day) - back * 86_400_000).toISOString().slice(0, 10);
    const numbers = days.get(date);
    if (!numbers) continue;
    const price = currency === "EUR" ? 10_000n : numbers[currency as keyof Numbers];
    const tenth = (price * 10n ** 11n) / numbers.USD;
    return { day: date, rate: tenth / 10n + (tenth % 10n >= 5n ? 1n : 0n) };
  }
  return undefined;
}

/** Divides and rounds half away from zero. */
export function half(value: bigint, by: bigint): bigint {
  return value < 0n ? -half(-value, by) : (value * 2n + by) / (by * 2n);
}
