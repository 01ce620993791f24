/**
 * Makes the exports of schedules: as soon as a period is over, confirmed on every network and, in a currency, has its last rate. Announces each
 * by mail or webhook when it has ended. Runs every minute, may run twice and die anywhere: each step finds what is left to do.
 */

import { SCHEDULED_EXPORT_KEPT_DAYS } from "../../core/domain/export-lifetime.ts";
import { newExportId } from "../../core/domain/ids.ts";
import { periodOfDays } from "../../core/domain/local-days.ts";
import { localTime } from "../../core/domain/local-time.ts";
import { nextPeriod } from "../../core/domain/schedule-period.ts";
import type { Log } from "../../core/runtime/log.ts";
import { recordEvents } from "../../db/events/events.ts";
import { profileRequest } from "../../db/exports/export-profiles.ts";
import {
  type ActiveSchedule,
  type EndedRun,
  insertScheduleRun,
  pageSchedules,
  setRunExport,
  takeEndedRuns,
} from "../../db/exports/export-schedules.ts";
import { insertExport } from "../../db/exports/exports.ts";
import { findMerchantBooks } from "../../db/exports/merchant-books.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { addNotice } from "../../db/notices/notices.ts";
import type { Sql, Tx } from "../../db/postgres/client.ts";
import type { WorkerConfig } from "../config.ts";
import { isScheduleDue } from "./is-schedule-due.ts";

export type SchedulesDeps = { sql: Sql; log: Log; config: Pick<WorkerConfig, "chains" | "baseUrl"> };

const SCHEDULES_AT_ONCE = 500;
const ANNOUNCED_AT_ONCE = 1_000;

/** Throws after all schedules when one failed, so that the queue retries. */
export async function runSchedules(deps: SchedulesDeps, now = new Date()): Promise<void> {
  const failures: unknown[] = [];
  let after = "";
  for (;;) {
    const schedules = await pageSchedules(deps.sql, after, SCHEDULES_AT_ONCE);
    for (const schedule of schedules)
      await runSchedule(deps, schedule, now).catch((error: unknown) => failures.push(error));
    after = schedules.at(-1)?.id ?? after;
    if (schedules.length < SCHEDULES_AT_ONCE) break;
  }
  await announce(deps);
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} schedule(s) did not run`);
}

async function runSchedule(deps: SchedulesDeps, schedule: ActiveSchedule, now: Date): Promise<void> {
  const { sql, log } = deps;
  const { id: scheduleId, userId, definition } = schedule;
  const books = await findMerchantBooks(sql, userId);
  const zone = definition.timeZone ?? books?.timeZone ?? "UTC";
  const madeOn = localTime(schedule.createdAt, zone).slice(0, 10);
  const days = nextPeriod({ ...schedule, madeOn });
  const { from, before } = periodOfDays(days.firstDay, days.lastDay, zone);
  // where the file before it ended, which was elsewhere if the time zone has changed since: no movement is in none or in two
  const period = { from: schedule.endedAt ?? from, before };
  // a scheduled file is sent unread: one that leaves movements out must not be taken for the period's
  const request = { ...profileRequest(definition, books, period), isWhole: true };
  if (!(await isScheduleDue(deps, schedule, { before, lastDay: days.lastDay, request, now }))) return;
  const isNew = await sql.begin(async (tx) => {
    if (!(await insertScheduleRun(tx, scheduleId, { ...days, endsAt: before }))) return false;
    const exportId = newExportId();
    const keptDays = SCHEDULED_EXPORT_KEPT_DAYS;
    const { format } = definition;
    await insertExport(tx, { id: exportId, userId, format, requestId: null, request, keptDays });
    await setRunExport(tx, { scheduleId, firstDay: days.firstDay }, exportId);
    await enqueue(tx, "build_export", { exportId });
    return true;
  });
  if (isNew) log.info({ userId, scheduleId, ...days }, "scheduled export requested");
}

async function announce({ sql, config }: SchedulesDeps): Promise<void> {
  await sql.begin(async (tx) => {
    for (const run of await takeEndedRuns(tx, ANNOUNCED_AT_ONCE))
      await (run.delivery === "mail" ? addMail(tx, run) : addEvent(tx, run, config.baseUrl));
  });
}

function addMail(tx: Tx, run: EndedRun): Promise<void> {
  const { userId, scheduleId, firstDay, lastDay, profileName, refusal, status } = run;
  return addNotice(tx, {
    ...{ userId, kind: status === "READY" ? "export_ready" : "export_failed" },
    key: `export:${scheduleId}:${firstDay}`,
    details: { profileName, firstDay, lastDay, reason: refusal },
  });
}

async function addEvent(tx: Tx, run: EndedRun, baseUrl: string): Promise<void> {
  const { userId, scheduleId, firstDay, lastDay, profileId, profileName, exportId, refusal, status } = run;
  const isReady = status === "READY";
  await recordEvents(tx, [
    {
      ...{ userId, type: isReady ? "export.ready" : "export.failed", subjectId: exportId },
      data: {
        ...{ scheduleId, profileId, profileName, dateFrom: firstDay, dateTo: lastDay },
        ...(isReady
          ? { downloadUrl: `${baseUrl}/v1/transactions/exports/${exportId}/download` }
          : { reason: refusal ?? "The export failed" }),
      },
    },
  ]);
}
