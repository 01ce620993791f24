/** Months to choose from. */
const MONTHS_SHOWN = 24;

/** Months such as 2026-10, newest first, including the current one. `timeZone`: the device's unless given. */
export function lastMonths(now: Date, timeZone?: string): string[] {
  const [year = 0, month = 0] = new Intl.DateTimeFormat("sv", { timeZone, dateStyle: "short" })
    .format(now)
    .split("-")
    .map(Number);
  return Array.from({ length: MONTHS_SHOWN }, (_, back) =>
    new Date(Date.UTC(year, month - 1 - back, 1)).toISOString().slice(0, 7),
  );
}
