/** Exchange rates: the sources with their state, and the rate used for each day. */
import { Elysia } from "elysia";
import { z } from "zod";
import { addDays, type FiatChoice, fiatChoiceOf } from "../../core/domain/exchange-rate.ts";
import { UNITS_PER_USDC } from "../../core/domain/money.ts";
import { listRateSources } from "../../db/exports/exchange-rates.ts";
import { findMerchantBooks } from "../../db/exports/merchant-books.ts";
import { readValuation } from "../../db/exports/valuation.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, isoTime, success, successSchema } from "../http/envelope.ts";
import { currencySchema } from "./fiat-choice.ts";
import { refusePeriod } from "./rate-period.ts";
import { day, mayExport } from "./wire.ts";

const tags = ["Exports"];

const sourcesAnswer = successSchema(
  z.object({
    sources: z.array(
      z.object({
        name: z.string(),
        newestDate: z.string().nullable().describe("The most recent day with a rate"),
        fetchedAt: isoTime.nullable(),
        attemptedAt: isoTime,
        error: z.string().nullable().describe("Why the latest attempt failed"),
      }),
    ),
  }),
);

const ratesAnswer = successSchema(
  z.object({
    currency: z.string(),
    source: z.string(),
    usdcRate: z.enum(["par", "source"]),
    rates: z
      .array(
        z.object({
          date: z.string(),
          rate: z.string().nullable().describe("Units of the currency per USDC; null: no rate, so no value"),
          rateDate: z
            .string()
            .nullable()
            .describe("The day the rate is from: weekends use the last one before"),
        }),
      )
      .describe("One row per day"),
  }),
);

const ratesQuery = z.object({
  currency: currencySchema,
  dateFrom: day,
  dateTo: day,
  correctedRates: z.enum(["true", "false"]).optional(),
});

export const exchangeRateRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "exchange-rate-routes" })
    .use(access(deps))
    .get(
      "/v1/exchange-rates/sources",
      async () =>
        success(
          {
            sources: (await listRateSources(deps.sql)).map(
              ({ source, newestDay, fetchedAt, attemptedAt, error }) => ({
                name: source,
                newestDate: newestDay,
                error,
                fetchedAt: fetchedAt?.toISOString() ?? null,
                attemptedAt: attemptedAt.toISOString(),
              }),
            ),
          },
          "Sources retrieved",
        ),
      {
        auth: mayExport,
        response: { 200: sourcesAnswer, ...errorResponses(401, 403, 429) },
        detail: { operationId: "listRateSources", summary: "The sources of exchange rates", tags },
      },
    )
    .get(
      "/v1/exchange-rates",
      async ({ query, user }) => {
        const { currency, dateFrom, dateTo } = query;
        refusePeriod(query);
        const books = await findMerchantBooks(deps.sql, user.id);
        const isCorrected = query.correctedRates === "true";
        const asked = { fiatCurrency: currency, correctedRates: isCorrected };
        const choice = fiatChoiceOf(books, asked) as FiatChoice;
        const valuation = await readValuation(deps.sql, choice, { userId: user.id, firstDay: dateFrom });
        const rates = daysOf({ dateFrom, dateTo }).map((date) => {
          const value = valuation.valueOf(UNITS_PER_USDC, date);
          return { date, rate: value?.rate ?? null, rateDate: value?.rateDay ?? null };
        });
        const { source, usdcRate } = choice;
        return success({ currency, source, usdcRate, rates }, "Rates retrieved");
      },
      {
        auth: mayExport,
        query: ratesQuery,
        response: { 200: ratesAnswer, ...errorResponses(400, 401, 403, 429) },
        detail: {
          operationId: "listExchangeRates",
          summary: "The daily rates used to value your movements",
          tags,
        },
      },
    );

function daysOf({ dateFrom, dateTo }: { dateFrom: string; dateTo: string }): string[] {
  const days: string[] = [];
  for (let date = dateFrom; date <= dateTo; date = addDays(date, 1)) days.push(date);
  return days;
}
