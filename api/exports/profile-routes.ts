/** Saved exports: create, list, change, delete, and run one for a period. */
import { Elysia } from "elysia";
import { z } from "zod";
import { BOOKS_COLUMNS } from "../../core/domain/bookkeeping-rows.ts";
import { hasDirectionControls } from "../../core/domain/direction-controls.ts";
import { conflict, invalid, notFound } from "../../core/domain/errors.ts";
import { addDays } from "../../core/domain/exchange-rate.ts";
import {
  isColumn,
  PROFILE_COLUMNS_MAX,
  PROFILE_FORMATS,
  PROFILES_MAX,
  type ProfileDefinition,
  TABLE_FORMATS,
} from "../../core/domain/export-profile.ts";
import { newExportProfileId } from "../../core/domain/ids.ts";
import { startOfDay } from "../../core/domain/local-days.ts";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import {
  deleteExportProfile,
  findExportProfile,
  insertExportProfile,
  listExportProfiles,
  lockExportProfile,
  profileRequest,
  updateExportProfile,
} from "../../db/exports/export-profiles.ts";
import { findMerchantBooks } from "../../db/exports/merchant-books.ts";
import type { ExportProfileRow } from "../../db/exports/schema.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { documentedResponses } from "../http/documented-responses.ts";
import { errorResponses, isoTime, success, successSchema } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { takesHeaders } from "../http/openapi-headers.ts";
import { timeZoneSchema } from "./books-settings-routes.ts";
import { refuseUnset } from "./check-export-request.ts";
import { currencySchema } from "./fiat-choice.ts";
import { day, madeFile, makeFile, mayExport } from "./wire.ts";

const PATH = "/v1/export-profiles";
const tags = ["Exports"];

const line = (max: number) =>
  z
    .string()
    .trim()
    .min(1)
    .max(max)
    .regex(/^[^\p{Cc}]+$/u, "must be one line without control characters")
    .refine(
      (text) => !hasDirectionControls(text),
      "must not contain characters that change the direction of text",
    );
const columnSchema = z
  .strictObject({
    column: z
      .string()
      .refine(
        isColumn,
        "must be a column of GET /v1/export-profiles/columns, or metadata. followed by a key",
      ),
    title: line(100),
  })
  .meta({ id: "ExportColumn" });
const fields = {
  name: line(100),
  format: z.enum(PROFILE_FORMATS),
  columns: z
    .array(columnSchema)
    .min(1)
    .max(PROFILE_COLUMNS_MAX)
    .refine(
      (all) => new Set(all.map(({ title }) => title)).size === all.length,
      "must not contain a title twice",
    )
    .nullable()
    .describe("Columns in their order, with your titles; null: all. For csv, excel_csv, xlsx and json"),
  fiatCurrency: currencySchema.nullable().describe("null: as in your books settings"),
  timeZone: timeZoneSchema.nullable().describe("null: as in your books settings"),
  types: z.array(z.enum(TRANSACTION_TYPES)).max(TRANSACTION_TYPES.length).describe("Empty: all"),
  networks: z.array(z.enum(NETWORK_IDS)).max(NETWORK_IDS.length).describe("Empty: all"),
};
const createBody = z.strictObject({
  name: fields.name,
  format: fields.format,
  columns: fields.columns.default(null),
  fiatCurrency: fields.fiatCurrency.default(null),
  timeZone: fields.timeZone.default(null),
  types: fields.types.default([]),
  networks: fields.networks.default([]),
});
const updateBody = z.strictObject(fields).partial();
// a profile saved under earlier rules for its texts is still shown
const profileSchema = z
  .object({
    id: z.string(),
    ...fields,
    name: z.string(),
    columns: z.array(z.object({ column: z.string(), title: z.string() })).nullable(),
    createdAt: isoTime,
    updatedAt: isoTime,
  })
  .meta({ id: "ExportProfile" });

const one = successSchema(profileSchema);
const columnsAnswer = successSchema(
  z.object({ columns: z.array(z.object({ column: z.string(), title: z.string(), kind: z.string() })) }),
);

const params = z.object({ id: z.string().max(100) });

export const exportProfileRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "export-profile-routes" })
    .use(access(deps))
    .use(jsonBody)
    .get(
      `${PATH}/columns`,
      () =>
        success(
          { columns: BOOKS_COLUMNS.map(({ key, title, kind }) => ({ column: key, title, kind })) },
          "Columns retrieved",
        ),
      {
        auth: mayExport,
        response: { 200: columnsAnswer, ...errorResponses(401, 403, 429) },
        detail: { operationId: "listExportColumns", summary: "Columns that a profile can choose", tags },
      },
    )
    .get(
      PATH,
      async ({ user }) =>
        success(
          { profiles: (await listExportProfiles(deps.sql, user.id)).map(present) },
          "Profiles retrieved",
        ),
      {
        auth: mayExport,
        response: {
          200: successSchema(z.object({ profiles: z.array(profileSchema) })),
          ...errorResponses(401, 403, 429),
        },
        detail: { operationId: "listExportProfiles", summary: "Your export profiles by name", tags },
      },
    )
    .post(
      PATH,
      async ({ body, user, status }) => {
        const { name, ...definition } = body;
        refuseColumns(definition);
        const given = { id: newExportProfileId(), userId: user.id, name, definition };
        const made = await deps.sql.begin((tx) => insertExportProfile(tx, given, PROFILES_MAX));
        if (made === "name_taken") throw nameTaken();
        if (made === "too_many")
          throw conflict(`There are ${PROFILES_MAX} profiles already`, { field: "name", issue: "too_many" });
        return status(201, success(present(made), "Profile created"));
      },
      {
        auth: mayExport,
        body: createBody,
        response: { 201: one, ...errorResponses(400, 401, 403, 409, 413, 429) },
        detail: { operationId: "createExportProfile", summary: "Create an export profile", tags },
      },
    )
    .get(
      `${PATH}/:id`,
      async ({ params: { id }, user }) =>
        success(present(await getProfile(deps, { id, userId: user.id })), "Profile retrieved"),
      {
        auth: mayExport,
        params,
        response: { 200: one, ...errorResponses(401, 403, 404, 429) },
        detail: { operationId: "getExportProfile", summary: "One export profile", tags },
      },
    )
    .patch(
      `${PATH}/:id`,
      async ({ params: { id }, body, user }) => {
        const key = { id, userId: user.id };
        const changed = await deps.sql.begin(async (tx) => {
          const found = await lockExportProfile(tx, key);
          if (!found) throw notFound("Export profile");
          const { name = found.name, ...changes } = body;
          const definition = { ...found.definition, ...changes } as ProfileDefinition;
          refuseColumns(definition);
          return updateExportProfile(tx, key, { name, definition });
        });
        if (changed === "name_taken") throw nameTaken();
        if (!changed) throw notFound("Export profile");
        return success(present(changed), "Profile changed");
      },
      {
        auth: mayExport,
        params,
        body: updateBody,
        response: { 200: one, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: {
          operationId: "updateExportProfile",
          summary: "Change an export profile; omitted fields are unchanged",
          tags,
        },
      },
    )
    .delete(
      `${PATH}/:id`,
      async ({ params: { id }, user }) => {
        if (!(await deleteExportProfile(deps.sql, { id, userId: user.id }))) throw notFound("Export profile");
        return success({ id, deleted: true as const }, "Profile deleted");
      },
      {
        auth: mayExport,
        params,
        response: {
          200: successSchema(z.object({ id: z.string(), deleted: z.literal(true) })),
          ...errorResponses(401, 403, 404, 429),
        },
        detail: { operationId: "deleteExportProfile", summary: "Delete an export profile", tags },
      },
    )
    .post(
      `${PATH}/:id/export`,
      async ({ params: { id }, body, user, headers, requestId, set }) => {
        const { definition } = await getProfile(deps, { id, userId: user.id });
        const books = await findMerchantBooks(deps.sql, user.id);
        const zone = definition.timeZone ?? books?.timeZone ?? "UTC";
        const { dateFrom, dateTo } = body;
        if (dateFrom && dateTo && dateFrom > dateTo) throw invalid("dateFrom", "must not be after dateTo");
        const from = dateFrom === undefined ? undefined : startOfDay(dateFrom, zone);
        const before = dateTo === undefined ? undefined : startOfDay(addDays(dateTo, 1), zone);
        const request = profileRequest(definition, books, { from, before });
        refuseUnset(definition.format, { fiat: request.fiat, books });
        return makeFile(deps, set, {
          userId: user.id,
          requestId,
          format: definition.format,
          request,
          prefer: headers.prefer,
        });
      },
      {
        auth: { ...mayExport, limit: "exports", waits: true },
        params,
        body: z.strictObject({
          dateFrom: day.optional(),
          dateTo: day.optional().describe("The last day, included"),
        }),
        detail: {
          operationId: "runExportProfile",
          parameters: takesHeaders("Prefer"),
          summary: "Create an export from a profile; days are in its time zone",
          tags,
          responses: documentedResponses({ ...madeFile, ...errorResponses(404) }),
        },
      },
    );

/** Throws VALIDATION_ERROR: formats for accounting programs have fixed columns. */
function refuseColumns({ format, columns }: Pick<ProfileDefinition, "format" | "columns">): void {
  if (columns && !TABLE_FORMATS.some((one) => one === format))
    throw invalid("columns", `can only be chosen for ${TABLE_FORMATS.join(", ")}`);
}

async function getProfile(
  { sql }: Pick<ApiDeps, "sql">,
  key: { id: string; userId: string },
): Promise<ExportProfileRow> {
  const found = await findExportProfile(sql, key);
  if (!found) throw notFound("Export profile");
  return found;
}

function nameTaken() {
  return conflict("There is already a profile with that name", { field: "name", issue: "taken" });
}

function present({
  id,
  name,
  definition,
  createdAt,
  updatedAt,
}: ExportProfileRow): z.infer<typeof profileSchema> {
  const { format, columns, fiatCurrency, timeZone, types, networks } = definition;
  return {
    ...{ id, name, format, columns: columns && [...columns], fiatCurrency, timeZone },
    ...{ types: [...types], networks: [...networks] },
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
  };
}
