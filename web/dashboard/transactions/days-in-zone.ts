/** Days that a person chose, as instants: the API's own bare dates are days of UTC, but what is listed next to them is local time. Pure. */

const DAY_MS = 86_400_000;
/** "2026-10-01 00:00:00" */
const localIn = (timeZone: string) =>
  new Intl.DateTimeFormat("sv", { timeZone, dateStyle: "short", timeStyle: "medium" });

/** The first instant of a day in a zone. Where clocks skip midnight it is the first instant after the gap. */
export function startOfDay(day: string, timeZone: string): number {
  const format = localIn(timeZone);
  const midnight = Date.parse(`${day}T00:00:00Z`);
  const starts = [-DAY_MS, DAY_MS]
    .map((side) => {
      const local = format.format(midnight + side).replace(" ", "T");
      return midnight - (Date.parse(`${local}Z`) - (midnight + side));
    })
    .sort((one, other) => one - other);
  return starts.find((start) => format.format(start).slice(0, 10) >= day) ?? Math.max(...starts);
}

/** From the first moment of `dateFrom` to the last of `dateTo`. What is not a day is left as it is, for the API to refuse. */
export function daysInZone<Filters extends { dateFrom?: string | undefined; dateTo?: string | undefined }>(
  filters: Filters,
  timeZone: string,
): Filters {
  const { dateFrom, dateTo } = filters;
  return {
    ...filters,
    dateFrom: dateFrom && toInstant(dateFrom, () => startOfDay(dateFrom, timeZone)),
    dateTo: dateTo && toInstant(dateTo, () => startOfDay(dayAfter(dateTo), timeZone) - 1),
  };
}

const dayAfter = (day: string) =>
  new Date(Date.parse(`${day}T00:00:00Z`) + DAY_MS).toISOString().slice(0, 10);

function toInstant(day: string, read: () => number): string {
  const midnight = new Date(`${day}T00:00:00Z`);
  const isDay = !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day);
  // in the last days of the year 9999 there is none to name
  return isDay && day < "9999-12-30" ? new Date(read()).toISOString() : day;
}
