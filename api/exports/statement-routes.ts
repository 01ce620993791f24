/** Statements of a wallet: on request for any period, and automatically every month. */
import { Elysia } from "elysia";
import { z } from "zod";
import { invalid, notFound } from "../../core/domain/errors.ts";
import { fiatChoiceOf } from "../../core/domain/exchange-rate.ts";
import { isMonth, type Period, periodOfDays, periodOfMonth } from "../../core/domain/local-days.ts";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { STATEMENT_ROWS_MAX } from "../../core/domain/statement.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { hasMoreMovements } from "../../db/exports/count-movements.ts";
import { findMerchantBooks } from "../../db/exports/merchant-books.ts";
import {
  type ListedStatement,
  listMonthlyStatements,
  type StatementPeriod,
} from "../../db/exports/statements.ts";
import { findWallet } from "../../db/wallets/wallets.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { documentedResponses } from "../http/documented-responses.ts";
import { errorResponses, isoTime, success, successSchema } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { timeZoneSchema } from "./books-settings-routes.ts";
import { fiatFields } from "./fiat-choice.ts";
import { day, madeFile, makeFile, mayExport } from "./wire.ts";

const LIST_MAX = 200;
const tags = ["Exports"];

const statementBody = z.strictObject({
  format: z
    .enum(["csv", "json", "pdf", "xlsx", "excel_csv", "camt053"])
    .describe(
      "camt053 is ISO 20022 camt.053.001.08 in a currency, with a final entry for differences from rates and rounding",
    ),
  ...fiatFields,
  network: z.enum(NETWORK_IDS),
  month: z.string().refine(isMonth, "must be a month such as 2026-10").optional(),
  dateFrom: day.optional().describe("The first day, with dateTo instead of month"),
  dateTo: day.optional().describe("The last day, included"),
  timeZone: timeZoneSchema
    .optional()
    .describe("The time zone in which days begin; default: that of your books"),
});

const monthlySchema = z.object({
  month: z.string(),
  network: z.enum(NETWORK_IDS),
  status: z.enum(["IN_PROGRESS", "READY", "FAILED"]),
  reason: z.string().nullable().describe("Why it FAILED"),
  willRetry: z
    .boolean()
    .describe("Whether the service will retry a FAILED one; a refused one is not retried"),
  createdAt: isoTime,
  pdfUrl: z.string().nullable().describe("null when this file failed"),
  csvUrl: z.string().nullable().describe("null when this file failed"),
});
const monthlyAnswer = successSchema(z.object({ statements: z.array(monthlySchema) }));

export const statementRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "statement-routes" })
    .use(access(deps))
    .use(jsonBody)
    .post(
      "/v1/statements",
      async ({ body, user, headers, requestId, set }) => {
        const { network, format } = body;
        const books = await findMerchantBooks(deps.sql, user.id);
        const timeZone = body.timeZone ?? books?.timeZone ?? "UTC";
        const fiat = format === "camt053" ? fiatChoiceOf(books, body) : undefined;
        if (format === "camt053" && !fiat)
          throw invalid("fiatCurrency", "is required by this format, here or in your books settings");
        const { from, before } = readPeriod(body, timeZone);
        if (!(await findWallet(deps.sql, user.id, network))) throw notFound(`Wallet on ${network}`);
        await refuseTooMany(deps, { userId: user.id, network, from, before });
        return makeFile(deps, set, {
          userId: user.id,
          requestId,
          format,
          prefer: headers.prefer,
          request: {
            filter: NO_FILTER,
            profile: "accounting",
            timeZone,
            fiat,
            statement: { network, from, before },
          },
        });
      },
      {
        auth: { ...mayExport, limit: "exports", waits: true },
        body: statementBody,
        detail: {
          operationId: "createStatement",
          summary: "A wallet's statement for a period",
          description: `Opening and closing balance, every movement, and whether the closing balance equals the chain's in the period's last block. At most ${STATEMENT_ROWS_MAX} movements. A period that is not over is covered up to the last confirmed block. Not final while the wallet's earlier blocks are being read.`,
          tags,
          responses: documentedResponses({ ...madeFile, ...errorResponses(404) }),
        },
      },
    )
    .get(
      "/v1/statements",
      async ({ user }) => {
        const found = await listMonthlyStatements(deps.sql, user.id, LIST_MAX);
        return success(
          {
            statements: found.map((statement) => presentMonthly(deps, statement)),
          },
          "Statements retrieved",
        );
      },
      {
        auth: mayExport,
        response: { 200: monthlyAnswer, ...errorResponses(401, 403, 429) },
        detail: { operationId: "listStatements", summary: "Your monthly statements, newest first", tags },
      },
    );

function presentMonthly(
  deps: ApiDeps,
  { month, network, status, refusal, willRetry, createdAt, pdfExportId, csvExportId }: ListedStatement,
): z.infer<typeof monthlySchema> {
  const hasFailed = status === "FAILED";
  return {
    ...{ month, network, status },
    reason: hasFailed ? (refusal ?? "service error") : null,
    willRetry: hasFailed && willRetry,
    createdAt: createdAt.toISOString(),
    pdfUrl: urlOf(deps, pdfExportId),
    csvUrl: urlOf(deps, csvExportId),
  };
}

function urlOf({ config }: Pick<ApiDeps, "config">, exportId: string | null): string | null {
  return exportId && `${config.baseUrl}/v1/transactions/exports/${exportId}/download`;
}

/** Throws VALIDATION_ERROR for a period without a beginning or end, or one that has not begun. */
function readPeriod({ month, dateFrom, dateTo }: z.infer<typeof statementBody>, timeZone: string): Period {
  if (month === undefined && (dateFrom === undefined || dateTo === undefined))
    throw invalid(dateFrom === undefined ? "dateFrom" : "dateTo", "is required unless month is given");
  if (month !== undefined && (dateFrom ?? dateTo) !== undefined)
    throw invalid("month", "cannot be combined with dateFrom and dateTo");
  const period =
    month === undefined
      ? periodOfDays(dateFrom ?? "", dateTo ?? "", timeZone)
      : periodOfMonth(month, timeZone);
  const field = month === undefined ? "dateFrom" : "month";
  if (period.from >= period.before) throw invalid("dateFrom", "must not be after dateTo");
  if (period.from.getTime() >= Date.now()) throw invalid(field, "must have begun");
  return period;
}

async function refuseTooMany({ sql }: Pick<ApiDeps, "sql">, period: StatementPeriod): Promise<void> {
  if (await hasMoreMovements(sql, period, STATEMENT_ROWS_MAX))
    throw invalid(
      "month",
      `has more than ${STATEMENT_ROWS_MAX} movements; a statement holds at most ${STATEMENT_ROWS_MAX}: shorten the period`,
    );
}
