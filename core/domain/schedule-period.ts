/** The next period of exports scheduled weekly or monthly. Pure. */
import { addDays } from "./exchange-rate.ts";

export const SCHEDULE_FREQUENCIES = ["weekly", "monthly"] as const;
export type ScheduleFrequency = (typeof SCHEDULE_FREQUENCIES)[number];
export const SCHEDULE_DELIVERIES = ["mail", "webhook"] as const;
export type ScheduleDelivery = (typeof SCHEDULE_DELIVERIES)[number];
export const SCHEDULES_MAX = 20;
/** How long a period waits for the rate of its last day; a weekend's rate is known on Monday. */
export const RATE_WAIT_DAYS = 4;

/** Calendar days, both inclusive. */
export type DayPeriod = { firstDay: string; lastDay: string };

/** The week (from Monday) or month that a day is in. */
export function periodAround(day: string, frequency: ScheduleFrequency): DayPeriod {
  if (frequency === "weekly") {
    const weekday = (new Date(`${day}T00:00:00Z`).getUTCDay() + 6) % 7;
    const firstDay = addDays(day, -weekday);
    return { firstDay, lastDay: addDays(firstDay, 6) };
  }
  const firstDay = `${day.slice(0, 7)}-01`;
  const next = addDays(firstDay, 31);
  return { firstDay, lastDay: addDays(`${next.slice(0, 7)}-01`, -1) };
}

/** The period after the last exported one; the first is the one in which the schedule was created. */
export function nextPeriod({
  frequency,
  madeOn,
  lastDay,
}: {
  frequency: ScheduleFrequency;
  madeOn: string;
  lastDay: string | null;
}): DayPeriod {
  return periodAround(lastDay === null ? madeOn : addDays(lastDay, 1), frequency);
}
