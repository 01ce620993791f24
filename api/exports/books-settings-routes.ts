/**
 * A merchant's bookkeeping settings: what documents print about the merchant, the time zone of months, and whether months are closed
 * automatically.
 */
import { isDeepStrictEqual } from "node:util";
import { Elysia } from "elysia";
import { z } from "zod";
import { hasDirectionControls } from "../../core/domain/direction-controls.ts";
import { DEFAULT_RATE_SOURCE, RATE_SOURCE } from "../../core/domain/exchange-rate.ts";
import { DEFAULT_LANGUAGE, LANGUAGE_TAGS } from "../../core/domain/language.ts";
import { isDay } from "../../core/domain/local-days.ts";
import { isTimeZone } from "../../core/domain/local-time.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import {
  findMerchantBooks,
  lockMerchantBooks,
  updateMerchantBooks,
} from "../../db/exports/merchant-books.ts";
import type { MerchantBooks } from "../../db/exports/schema.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { currencySchema, refuseUnknownSource } from "./fiat-choice.ts";

export const timeZoneSchema = z
  .string()
  .max(64)
  // an offset such as +02:00 has no daylight saving time
  .refine(
    (zone) => /^[a-z]/i.test(zone) && isTimeZone(zone),
    "must be an IANA time zone, for example Europe/Berlin",
  );

/** Text of a document: no control characters except, with `lines`, line breaks. */
const printed = (max: number, { lines }: { lines: boolean }) =>
  z
    .string()
    .trim()
    .min(1)
    .max(max)
    .refine((text) => text.isWellFormed(), "must be text")
    .refine(
      (text) => !hasDirectionControls(text),
      "must not contain characters that change the direction of text",
    )
    .refine(
      (text) => !(lines ? /[^\P{Cc}\n]/u : /\p{Cc}/u).test(text),
      lines
        ? "must not contain control characters other than line breaks"
        : "must be one line without control characters",
    );

const account = z.string().regex(/^[1-9]\d{2,8}$/, "must be an account of 3 to 9 digits");
const datevSchema = z
  .strictObject({
    consultantNumber: z.int().min(1_001).max(9_999_999).describe("Beraternummer"),
    clientNumber: z.int().min(1).max(99_999).describe("Mandantennummer"),
    fiscalYearStart: z
      .string()
      .refine((text) => /^\d{2}-\d{2}$/.test(text) && isDay(`2025-${text}`), "must be a day such as 01-01"),
    accountLength: z.int().min(4).max(8).describe("Sachkontenlänge"),
    accounts: z
      .strictObject({
        wallet: account.describe("The wallet's account, to which every entry is posted"),
        payments: account,
        received: account,
        sent: account,
        refunds: account,
        fees: account,
        rounding: account,
      })
      .describe("Contra accounts for payments, other receipts, sends, refunds, fees and rounding"),
  })
  .refine(
    ({ accountLength, accounts }) =>
      Object.values(accounts).every((number) => number.length <= accountLength + 1),
    { message: "has an account number with more digits than accountLength allows", path: ["accounts"] },
  );

const settingsSchema = z.object({
  legalName: printed(200, { lines: false }).nullable().describe("null: the display name shown to payers"),
  postalAddress: printed(500, { lines: true }).nullable(),
  taxId: printed(50, { lines: false }).nullable().describe("For example a VAT number"),
  timeZone: timeZoneSchema.describe("The time zone in which your days and months begin"),
  monthlyStatements: z
    .boolean()
    .describe(
      "Create a PDF and CSV statement of each wallet at the end of every month, and announce it by e-mail",
    ),
  fiatCurrency: currencySchema.nullable().describe("Currency of your books; null: amounts in USDC only"),
  rateSource: z
    .string()
    .regex(RATE_SOURCE, "must be a name of GET /v1/exchange-rates/sources, or own")
    .describe("own: the rates that you enter"),
  usdcRate: z
    .enum(["par", "source"])
    .describe("par: one USDC is one US dollar; source: what the source publishes for USDC"),
  documentLanguage: z
    .enum(LANGUAGE_TAGS)
    .describe("Language of receipts and credit notes when the payer's is not known"),
  datev: datevSchema.nullable().describe("The numbers that DATEV exports need"),
});
const SETTINGS = settingsSchema.keyof().options;
const tags = ["Settings"];

export const booksSettingsRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "books-settings-routes" })
    .use(access(deps))
    .use(jsonBody)
    .get("/v1/settings/books", async ({ user }) => present(await findMerchantBooks(deps.sql, user.id)), {
      auth: { allow: ["session"], needs: "settings:read" },
      response: { 200: settingsSchema, ...errorResponses(401, 403, 429) },
      detail: {
        operationId: "getBooksSettings",
        summary: "Settings for your statements and documents",
        tags,
      },
    })
    .patch(
      "/v1/settings/books",
      async ({ body, user, trace }) =>
        deps.sql.begin(async (tx) => {
          await refuseUnknownSource(tx, body.rateSource);
          const before = present(await lockMerchantBooks(tx, user.id));
          const after = present(await updateMerchantBooks(tx, user.id, body));
          const changed = SETTINGS.filter((name) => !isDeepStrictEqual(after[name], before[name]));
          if (changed.length > 0)
            await recordSecurityEvent(tx, {
              ...{ userId: user.id, type: "settings_changed", ...trace },
              // only the names: the trail is never rewritten, and an address may have to be erased
              details: { changed: changed.join(", ") },
            });
          return after;
        }),
      {
        auth: { allow: ["session"], needs: "settings:write" },
        body: settingsSchema.partial().strict(),
        response: { 200: settingsSchema, ...errorResponses(400, 401, 403, 413, 429) },
        detail: {
          operationId: "updateBooksSettings",
          summary: "Change settings for your statements and documents; omitted fields are unchanged",
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
    fiatCurrency: books?.fiatCurrency ?? null,
    rateSource: books?.rateSource ?? DEFAULT_RATE_SOURCE,
    usdcRate: books?.usdcRate ?? "par",
    documentLanguage: books?.documentLanguage ?? DEFAULT_LANGUAGE,
    datev: books?.datev ?? null,
  };
}
