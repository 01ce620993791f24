/** Days and months of a time zone as instants. Pure. */
import { localTime } from "./local-time.ts";

/** From 1970 to 2999: the years of adjacent days also have four digits, and Postgres supports them. */
const DAY = /^(19[7-9]|2\d\d)\d-\d{2}-\d{2}$/;
const MONTH = /^(19[7-9]|2\d\d)\d-(0[1-9]|1[0-2])$/;

/** A period of a time zone's calendar: `from` inclusive, `before` exclusive. */
export type Period = { from: Date; before: Date };

/** Whether the date exists: 2026-02-30 does not. */
export function isDay(text: string): boolean {
  if (!DAY.test(text)) return false;
  const midnight = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(text);
}

export function isMonth(text: string): boolean {
  return MONTH.test(text);
}

/** The first instant of a day in a zone. Where clocks skip midnight it is the first instant after the gap. */
export function startOfDay(day: string, timeZone: string): Date {
  const midnight = Date.parse(`${day}T00:00:00Z`);
  const offsets = [-1, 1].map((side) => offsetMs(new Date(midnight + side * 86_400_000), timeZone));
  const candidates = offsets.map((offset) => new Date(midnight - offset)).toSorted((a, b) => +a - +b);
  const found = candidates.find((instant) => localTime(instant, timeZone).slice(0, 10) >= day);
  return found ?? new Date(midnight - Math.min(...offsets));
}

/** From the first day to the last, both inclusive. */
export function periodOfDays(first: string, last: string, timeZone: string): Period {
  const after = new Date(Date.parse(`${last}T00:00:00Z`) + 86_400_000).toISOString().slice(0, 10);
  return { from: startOfDay(first, timeZone), before: startOfDay(after, timeZone) };
}

export function periodOfMonth(month: string, timeZone: string): Period {
  return {
    from: startOfDay(`${month}-01`, timeZone),
    before: startOfDay(`${monthAfter(month)}-01`, timeZone),
  };
}

/** The month that `instant` is in. */
export function monthOf(instant: Date, timeZone: string): string {
  return localTime(instant, timeZone).slice(0, 7);
}

/** The month before the one that `instant` is in. */
export function monthBefore(instant: Date, timeZone: string): string {
  const [year = 0, month = 1] = monthOf(instant, timeZone).split("-").map(Number);
  return month === 1 ? toMonth(year - 1, 12) : toMonth(year, month - 1);
}

export function monthAfter(month: string): string {
  const [year = 0, number = 1] = month.split("-").map(Number);
  return number === 12 ? toMonth(year + 1, 1) : toMonth(year, number + 1);
}

function toMonth(year: number, month: number): string {
  return `${String(year).padStart(4, "0")}-${String(month).padStart(2, "0")}`;
}

function offsetMs(instant: Date, timeZone: string): number {
  const local = localTime(instant, timeZone).slice(0, 19);
  return Date.parse(`${local}Z`) - Math.floor(instant.getTime() / 1000) * 1000;
}
