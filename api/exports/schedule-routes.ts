/** Scheduled exports: saved exports that run weekly or monthly. */
import { Elysia } from "elysia";
import { z } from "zod";
import { conflict, notFound } from "../../core/domain/errors.ts";
import { newExportScheduleId } from "../../core/domain/ids.ts";
import {
  SCHEDULE_DELIVERIES,
  SCHEDULE_FREQUENCIES,
  SCHEDULES_MAX,
} from "../../core/domain/schedule-period.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { findExportProfile } from "../../db/exports/export-profiles.ts";
import {
  deleteExportSchedule,
  insertExportSchedule,
  type ListedSchedule,
  listExportSchedules,
  pauseExportSchedule,
} from "../../db/exports/export-schedules.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { access } from "../http/access.ts";
import { holdAccess } from "../http/act-for-merchant.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, isoTime, success, successSchema } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";

const PATH = "/v1/export-schedules";
const tags = ["Exports"];

const scheduleSchema = z
  .object({
    id: z.string(),
    profileId: z.string(),
    profileName: z.string(),
    frequency: z.enum(SCHEDULE_FREQUENCIES),
    delivery: z.enum(SCHEDULE_DELIVERIES),
    createdAt: isoTime,
    pausedAt: isoTime.nullable().describe("When it was paused: no period is exported while it is set"),
    lastRun: z
      .object({
        dateFrom: z.string(),
        dateTo: z.string(),
        exportId: z.string().nullable().describe("null: the file was deleted after 30 days"),
        status: z.enum(["QUEUED", "RUNNING", "READY", "FAILED"]).nullable(),
        refusal: z.string().nullable(),
        downloadUrl: z.string().nullable(),
      })
      .nullable(),
  })
  .meta({ id: "ExportSchedule" });

const createBody = z.strictObject({
  profileId: z.string().max(100),
  frequency: z
    .enum(SCHEDULE_FREQUENCIES)
    .describe("weekly: Monday to Sunday; days are in the profile's time zone"),
  delivery: z
    .enum(SCHEDULE_DELIVERIES)
    .describe(
      "mail: an e-mail with a link to the account's address; webhook: the events export.ready and export.failed",
    ),
});
const params = z.object({ id: z.string().max(100) });

export const exportScheduleRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "export-schedule-routes" })
    .use(access(deps))
    .use(jsonBody)
    .get(
      PATH,
      async ({ user }) =>
        success(
          { schedules: (await listExportSchedules(deps.sql, user.id)).map((one) => present(deps, one)) },
          "Schedules retrieved",
        ),
      {
        auth: { allow: ["session", "apiKey"], scope: "exports", needs: "exports" },
        response: {
          200: successSchema(z.object({ schedules: z.array(scheduleSchema) })),
          ...errorResponses(401, 403, 429),
        },
        detail: { operationId: "listExportSchedules", summary: "Your scheduled exports", tags },
      },
    )
    .post(
      PATH,
      async ({ body, user, caller, trace, status }) => {
        const key = { id: body.profileId, userId: user.id };
        const given = { ...body, id: newExportScheduleId(), userId: user.id, createdBy: caller.actorId };
        const made = await deps.sql.begin(async (tx) => {
          await holdAccess(tx, caller, "exports");
          const profile = await findExportProfile(tx, key);
          if (!profile) throw notFound("Export profile");
          const row = await insertExportSchedule(tx, given, SCHEDULES_MAX);
          if (!row) throw conflict(`There are ${SCHEDULES_MAX} schedules already`, { issue: "too_many" });
          await recordSecurityEvent(tx, {
            ...{ userId: user.id, type: "settings_changed", ...trace },
            details: { scheduledExport: "created", name: profile.name, scheduleId: row.id },
          });
          return { ...row, ...NOT_RUN, profileName: profile.name };
        });
        return status(201, success(present(deps, made), "Schedule created"));
      },
      {
        auth: { allow: ["session"], needs: "exports", freshPasskey: true },
        body: createBody,
        response: {
          201: successSchema(scheduleSchema),
          ...errorResponses(400, 401, 403, 404, 409, 413, 429),
        },
        detail: {
          operationId: "createExportSchedule",
          summary: "Schedule an export every week or month; requires a passkey used in the last 15 minutes",
          description:
            "The first period is the one in which the schedule was created. Each is exported once it is over, confirmed, and has its last exchange rate.",
          tags,
        },
      },
    )
    .patch(
      `${PATH}/:id`,
      async ({ params: { id }, body: { paused }, user, trace }) => {
        const changed = await deps.sql.begin(async (tx) => {
          if (!(await pauseExportSchedule(tx, { id, userId: user.id }, paused))) return undefined;
          const found = await findSchedule(tx, { id, userId: user.id });
          await recordSecurityEvent(tx, {
            ...{ userId: user.id, type: "settings_changed", ...trace },
            details: {
              ...{ scheduledExport: paused ? "paused" : "resumed" },
              ...{ name: found?.profileName ?? "", scheduleId: id },
            },
          });
          return found;
        });
        if (!changed) throw notFound("Export schedule");
        return success(present(deps, changed), "Schedule changed");
      },
      {
        auth: { allow: ["session"], needs: "exports" },
        params,
        body: z.strictObject({ paused: z.boolean() }),
        response: { 200: successSchema(scheduleSchema), ...errorResponses(400, 401, 403, 404, 413, 429) },
        detail: {
          operationId: "updateExportSchedule",
          summary: "Pause or resume a scheduled export",
          description:
            "No period is skipped: those that ended during the pause are exported one after another after resuming.",
          tags,
        },
      },
    )
    .delete(
      `${PATH}/:id`,
      async ({ params: { id }, user, trace }) => {
        const own = { id, userId: user.id };
        await deps.sql.begin(async (tx) => {
          const found = await findSchedule(tx, own);
          if (!found || !(await deleteExportSchedule(tx, own))) throw notFound("Export schedule");
          await recordSecurityEvent(tx, {
            ...{ userId: user.id, type: "settings_changed", ...trace },
            details: { scheduledExport: "deleted", name: found.profileName, scheduleId: id },
          });
        });
        return success({ id, deleted: true as const }, "Schedule deleted");
      },
      {
        auth: { allow: ["session"], needs: "exports" },
        params,
        response: {
          200: successSchema(z.object({ id: z.string(), deleted: z.literal(true) })),
          ...errorResponses(401, 403, 404, 429),
        },
        detail: { operationId: "deleteExportSchedule", summary: "Delete a scheduled export", tags },
      },
    );

async function findSchedule(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<ListedSchedule | undefined> {
  return (await listExportSchedules(tx, userId)).find((schedule) => schedule.id === id);
}

const NOT_RUN = { firstDay: null, lastDay: null, exportId: null, status: null, refusal: null };

function present({ config }: Pick<ApiDeps, "config">, row: ListedSchedule): z.infer<typeof scheduleSchema> {
  const { id, profileId, profileName, frequency, delivery, createdAt, firstDay, lastDay, exportId, status } =
    row;
  const downloadUrl = exportId && `${config.baseUrl}/v1/transactions/exports/${exportId}/download`;
  return {
    id,
    profileId,
    profileName,
    frequency,
    delivery,
    createdAt: createdAt.toISOString(),
    pausedAt: row.pausedAt?.toISOString() ?? null,
    lastRun:
      firstDay && lastDay
        ? { dateFrom: firstDay, dateTo: lastDay, exportId, status, refusal: row.refusal, downloadUrl }
        : null,
  };
}
