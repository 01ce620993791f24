/** Export schedules, the periods they have exported, and which of those are still to be announced. */
import type { ProfileDefinition } from "../../core/domain/export-profile.ts";
import type { DayPeriod, ScheduleDelivery, ScheduleFrequency } from "../../core/domain/schedule-period.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type ExportFile, type ExportScheduleRow, exportSchedules } from "./schema.ts";

/** Undefined when the merchant already has `most`, or no such profile. */
export async function insertExportSchedule(
  tx: Tx,
  given: Omit<ExportScheduleRow, "createdAt" | "pausedAt">,
  most: number,
): Promise<ExportScheduleRow | undefined> {
  const { id, userId, profileId, frequency, delivery, createdBy } = given;
  await tx`select pg_advisory_xact_lock(hashtext('export schedules of user'), hashtext(${userId}))`;
  const [row] = await tx<ExportScheduleRow[]>`
    insert into export_schedules (id, user_id, profile_id, frequency, delivery, created_by)
    select ${id}, profile.user_id, profile.id, ${frequency}, ${delivery}, ${createdBy}
    from export_profiles profile
    where profile.id = ${profileId}
      and profile.user_id = ${userId}
      and (select count(*) from export_schedules where user_id = ${userId}) < ${most}
    returning ${columnsOf(tx, exportSchedules)}`;
  return row;
}

export type ListedSchedule = ExportScheduleRow & {
  profileName: string;
  firstDay: string | null;
  lastDay: string | null;
  exportId: string | null;
  status: ExportFile["status"] | null;
  refusal: string | null;
};

/** Includes the newest period of each. */
export async function listExportSchedules(tx: Tx, userId: string): Promise<ListedSchedule[]> {
  return tx<ListedSchedule[]>`
    select
      ${columnsOf(tx, exportSchedules, "schedule")}, profile.name as profile_name, to_char(run.first_day, 'YYYY-MM-DD') as first_day,
      to_char(run.last_day, 'YYYY-MM-DD') as last_day, run.export_id, exports.status, exports.refusal
    from export_schedules schedule
    join export_profiles profile on profile.id = schedule.profile_id
    left join lateral (
      select first_day, last_day, export_id
      from export_schedule_runs
      where schedule_id = schedule.id
      order by first_day desc
      limit 1
    ) run on true
    left join exports on exports.id = run.export_id
    where schedule.user_id = ${userId}
    order by schedule.created_at, schedule.id`;
}

/** False when there is no such schedule. Pausing a paused one keeps its time. */
export async function pauseExportSchedule(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
  isPaused: boolean,
): Promise<boolean> {
  const result = await tx`
    update export_schedules
    set paused_at = case when ${isPaused}::boolean then coalesce(paused_at, now()) end
    where id = ${id} and user_id = ${userId}`;
  return result.count > 0;
}

export async function deleteExportSchedule(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<boolean> {
  const result = await tx`delete from export_schedules where id = ${id} and user_id = ${userId}`;
  return result.count > 0;
}

/** The schedules that a person created for a merchant. */
export async function deleteSchedulesBy(
  tx: Tx,
  { userId, createdBy }: { userId: string; createdBy: string },
): Promise<void> {
  await tx`delete from export_schedules where user_id = ${userId} and created_by = ${createdBy}`;
}

export type ActiveSchedule = Pick<ExportScheduleRow, "id" | "userId" | "createdAt"> & {
  frequency: ScheduleFrequency;
  definition: ProfileDefinition;
  /** The newest exported period. */
  lastDay: string | null;
  endedAt: Date | null;
};

/** Active schedules, ordered by id, after `afterId`. */
export async function pageSchedules(tx: Tx, afterId: string, limit: number): Promise<ActiveSchedule[]> {
  return tx<ActiveSchedule[]>`
    select
      schedule.id, schedule.user_id, schedule.created_at, schedule.frequency, profile.definition,
      (
        select to_char(max(run.last_day), 'YYYY-MM-DD')
        from export_schedule_runs run
        where run.schedule_id = schedule.id
      ) as last_day,
      (
        select run.ends_at
        from export_schedule_runs run
        where run.schedule_id = schedule.id
        order by run.first_day desc
        limit 1
      ) as ended_at
    from export_schedules schedule
    join export_profiles profile on profile.id = schedule.profile_id
    where schedule.id > ${afterId} and schedule.paused_at is null
    order by schedule.id
    limit ${limit}`;
}

/** False when the period was already exported, or the schedule is paused or deleted. */
export async function insertScheduleRun(
  tx: Tx,
  scheduleId: string,
  { firstDay, lastDay, endsAt }: DayPeriod & { endsAt: Date },
): Promise<boolean> {
  const rows = await tx`
    insert into export_schedule_runs (schedule_id, first_day, last_day, ends_at)
    select id, ${firstDay}::text::date, ${lastDay}::text::date, ${endsAt}
    from export_schedules
    where id = ${scheduleId} and paused_at is null
    for share
    on conflict (schedule_id, first_day) do nothing
    returning schedule_id`;
  return rows.length > 0;
}

export async function setRunExport(
  tx: Tx,
  { scheduleId, firstDay }: { scheduleId: string; firstDay: string },
  exportId: string,
): Promise<void> {
  await tx`
    update export_schedule_runs
    set export_id = ${exportId}
    where schedule_id = ${scheduleId} and first_day = ${firstDay}::text::date`;
}

export type EndedRun = DayPeriod & {
  scheduleId: string;
  userId: string;
  delivery: ScheduleDelivery;
  profileId: string;
  profileName: string;
  exportId: string;
  status: "READY" | "FAILED";
  refusal: string | null;
};

/** Marks ended runs as announced; the caller writes e-mails and events in the same transaction. */
export async function takeEndedRuns(tx: Tx, limit: number): Promise<EndedRun[]> {
  return tx<EndedRun[]>`
    update export_schedule_runs run
    set announced_at = now()
    from export_schedules schedule, export_profiles profile, exports
    where schedule.id = run.schedule_id
      and profile.id = schedule.profile_id
      and exports.id = run.export_id
      and run.announced_at is null
      and (run.schedule_id, run.first_day) in (
        select waiting.schedule_id, waiting.first_day
        from export_schedule_runs waiting
        join exports made on made.id = waiting.export_id and made.status in ('READY', 'FAILED')
        where waiting.announced_at is null
        order by waiting.created_at
        limit ${limit}
        for update of waiting skip locked
      )
    returning
      run.schedule_id, schedule.user_id, schedule.delivery, profile.id as profile_id, profile.name as profile_name,
      to_char(run.first_day, 'YYYY-MM-DD') as first_day, to_char(run.last_day, 'YYYY-MM-DD') as last_day,
      exports.id as export_id, exports.status, exports.refusal`;
}
