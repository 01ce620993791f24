/** Months to choose from, such as 2026-10: newest first, including the current one. */
const MONTHS_SHOWN = 24;

export function lastMonths(now: Date): string[] {
  return Array.from({ length: MONTHS_SHOWN }, (_, back) =>
    new Date(Date.UTC(now.getFullYear(), now.getMonth() - back, 1)).toISOString().slice(0, 7),
  );
}
