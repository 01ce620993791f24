/** Texts, numbers and times in the reader's language. Texts are looked up by their English form, which is shown where a translation is missing. */
import { page } from "./page-data.ts";

const locale = page.language;
/** Latin digits everywhere: an amount is compared with what a wallet shows. */
const digits = `${locale}-u-nu-latn`;

export function say(text: string, values: Readonly<Record<string, string | number>> = {}): string {
  return (page.messages[text] ?? text).replace(/\{(\w+)\}/g, (place, name: string) =>
    String(values[name] ?? place),
  );
}

const amounts = new Intl.NumberFormat(digits, { minimumFractionDigits: 2, maximumFractionDigits: 6 });
const counts = new Intl.NumberFormat(digits);
const tenths = new Intl.NumberFormat(digits, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
/** "1.000" is a thousand in the reader's language. */
export const groupsWithPoint = counts.format(12_345).includes(".");

/** `amount`: decimal text or a number of USDC. Decimal text is formatted without becoming a float. */
export function formatAmount(amount: string | number): string {
  return amounts.format(amount as Intl.StringNumericLiteral);
}

export const formatCount = (count: number) => counts.format(count);

/** `one` for a single thing, `many` for every other number; both may have `{count}`. */
export const sayCount = (count: number, one: string, many: string) =>
  say(count === 1 ? one : many, { count: formatCount(count) });

/** The index of "payments.2.to" in its list; -1 for a field of no list. */
export const itemOf = (field = ""): number => Number(/^\w+\.(\d+)/.exec(field)?.[1] ?? -1);

/**
 * An error of the API in the reader's language; without a translation it is shown as the API wrote it. `field`: the one it names, which is not
 * the label on the screen. For one of a list the screen says which line it is (`itemOf`).
 */
export function sayError(message: string, field?: string): string {
  const name = `${field} `;
  const what = message.startsWith(name) ? message.slice(name.length) : message;
  return sayWritten("error ", what) ?? (itemOf(field) < 0 ? message : what);
}

/** Why the service could not do something: translated, or quoted as its own words. */
export const sayReason = (reason: string) => sayWritten("reason ", reason) ?? say("{reason}", { reason });

/** English words of the service, by the text for them whose name begins with `kind` and may have places for words. */
function sayWritten(kind: string, words: string): string | undefined {
  for (const name in page.messages) {
    if (!name.startsWith(kind)) continue;
    const pattern = name.replace(/[^\w {}]/g, "\\$&").replace(/\{(\w+)\}/g, "(?<$1>\\S+)");
    const found = new RegExp(`^${pattern}$`).exec(kind + words);
    if (found) return say(name, found.groups);
  }
  return undefined;
}

const DAY_MS = 86_400_000;
/** Writes an instant; a plain date or month is one of UTC. */
function writer(options: Intl.DateTimeFormatOptions): (time: string | Date) => string {
  const format = new Intl.DateTimeFormat(digits, options);
  return (time) => format.format(new Date(time));
}
const times = writer({ timeStyle: "short" });
const days = writer({ day: "numeric", month: "short" });
const dates = writer({ day: "numeric", month: "short", year: "numeric" });

/** The time if it is today, the day if it is this year, otherwise the date. */
export function formatShort(iso: string): string {
  const time = new Date(iso);
  const now = new Date();
  if (time.toDateString() === now.toDateString()) return times(time);
  if (Math.abs(now.getTime() - time.getTime()) < 300 * DAY_MS) return `${days(time)}, ${times(time)}`;
  return dates(time);
}

export const formatFull = writer({ dateStyle: "medium", timeStyle: "long" });
/** Of a plain date, which has no time zone. */
export const formatDay = writer({ weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });
/** The day of an instant, with its year, in a time zone. */
export const formatDateIn = (iso: string, timeZone: string) => writer({ dateStyle: "medium", timeZone })(iso);
/** Of a plain date, with its year. */
export const formatDate = (date: string) => formatDateIn(date, "UTC");
/** Of a month such as 2026-10. */
export const formatMonth = writer({ month: "long", year: "numeric", timeZone: "UTC" });
export const toUtc = (iso: string) => `${iso.slice(0, 19).replace("T", " ")} UTC`;

export function formatBytes(count: number): string {
  if (count < 1_000) return `${count} B`;
  return count < 1_000_000 ? `${tenths.format(count / 1_000)} kB` : `${tenths.format(count / 1_000_000)} MB`;
}

export function shorten(hex: string): string {
  return hex.length <= 16 ? hex : `${hex.slice(0, 8)}…${hex.slice(-6)}`;
}
