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
/** "1.000" is a thousand in the reader's language. */
export const groupsWithPoint = counts
  .formatToParts(12_345)
  .some(({ type, value }) => type === "group" && value === ".");

/** `amount`: decimal text or a number of USDC. Decimal text is formatted without becoming a float. */
export function formatAmount(amount: string | number): string {
  return amounts.format(amount as Intl.StringNumericLiteral);
}

export const formatCount = (count: number) => counts.format(count);

/** `one` for a single thing, `many` for every other number; both may have `{count}`. */
export const sayCount = (count: number, one: string, many: string) =>
  say(count === 1 ? one : many, { count: formatCount(count) });

const DAY_MS = 86_400_000;
const times = new Intl.DateTimeFormat(digits, { timeStyle: "short" });
const days = new Intl.DateTimeFormat(digits, { day: "numeric", month: "short" });
const dates = new Intl.DateTimeFormat(digits, { day: "numeric", month: "short", year: "numeric" });
const full = new Intl.DateTimeFormat(digits, { dateStyle: "medium", timeStyle: "long" });
const weekdays = new Intl.DateTimeFormat(digits, {
  weekday: "short",
  day: "numeric",
  month: "short",
  timeZone: "UTC",
});

/** The time if it is today, the day if it is this year, otherwise the date. */
export function formatShort(iso: string): string {
  const time = new Date(iso);
  const now = new Date();
  if (time.toDateString() === now.toDateString()) return times.format(time);
  if (Math.abs(now.getTime() - time.getTime()) < 300 * DAY_MS)
    return `${days.format(time)}, ${times.format(time)}`;
  return dates.format(time);
}

export const formatFull = (iso: string) => full.format(new Date(iso));
/** Of a plain date, which has no time zone. */
export const formatDay = (date: string) => weekdays.format(new Date(`${date}T00:00:00Z`));
const bareDates = new Intl.DateTimeFormat(digits, { dateStyle: "medium", timeZone: "UTC" });
/** The same with its year. */
export const formatDate = (date: string) => bareDates.format(new Date(`${date}T00:00:00Z`));
/** The day of an instant, with its year, in a time zone. */
export const formatDateIn = (iso: string, timeZone: string) =>
  new Intl.DateTimeFormat(digits, { dateStyle: "medium", timeZone }).format(new Date(iso));
const months = new Intl.DateTimeFormat(digits, { month: "long", year: "numeric", timeZone: "UTC" });
/** Of a month such as 2026-10. */
export const formatMonth = (month: string) => months.format(new Date(`${month}-01T00:00:00Z`));
export const toUtc = (iso: string) => `${iso.slice(0, 19).replace("T", " ")} UTC`;

export function formatBytes(count: number): string {
  if (count < 1_000) return `${count} B`;
  return count < 1_000_000 ? `${(count / 1_000).toFixed(1)} kB` : `${(count / 1_000_000).toFixed(1)} MB`;
}

export function shorten(hex: string): string {
  return hex.length <= 16 ? hex : `${hex.slice(0, 8)}…${hex.slice(-6)}`;
}
