/** What a merchant's documents say about him, where his months begin, and whether they are closed by themselves. */
import { Elysia } from "elysia";
import { z } from "zod";
import { isTimeZone } from "../../core/domain/export.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { findMerchantBooks, updateMerchantBooks } from "../../db/exports/merchant-books.ts";
import type { MerchantBooks } from "../../db/exports/schema.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";

export const timeZoneSchema = z
  .string()
  .max(64)
  // an offset such as +02:00 has no summer time
  .refine(
    (zone) => /^[a-z]/i.test(zone) && isTimeZone(zone),
    "must be an IANA time zone, for example Europe/Berlin",
  );

/** Text of a document: no control characters but, where `lines`, line breaks. */
const printed = (max: number, { lines }: { lines: boolean }) =>
  z
    .string()
    .trim()
    .min(1)
    .max(max)
    .refine((text) => text.isWellFormed(), "must be text")
    .refine(
      (text) => !(lines ? /[^\P{Cc}\n]/u : /\p{Cc}/u).test(text),
      lines ? "must be text and line breaks" : "must be text in one line",
    );

const settingsSchema = z.object({
  legalName: printed(200, { lines: false }).nullable().describe("null: the name that payers see"),
  postalAddress: printed(500, { lines: true }).nullable(),
  taxId: printed(50, { lines: false }).nullable().describe("For example a VAT number"),
  timeZone: timeZoneSchema.describe("Where your days and months begin"),
  monthlyStatements: z
    .boolean()
    .describe("Make a statement of each wallet when a month is over, as PDF and CSV, and say so by mail"),
});
const tags = ["Settings"];

export const booksSettingsRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "books-settings-routes" })
    .use(access(deps))
    .use(jsonBody)
    .get("/v1/settings/books", async ({ user }) => present(await findMerchantBooks(deps.sql, user.id)), {
      auth: { allow: ["session"], needs: "settings:read" },
      response: { 200: settingsSchema, ...errorResponses(401, 403, 429) },
      detail: { operationId: "getBooksSettings", summary: "Settings of your statements and documents", tags },
    })
    .patch(
      "/v1/settings/books",
      async ({ body, user, trace }) =>
        deps.sql.begin(async (tx) => {
          const shown = present(await updateMerchantBooks(tx, user.id, body));
          await recordSecurityEvent(tx, {
            ...{ userId: user.id, type: "settings_changed", ...trace },
            // names alone: the trail is never rewritten, and an address may have to be forgotten
            details: { changed: Object.keys(body).join(", ") },
          });
          return shown;
        }),
      {
        auth: { allow: ["session"], needs: "settings:write" },
        body: settingsSchema.partial().strict(),
        response: { 200: settingsSchema, ...errorResponses(400, 401, 403, 413, 429) },
        detail: {
          operationId: "updateBooksSettings",
          summary: "Change settings of your documents; omitted ones are unchanged",
          tags,
        },
      },
    );

function present(books: MerchantBooks | undefined): z.infer<typeof settingsSchema> {
  return {
    legalName: books?.legalName ?? null,
    postalAddress: books?.postalAddress ?? null,
    taxId: books?.taxId ?? null,
    timeZone: books?.timeZone ?? "UTC",
    monthlyStatements: books?.monthlyStatements ?? false,
  };
}
