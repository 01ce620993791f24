/** Rates as integers: files of rates, crossing two of them, the day whose rate counts, and rounding. */
import { describe, expect, test } from "bun:test";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import {
  crossRates,
  fiatChoiceOf,
  formatRate,
  parseRate,
  rateFinder,
} from "../../core/domain/exchange-rate.ts";
import {
  decimalsOf,
  divideRounded,
  isCurrency,
  openValuation,
  toMinorUnits,
} from "../../core/domain/fiat.ts";
import { parseRateFile, RateFileError } from "../../core/domain/rate-file.ts";
import { getFile } from "../../worker/webhooks/public-request.ts";

const TODAY = "2026-11-22";
const rate = (text: string) => parseRate(text) ?? 0n;

const DAILY_XML = `<?xml version="1.0" encoding="UTF-8"?>
<gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01" xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref">
	<gesmes:subject>Reference rates</gesmes:subject>
	<Cube>
		<Cube time='2026-11-20'>
			<Cube currency='USD' rate='1.0834'/>
			<Cube currency='JPY' rate='163.21'/>
		</Cube>
	</Cube>
</gesmes:Envelope>
`;
const DAILY_CSV = "Date, USD, JPY, \n20 November 2026, 1.0834, 163.21, \n";
const SINCE_1999_CSV = "Date,USD,JPY,HRK,\n2026-11-20,1.0834,163.21,N/A,\n2026-11-19,1.08,163,N/A,\n";
const JSON_FILE = JSON.stringify({
  base: "EUR",
  date: "2026-11-20",
  rates: { EUR: 1, USD: 1.0834, JPY: 163.21 },
});
const EXPECTED = [
  { base: "EUR", day: "2026-11-20", currency: "USD", rateE10: 10_834_000_000n },
  { base: "EUR", day: "2026-11-20", currency: "JPY", rateE10: 1_632_100_000_000n },
];

describe("a file of rates", () => {
  test.each([
    ["XML", DAILY_XML],
    ["daily CSV", DAILY_CSV],
    ["JSON", JSON_FILE],
  ])("is read as %s", (_name, text) => {
    expect(parseRateFile(text, TODAY)).toEqual(EXPECTED);
  });

  test("with many days has a rate for each, and none where it says N/A", () => {
    const read = parseRateFile(SINCE_1999_CSV, TODAY);
    expect(read.length).toBe(4);
    expect(read.slice(0, 2)).toEqual(EXPECTED);
    expect(read[2]).toEqual({ base: "EUR", day: "2026-11-19", currency: "USD", rateE10: rate("1.08") });
  });

  test.each([
    ["is cut off", DAILY_XML.slice(0, -30)],
    ["has a rate that is no number", DAILY_XML.replace("163.21", "1.6.3")],
    ["has a rate of zero", DAILY_XML.replace("163.21", "0.00")],
    ["has an element of another shape", DAILY_XML.replace("<Cube currency='JPY'", "<Cube name='JPY'")],
    ["has a day that does not exist", DAILY_XML.replace("2026-11-20", "2026-02-30")],
    ["has a future day", DAILY_XML.replace("2026-11-20", "2026-11-24")],
    ["names a currency twice on a day", DAILY_XML.replace("'JPY'", "'USD'")],
    ["holds no rates", DAILY_XML.replace(/<Cube currency[^>]*>/g, "")],
    ["is CSV with a missing cell", DAILY_CSV.replace(", 163.21", "")],
    ["is CSV with an empty cell", SINCE_1999_CSV.replace("163.21", "")],
    ["has a tag that does not end", DAILY_XML.replace("'163.21'/>", "'163.21'")],
    ["is 4 MB of tags that do not end", "<".repeat(4_000_000) + DAILY_XML.slice(-18)],
    ["is a page", "<html><body>Sign in</body></html>"],
    ["is text", "Service unavailable"],
    ["is JSON without a base", JSON_FILE.replace('"EUR","date"', '"","date"')],
    ["is half of a JSON", JSON_FILE.slice(0, -2)],
    ["is CSV of another first column", DAILY_CSV.replace("Date", "Day")],
    ["is CSV of a currency in small letters", DAILY_CSV.replace("USD", "usd")],
    ["has a rate of its own base", DAILY_CSV.replace("USD", "EUR")],
    ["is JSON without a date", JSON_FILE.replace('"date"', '"day"')],
    ["is JSON without rates", JSON_FILE.replace(/\{"EUR".*?\}/, "null")],
    ["has a rate with an exponent", JSON_FILE.replace("163.21", "1e-7")],
  ])("that %s is refused entirely", (_name, text) => {
    expect(() => parseRateFile(text, TODAY)).toThrow(RateFileError);
  });

  test("may have the day after today, for zones that are ahead", () => {
    expect(parseRateFile(DAILY_XML.replace("2026-11-20", "2026-11-23"), TODAY).length).toBe(2);
  });
});

test("the requested currency overrides the setting, and without either nothing is valued", () => {
  const settings = { fiatCurrency: "EUR", rateSource: "own", usdcRate: "source" } as const;
  const choice = { currency: "EUR", source: "own", usdcRate: "source", isCorrected: false } as const;
  expect(fiatChoiceOf(settings, {})).toEqual(choice);
  expect(fiatChoiceOf(settings, { fiatCurrency: "CHF", correctedRates: true })).toEqual({
    ...{ ...choice, currency: "CHF", isCorrected: true },
  });
  const standard = { currency: "CHF", source: "ecb", usdcRate: "par", isCorrected: false } as const;
  expect(fiatChoiceOf(undefined, { fiatCurrency: "CHF" })).toEqual(standard);
  expect(fiatChoiceOf({ ...settings, fiatCurrency: null }, {})).toBeUndefined();
  expect(fiatChoiceOf(undefined, {})).toBeUndefined();
});

test("a rate is a positive decimal with at most ten places", () => {
  expect(parseRate("0.0000000001")).toBe(1n);
  expect(parseRate("1.0834")).toBe(10_834_000_000n);
  for (const text of [
    "0",
    "0.00000000000",
    "-1",
    "1,5",
    "1e3",
    "",
    ".5",
    "1.",
    "0.00000000001",
    "1234567890123",
  ])
    expect([text, parseRate(text)]).toEqual([text, undefined]);
  expect([formatRate(10_834_000_000n), formatRate(1n), formatRate(rate("7"))]).toEqual([
    ...["1.0834", "0.0000000001", "7"],
  ]);
});

describe("a crossed rate", () => {
  test("is the currency's number divided by the dollar's, rounded half up to ten places", () => {
    // 163.21 / 1.0834 = 150.64611408528706…
    expect(crossRates(EXPECTED, { currency: "JPY", usdcRate: "par" })).toEqual([
      { day: "2026-11-20", rateE10: rate("150.6461140853") },
    ]);
    // 1 / 1.0834 = 0.92302012183865…: the base itself
    expect(crossRates(EXPECTED, { currency: "EUR", usdcRate: "par" })).toEqual([
      { day: "2026-11-20", rateE10: rate("0.9230201218") },
    ]);
  });

  test("that rounds to zero does not exist", () => {
    const tiny = EXPECTED.map((one) => ({ ...one, rateE10: one.currency === "JPY" ? 1n : rate("3") }));
    expect(crossRates(tiny, { currency: "JPY", usdcRate: "par" })).toEqual([]);
    const half = tiny.map((one) => ({ ...one, rateE10: one.currency === "JPY" ? 1n : rate("2") }));
    expect(crossRates(half, { currency: "JPY", usdcRate: "par" })).toMatchObject([{ rateE10: 1n }]);
  });

  test("takes the source's USDC where that is wanted, and no day without both numbers", () => {
    const published = [
      ...EXPECTED,
      { base: "EUR", day: "2026-11-19", currency: "USDC", rateE10: rate("1.25") },
    ];
    expect(crossRates(published, { currency: "EUR", usdcRate: "source" })).toEqual([
      { day: "2026-11-19", rateE10: rate("0.8") },
    ]);
    expect(crossRates(published, { currency: "USD", usdcRate: "source" })).toEqual([]);
  });
});

describe("the rate of a day", () => {
  const rates = ["2026-11-12", "2026-11-13", "2026-11-23"].map((day, n) => ({ day, rateE10: BigInt(n + 1) }));
  const published = rateFinder(rates, { isPublished: true });

  test("is its own, or the last one before that is at most seven days old", () => {
    expect(published("2026-11-13")?.day).toBe("2026-11-13");
    expect(published("2026-11-20")?.day).toBe("2026-11-13");
    expect(published("2026-11-21")).toBeUndefined();
    expect(published("2026-11-11")).toBeUndefined();
  });

  test("is open until a later day is published, because its own may still come; own rates count at once", () => {
    expect(published("2026-11-23")?.rateE10).toBe(3n);
    expect(published("2026-11-24")).toBeUndefined();
    expect(rateFinder(rates, { isPublished: false })("2026-11-24")?.day).toBe("2026-11-23");
  });
});

describe("a value", () => {
  test("is rounded half away from zero, in both directions", () => {
    for (const [dividend, value] of [
      ...([
        [14n, 1n],
        [15n, 2n],
        [16n, 2n],
        [-14n, -1n],
        [-15n, -2n],
        [-16n, -2n],
        [0n, 0n],
      ] as const),
    ])
      expect([dividend, divideRounded(dividend, 10n)]).toEqual([dividend, value]);
    expect([toMinorUnits(1_004_999n, 2), toMinorUnits(1_005_000n, 2), toMinorUnits(-1_005_000n, 2)]).toEqual([
      ...[100n, 101n, -101n],
    ]);
    expect([toMinorUnits(499_999n, 0), toMinorUnits(500_000n, 0), toMinorUnits(1_234_500n, 3)]).toEqual([
      ...[0n, 1n, 1_235n],
    ]);
  });

  test("of dollars at par is the amount itself, without a source", () => {
    const choice = { currency: "USD", source: "ecb", usdcRate: "par", isCorrected: false } as const;
    expect(openValuation(choice, []).valueOf(-7n, "2026-11-20")).toEqual({
      ...{ units: -7n, rate: "1", rateDay: "2026-11-20", source: "par" },
    });
    expect(openValuation({ ...choice, usdcRate: "source" }, []).valueOf(-7n, "2026-11-20")).toBeUndefined();
    expect(openValuation({ ...choice, source: "own" }, []).valueOf(-7n, "2026-11-20")).toBeUndefined();
  });

  test("takes an earlier day's rate at once by own rates, by published ones once a later day is", () => {
    const rates = [{ day: "2026-11-20", rateE10: rate("2") }];
    const choice = { currency: "EUR", usdcRate: "par", isCorrected: false } as const;
    const value = (source: string) => openValuation({ ...choice, source }, rates).valueOf(3n, "2026-11-21");
    expect(value("own")).toEqual({ units: 6n, rate: "2", rateDay: "2026-11-20", source: "own" });
    expect(value("ecb")).toBeUndefined();
  });

  test("has the currency's places", () => {
    expect(["EUR", "JPY", "KWD", "CLF"].map(decimalsOf)).toEqual([2, 0, 3, 4]);
    expect(["EUR", "CHF", "GBP", "eur", "USDC", "XYZ", ""].filter(isCurrency)).toEqual(["EUR", "CHF", "GBP"]);
  });
});

describe("a source's file", () => {
  /** Answers every connection with these pieces. */
  const serve = (pieces: readonly (string | Uint8Array)[], { ends = true } = {}) => {
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.once("data", async () => {
        for (const piece of pieces)
          if (!socket.write(piece)) await Promise.race([once(socket, "drain"), once(socket, "close")]);
        if (ends) socket.end();
      });
    });
    return new Promise<{ url: URL; stop: () => void }>((resolve) =>
      server.listen(0, "127.0.0.1", () => {
        const { port } = server.address() as AddressInfo;
        resolve({ url: new URL(`http://127.0.0.1:${port}/rates`), stop: () => void server.close() });
      }),
    );
  };

  test("of many megabytes is read completely from small pieces, and a truncated one is refused", async () => {
    const piece = Buffer.alloc(1_024, "0123456789abcdef");
    const head = (length: number) => `HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n`;
    const pieces = Array.from({ length: 12 * 1_024 }, () => piece);
    const whole = await serve([head(pieces.length * piece.length), ...pieces]);
    const text = await getFile(whole.url, { allowPrivate: true });
    whole.stop();
    expect([text.length, text.slice(-16)]).toEqual([12 * 1_024 * 1_024, "0123456789abcdef"]);
    const short = await serve([head(2_049), piece, piece]);
    await expect(getFile(short.url, { allowPrivate: true })).rejects.toThrow("the file is incomplete");
    short.stop();
  });

  test("with endless headers is not read to the end", async () => {
    const line = Buffer.from(`x-more: ${"y".repeat(1_000)}\r\n`);
    // no end of the connection: only the limit ends the reading before the timeout
    const endless = await serve(["HTTP/1.1 200 OK\r\n", ...Array.from({ length: 80 }, () => line)], {
      ends: false,
    });
    await expect(getFile(endless.url, { allowPrivate: true })).rejects.toThrow("the file is incomplete");
    endless.stop();
  });
});
