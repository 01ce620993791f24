/** The days of received amounts are those of the zone's files: of one list of time zones, the runtime's. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { localTime } from "../../core/domain/local-time.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { sumReceivedByDay } from "../../db/transactions/received-by-day.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { seedMerchant } from "../support/seed.ts";
import { insertHistory } from "./history.ts";

const HOUR_MS = 3_600_000;
const DAYS = 4;
/** Clocks change on 29 March and 25 October in Europe, at midnight in Cairo on 24 April and in Santiago on 6 September. */
const NOWS = ["2026-03-30T12:00:00Z", "2026-04-25T12:00:00Z", "2026-09-07T12:00:00Z", "2026-10-26T12:00:00Z"];

let db: TestDatabase;
let sql: Sql;
let userId: string;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  ({ userId } = await seedMerchant(sql));
  // one an hour, of one unit
  const hours = NOWS.flatMap((now) =>
    Array.from({ length: 6 * 24 }, (_, hour) => new Date(Date.parse(now) + (hour - 120) * HOUR_MS)),
  );
  await insertHistory(
    sql,
    userId,
    hours.map((detectedAt) => ({ detectedAt, amountUnits: 1n })),
  );
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

// Postgres has CET, MET, EET and WET as offsets, too, without daylight saving time
test.each([
  ...["UTC", "CET", "MET", "EET", "WET", "Europe/Berlin", "America/Vancouver"],
  ...["Africa/Cairo", "America/Santiago", "Pacific/Chatham", "Asia/Kolkata"],
])("a day of %s has the hours of its own calendar", async (timeZone) => {
  for (const now of NOWS) {
    const days = await sumReceivedByDay(sql, userId, { days: DAYS, timeZone }, new Date(now));
    const counted = days.filter(({ network }) => network === "base-sepolia");
    expect(counted.map(({ date }) => date).at(-1)).toBe(localTime(new Date(now), timeZone).slice(0, 10));
    const hours = Array.from({ length: 6 * 24 }, (_, hour) =>
      localTime(new Date(Date.parse(now) + (hour - 120) * HOUR_MS), timeZone).slice(0, 10),
    );
    expect(counted.map(({ date, units, count }) => [date, units, count])).toEqual(
      counted.map(({ date }) => {
        const count = hours.filter((day) => day === date).length;
        return [date, BigInt(count), count];
      }),
    );
    expect(counted).toHaveLength(DAYS);
  }
});

test("a movement of a later day than today is in no day", async () => {
  const now = new Date("2026-03-28T12:00:00Z");
  const days = await sumReceivedByDay(sql, userId, { days: 1, timeZone: "UTC" }, now);
  expect(days.map(({ network, count }) => [network, count])).toEqual([
    ["base", 0],
    ["base-sepolia", 24],
  ]);
});
