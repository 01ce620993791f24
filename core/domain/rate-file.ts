/**
 * Reads a file of exchange rates: the European Central Bank's XML and CSV (daily, 90 days and since 1999), and a JSON object with base,
 * date and rates. A file with any error is rejected as a whole. Pure.
 */

import { addDays, type PublishedRate, parseRate } from "./exchange-rate.ts";
import { isDay } from "./local-days.ts";

/** Days since 1999 times the currencies per day. */
const RATES_MAX = 500_000;
const CURRENCY = /^[A-Z]{3,4}$/;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const ECB_BASE = "EUR";

/** A description of the error for the operator. */
export class RateFileError extends Error {
  override readonly name = "RateFileError";
}

/** `today` bounds the days: a rate of a later day than tomorrow is refused. Throws RateFileError. */
export function parseRateFile(text: string, today: string): PublishedRate[] {
  const body = text.replace(/^\ufeff/, "").trim();
  const rates = body.startsWith("<") ? readXml(body) : body.startsWith("{") ? readJson(body) : readCsv(body);
  if (rates.length === 0) throw new RateFileError("the file contains no rates");
  if (rates.length > RATES_MAX) throw new RateFileError(`the file contains more than ${RATES_MAX} rates`);
  const seen = new Set<string>();
  for (const { day, currency, base } of rates) {
    if (day > addDays(today, 1)) throw new RateFileError(`${day} is in the future`);
    if (seen.has(`${day} ${currency}`)) throw new RateFileError(`${currency} appears twice on ${day}`);
    if (currency === base) throw new RateFileError(`${currency} is the file's own base currency`);
    seen.add(`${day} ${currency}`);
  }
  return rates;
}

/** Matches in linear time, because no tag may contain the start of another. */
const TAG = /<[^<>]*>/g;
const OPEN_TAG = /<[^>]*</;
const DAY_CUBE = /^<Cube time=(["'])(\d{4}-\d{2}-\d{2})\1>$/;
const RATE_CUBE = /^<Cube currency=(["'])([A-Z]{3,4})\1 rate=(["'])([0-9.]+)\3 ?\/>$/;

function readXml(text: string): PublishedRate[] {
  if (!/<\/gesmes:Envelope>$/.test(text)) throw new RateFileError("the XML does not end with its envelope");
  if (OPEN_TAG.test(text)) throw new RateFileError("the XML has a tag that does not end");
  const rates: PublishedRate[] = [];
  let day = "";
  for (const [tag] of text.matchAll(TAG)) {
    if (!/\bCube\b/.test(tag)) continue;
    const isDayTag = DAY_CUBE.exec(tag);
    const rate = RATE_CUBE.exec(tag);
    if (isDayTag) day = readDay(isDayTag[2] ?? "");
    else if (rate && day !== "") rates.push(readRate(ECB_BASE, day, rate[2] ?? "", rate[4] ?? ""));
    else if (tag === "</Cube>") continue;
    else if (tag !== "<Cube>") throw new RateFileError(`unexpected element ${tag.slice(0, 80)}`);
  }
  return rates;
}

/** A header of currencies, then one line per day; "N/A" means no rate, and each line may end with a comma. */
function readCsv(text: string): PublishedRate[] {
  const [header = [], ...lines] = text.split(/\r?\n/).map((line) =>
    line
      .replace(/,\s*$/, "")
      .split(",")
      .map((cell) => cell.trim()),
  );
  const [first, ...currencies] = header;
  if (first !== "Date") throw new RateFileError("the CSV does not begin with the column Date");
  return lines.flatMap(([date = "", ...cells]) => {
    if (cells.length !== currencies.length)
      throw new RateFileError(
        `the line of ${date.slice(0, 40)} has ${cells.length} rates, not ${currencies.length}`,
      );
    const day = readDay(date);
    return currencies.flatMap((currency, index) => {
      const cell = cells[index] ?? "";
      return cell === "N/A" ? [] : [readRate(ECB_BASE, day, currency, cell)];
    });
  });
}

function readJson(text: string): PublishedRate[] {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    throw new RateFileError("the file is not JSON");
  }
  const { base, date, rates } = given as Record<string, unknown>;
  if (typeof base !== "string" || !/^[A-Z]{3}$/.test(base)) throw new RateFileError("base is not a currency");
  if (typeof date !== "string") throw new RateFileError("date is missing");
  if (typeof rates !== "object" || rates === null) throw new RateFileError("rates are missing");
  const day = readDay(date);
  return Object.entries(rates)
    .filter(([currency]) => currency !== base)
    .map(([currency, rate]) => readRate(base, day, currency, String(rate)));
}

/** "2026-11-20", or "20 November 2026" as in the bank's daily CSV. */
function readDay(text: string): string {
  const spelled = /^(\d{1,2}) ([A-Z][a-z]{2})[a-z]* (\d{4})$/.exec(text);
  const month = spelled ? MONTHS.indexOf(spelled[2] ?? "") + 1 : 0;
  const day = spelled
    ? `${spelled[3]}-${String(month).padStart(2, "0")}-${spelled[1]?.padStart(2, "0")}`
    : text;
  if (!isDay(day)) throw new RateFileError(`${text.slice(0, 40)} is not a day`);
  return day;
}

function readRate(base: string, day: string, currency: string, text: string): PublishedRate {
  const rateE10 = parseRate(text);
  if (!CURRENCY.test(currency)) throw new RateFileError(`${currency.slice(0, 20)} is not a currency`);
  if (rateE10 === undefined)
    throw new RateFileError(`${text.slice(0, 40)} is not a rate of ${currency} on ${day}`);
  return { base, day, currency, rateE10 };
}
