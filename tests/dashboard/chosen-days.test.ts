/** Days and months that a person chooses in the dashboard are those that a statement has. */
import { describe, expect, test } from "bun:test";
import { addDays } from "../../core/domain/exchange-rate.ts";
import { periodOfDays } from "../../core/domain/local-days.ts";
import { lastMonths } from "../../web/dashboard/exports/months.ts";
import { daysInZone } from "../../web/dashboard/transactions/days-in-zone.ts";

describe("days of a filter", () => {
  test.each([
    ...["UTC", "Europe/Berlin", "America/New_York", "America/St_Johns", "Asia/Kathmandu", "Asia/Beirut"],
    ...["Pacific/Kiritimati", "Pacific/Niue", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca"],
  ])("begin and end in %s where those of statements do", (zone) => {
    for (let day = "2025-01-01"; day < "2026-12-31"; day = addDays(day, 1)) {
      const { from, before } = periodOfDays(day, day, zone);
      const last = new Date(before.getTime() - 1);
      expect([day, daysInZone({ dateFrom: day, dateTo: day }, zone)]).toEqual([
        day,
        { dateFrom: from.toISOString(), dateTo: last.toISOString() },
      ]);
    }
  });

  test("that do not exist are left to the API, and an absent one stays absent", () => {
    for (const day of ["2026-02-30", "2026-13-01", "9999-12-31"])
      expect(daysInZone({ dateFrom: day, dateTo: day }, "Asia/Tokyo")).toEqual({
        dateFrom: day,
        dateTo: day,
      });
    expect(daysInZone({ dateFrom: undefined, dateTo: "2026-10-31" }, "Asia/Tokyo")).toEqual({
      ...{ dateFrom: undefined, dateTo: "2026-10-31T14:59:59.999Z" },
    });
  });
});

test.each([
  ["Asia/Tokyo", "2026-11-30T15:00:00Z", "2026-12"],
  ["Asia/Tokyo", "2026-11-30T14:59:59Z", "2026-11"],
  ["America/Los_Angeles", "2027-01-01T07:59:59Z", "2026-12"],
  ["America/Los_Angeles", "2027-01-01T08:00:00Z", "2027-01"],
] as const)("the months of books in %s begin, at %s, with %s", (zone, now, newest) => {
  const months = lastMonths(new Date(now), zone);
  expect(months[0]).toBe(newest);
  expect(months).toEqual([...new Set(months)].toSorted().reverse());
  expect(months).toHaveLength(24);
});
