/** A merchant's own exchange rates: entered for a period or day by day, listed, removed. */
import { Elysia } from "elysia";
import { z } from "zod";
import { isDay } from "../../core/domain/calendar.ts";
import { conflict } from "../../core/domain/errors.ts";
import {
  formatRate,
  OWN_RATES_AT_ONCE_MAX,
  OWN_RATES_MAX,
  parseRate,
} from "../../core/domain/exchange-rate.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import {
  countOwnRates,
  lockOwnRates,
  pageOwnRates,
  setDailyRates,
  setOwnRates,
} from "../../db/exports/exchange-rates.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, isoTime, success, successSchema } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { currencySchema } from "./fiat-choice.ts";
import { refuseOrder, refusePeriod } from "./rate-period.ts";

const PATH = "/v1/exchange-rates";
const PERIODS_A_PAGE = 50;
const tags = ["Exports"];
const mayExport = { allow: ["session", "apiKey"], scope: "exports", needs: "exports" } as const;
const inDashboard = { allow: ["session"], needs: "exports" } as const;
const WHO = `For owners, accountants and keys with the scope exports. At most ${OWN_RATES_MAX} days have a rate: 409 too_many.`;

const day = z.string().refine(isDay, "must be a day such as 2026-10-31");
const rateText = z
  .string()
  .refine(
    (text) => parseRate(text) !== undefined,
    "must be a positive decimal with at most 10 decimal places",
  );

const periodBody = z.strictObject({
  currency: currencySchema,
  dateFrom: day,
  dateTo: day.describe("The last day, included"),
  rate: rateText
    .nullable()
    .describe("Units of the currency per USDC, as decimal text; null removes the rates of these days"),
});
const dailyBody = z.strictObject({
  currency: currencySchema,
  rates: z
    .array(z.strictObject({ date: day, rate: rateText }))
    .min(1)
    .max(OWN_RATES_AT_ONCE_MAX)
    .refine(
      (all) => new Set(all.map(({ date }) => date)).size === all.length,
      "must not contain a date twice",
    ),
});
const listQuery = z.object({
  currency: currencySchema,
  before: day.optional().describe("nextBefore of the previous page, to continue with earlier days"),
});
const listAnswer = successSchema(
  z.object({
    periods: z
      .array(z.object({ dateFrom: z.string(), dateTo: z.string(), rate: z.string(), enteredAt: isoTime }))
      .describe("Newest first; consecutive days with the same rate form one period"),
    nextBefore: z.string().nullable(),
    currencies: z.array(z.object({ currency: z.string(), days: z.int() })),
  }),
);

export const ownRateRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "own-rate-routes" })
    .use(access(deps))
    .use(jsonBody)
    .get(
      `${PATH}/own`,
      async ({ query: { currency, before }, user }) => {
        const page = { userId: user.id, currency, limit: PERIODS_A_PAGE + 1, ...(before ? { before } : {}) };
        const found = await pageOwnRates(deps.sql, page);
        const shown = found.slice(0, PERIODS_A_PAGE);
        return success(
          {
            periods: shown.map(({ firstDay, lastDay, rateE10, enteredAt }) => ({
              dateFrom: firstDay,
              dateTo: lastDay,
              rate: formatRate(rateE10),
              enteredAt: enteredAt.toISOString(),
            })),
            nextBefore: found.length > shown.length ? (shown.at(-1)?.firstDay ?? null) : null,
            currencies: await countOwnRates(deps.sql, user.id),
          },
          "Rates retrieved",
        );
      },
      {
        auth: inDashboard,
        query: listQuery,
        response: { 200: listAnswer, ...errorResponses(400, 401, 403, 429) },
        detail: { operationId: "listOwnRates", summary: "The rates that you entered", tags },
      },
    )
    .post(
      PATH,
      async ({ body, user, trace }) => {
        const { currency, dateFrom, dateTo, rate } = body;
        // consecutive days with one rate are listed, and can be removed, as one period of any length
        if (rate === null) refuseOrder(body);
        else refusePeriod(body);
        await deps.sql.begin(async (tx) => {
          await lockOwnRates(tx, user.id);
          const days = { userId: user.id, currency, from: dateFrom, to: dateTo };
          await setOwnRates(tx, days, rate === null ? undefined : parseRate(rate));
          if (rate !== null) await refuseTooMany(tx, user.id);
          await recordSecurityEvent(tx, {
            ...{ userId: user.id, type: "settings_changed", ...trace },
            details: { ownRates: rate === null ? "removed" : "stored", currency, dateFrom, dateTo, rate },
          });
        });
        return success(
          { currency, dateFrom, dateTo, rate },
          rate === null ? "Rates removed" : "Rates stored",
        );
      },
      {
        auth: mayExport,
        body: periodBody,
        response: {
          200: successSchema(
            z.object({
              currency: z.string(),
              dateFrom: z.string(),
              dateTo: z.string(),
              rate: z.string().nullable(),
            }),
          ),
          ...errorResponses(400, 401, 403, 409, 413, 429),
        },
        detail: {
          operationId: "setOwnRates",
          summary: "Enter your own rates; they apply when rateSource in your books settings is own",
          description: WHO,
          tags,
        },
      },
    )
    .post(
      `${PATH}/own`,
      async ({ body: { currency, rates }, user, trace }) => {
        const given = rates.map(({ date, rate }) => ({ day: date, rateE10: parseRate(rate) ?? 0n }));
        const days = given.map((one) => one.day).toSorted();
        const [dateFrom = "", dateTo = ""] = [days[0], days.at(-1)];
        await deps.sql.begin(async (tx) => {
          await lockOwnRates(tx, user.id);
          await setDailyRates(tx, { userId: user.id, currency }, given);
          await refuseTooMany(tx, user.id);
          await recordSecurityEvent(tx, {
            ...{ userId: user.id, type: "settings_changed", ...trace },
            details: { ownRates: "stored", currency, dateFrom, dateTo, days: days.length },
          });
        });
        return success({ currency, dateFrom, dateTo, days: days.length }, "Rates stored");
      },
      {
        auth: inDashboard,
        body: dailyBody,
        response: {
          200: successSchema(
            z.object({
              currency: z.string(),
              dateFrom: z.string(),
              dateTo: z.string(),
              days: z.int(),
            }),
          ),
          ...errorResponses(400, 401, 403, 409, 413, 429),
        },
        detail: {
          operationId: "setOwnDailyRates",
          summary: "Enter your own rates for many days, all or none",
          description: `For owners and accountants. At most ${OWN_RATES_MAX} days have a rate: 409 too_many.`,
          tags,
        },
      },
    );

/** Throws CONFLICT, which rolls the transaction back. */
async function refuseTooMany(tx: Tx, userId: string): Promise<void> {
  const days = (await countOwnRates(tx, userId)).reduce((sum, one) => sum + one.days, 0);
  if (days > OWN_RATES_MAX)
    throw conflict(`That would make ${days} days with a rate; at most ${OWN_RATES_MAX} are allowed`, {
      issue: "too_many",
    });
}
