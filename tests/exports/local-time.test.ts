/** Local times compared with those of the runtime, computed again for each moment. */
import { expect, test } from "bun:test";
import { isTimeZone, localTime } from "../../core/domain/local-time.ts";
import { seededRandom } from "../support/seeded-random.ts";

/** Offsets of half and quarter hours, changes at midnight, by half an hour, by a whole day, and none at all. */
const ZONES = [
  ...["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"],
  ...["Africa/Casablanca", "America/Sao_Paulo", "Asia/Kolkata", "Pacific/Chatham", "Africa/Monrovia"],
] as const;

function askedOf(timeZone: string): (instant: Date) => string {
  const formatter = new Intl.DateTimeFormat("sv-SE", {
    ...{ timeZone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit" },
    ...{ hour: "2-digit", minute: "2-digit", second: "2-digit" },
  });
  return (instant) => formatter.format(instant).replace(" ", "T");
}

test.each(ZONES)("of %s are those of the runtime, in every hour of the days on which it changes", (zone) => {
  const asked = askedOf(zone);
  const random = seededRandom(`local times of ${zone}`);
  const year = () => 1973 + Math.floor(random() * 127);
  const moments = Array.from(
    { length: 300 },
    () => Date.UTC(year(), 0, 1) + Math.floor(random() * 366 * 86_400) * 1_000 + Math.floor(random() * 1_000),
  );
  // a year whose days all come, so that those with a change do
  const whole = Array.from({ length: 366 * 4 }, (_, n) => Date.UTC(2011, 0, 1) + n * 6 * 3_600_000 + 59_999);
  for (const ms of [...moments, ...whole]) {
    const instant = new Date(ms);
    const local = localTime(instant, zone);
    expect([instant.toISOString(), local.slice(0, 19)]).toEqual([instant.toISOString(), asked(instant)]);
    // with its offset it names the same second
    expect(Math.floor(Date.parse(local) / 1_000)).toBe(Math.floor(ms / 1_000));
  }
});

test.each([
  ["Europe/Berlin", "2025-03-30T00:59:59.999Z", "2025-03-30T01:59:59+01:00"],
  ["Europe/Berlin", "2025-03-30T01:00:00.000Z", "2025-03-30T03:00:00+02:00"],
  ["Europe/Berlin", "2025-10-26T00:59:59.999Z", "2025-10-26T02:59:59+02:00"],
  ["Europe/Berlin", "2025-10-26T01:00:00.000Z", "2025-10-26T02:00:00+01:00"],
  // a zone that left out a day
  ["Pacific/Apia", "2011-12-30T09:59:59.000Z", "2011-12-29T23:59:59-10:00"],
  ["Pacific/Apia", "2011-12-30T10:00:00.000Z", "2011-12-31T00:00:00+14:00"],
  // odd seconds, until 1972
  ["Africa/Monrovia", "1971-06-01T12:00:00.000Z", "1971-06-01T11:15:30-00:44:30"],
  ["UTC", "1969-12-31T23:59:59.000Z", "1969-12-31T23:59:59+00:00"],
])("%s at %s is %s", (zone, instant, local) => {
  expect(localTime(new Date(instant), zone)).toBe(local);
});

test("a time zone is one that the runtime knows", () => {
  expect(["Europe/Berlin", "UTC", "Europe/Nowhere", ""].map(isTimeZone)).toEqual([true, true, false, false]);
});
