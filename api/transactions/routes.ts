/** The history of the signed-in user, and exports of it. */
import { Elysia } from "elysia";
import { z } from "zod";
import { invalid } from "../../core/domain/errors.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { TRANSACTION_STATUSES, TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import { presentTransaction } from "../../core/domain/transaction.ts";
import { type Sum, sumTransactions } from "../../db/transactions/summary.ts";
import { findPosition, listTransactions } from "../../db/transactions/transactions.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, success } from "../http/envelope.ts";
import { readCursor, writeCursor } from "../http/list-pages.ts";
import { refuseOtherUser } from "../http/own-user-id.ts";
import { assignRoutes } from "./assign-routes.ts";
import { listQuery, summaryQuery, toFilter } from "./filter.ts";
import { transactionSchema } from "./wire.ts";

const listSchema = z
  .object({
    success: z.literal(true),
    data: z.object({
      transactions: z.array(transactionSchema),
      pagination: z.object({
        total: z.int(),
        limit: z.int(),
        offset: z.int(),
        hasMore: z.boolean(),
        totalIsLowerBound: z.boolean().optional().describe("True when more rows match than were counted"),
      }),
      nextCursor: z.string().nullable().describe("Pass as `cursor` for the next page; null on the last one"),
    }),
    message: z.string(),
  })
  .meta({ id: "TransactionList" });

const sumSchema = z
  .object({
    type: z.enum(TRANSACTION_TYPES),
    status: z.enum(TRANSACTION_STATUSES),
    count: z.int(),
    amount: z.string(),
  })
  .meta({ id: "TransactionSum" });
const summarySchema = z
  .object({
    success: z.literal(true),
    data: z.object({
      summary: z
        .array(sumSchema)
        .describe("Of every network, test networks included; combinations without rows are omitted"),
      summaryByNetwork: z
        .array(z.object({ network: z.enum(NETWORK_IDS), summary: z.array(sumSchema) }))
        .describe("The same for each network"),
      currency: z.literal("USDC"),
    }),
    message: z.string(),
  })
  .meta({ id: "TransactionSummary" });

const mayRead = {
  allow: ["session", "apiKey"],
  scope: "transactions:read",
  needs: "transactions:read",
  limit: "transactions",
} as const;

export const transactionRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "transaction-routes" })
    .use(access(deps))
    .use(assignRoutes(deps))
    .get("/v1/transactions", ({ query, user }) => answerList(deps, user.id, query), {
      auth: mayRead,
      query: listQuery,
      response: { 200: listSchema, ...errorResponses(400, 401, 403, 429) },
      detail: {
        operationId: "listTransactions",
        summary: "Your transactions, newest first",
        tags: ["Transactions"],
      },
    })
    .get("/v1/transactions/summary", ({ query, user }) => answerSummary(deps, user.id, query), {
      auth: mayRead,
      query: summaryQuery,
      response: { 200: summarySchema, ...errorResponses(400, 401, 403, 429) },
      detail: {
        operationId: "summarizeTransactions",
        summary: "Counts and sums of your transactions by type and status",
        tags: ["Transactions"],
      },
    });

async function answerSummary(deps: ApiDeps, userId: string, query: z.infer<typeof summaryQuery>) {
  refuseOtherUser(userId, query.userId);
  const filter = toFilter(query);
  const sums = await deps.sql.begin("isolation level repeatable read read only", (tx) =>
    sumTransactions(tx, userId, filter),
  );
  const summaryByNetwork = NETWORK_IDS.flatMap((network) => {
    const summary = presentSums(sums.filter((sum) => sum.network === network));
    return summary.length > 0 ? [{ network, summary }] : [];
  });
  return success(
    { summary: presentSums(sums), summaryByNetwork, currency: "USDC" as const },
    "Transactions summed up",
  );
}

/** By type and status. */
function presentSums(sums: readonly Sum[]): z.infer<typeof sumSchema>[] {
  return TRANSACTION_TYPES.flatMap((type) =>
    TRANSACTION_STATUSES.flatMap((status) => {
      const found = sums.filter((one) => one.type === type && one.status === status);
      if (found.length === 0) return [];
      const count = found.reduce((total, one) => total + one.count, 0n);
      const units = found.reduce((total, one) => total + one.units, 0n);
      return [{ type, status, count: Number(count), amount: formatUnits(units) }];
    }),
  );
}

async function answerList(deps: ApiDeps, userId: string, query: z.infer<typeof listQuery>) {
  refuseOtherUser(userId, query.userId);
  const filter = toFilter(query);
  const { limit, offset } = query;
  const owner = { list: "transaction", userId } as const;
  const after = query.cursor === undefined ? undefined : readCursor(owner, query.cursor);
  if (after && offset > 0) throw invalid("offset", "cannot be combined with cursor");
  const { page, last, hasMore } = await deps.reader.read(async (tx) => {
    // with a cursor, one extra row shows whether there is a next page
    const found = await listTransactions(tx, userId, filter, {
      limit: after ? limit + 1 : limit,
      offset,
      after,
    });
    const rows = found.rows.slice(0, limit);
    const isMore = after ? found.rows.length > limit : offset + rows.length < found.total;
    const id = isMore ? rows.at(-1)?.id : undefined;
    return {
      page: { ...found, rows },
      hasMore: isMore,
      last: id && (await findPosition(tx, { id, userId })),
    };
  });
  const pagination = {
    total: page.total,
    limit,
    offset,
    hasMore,
    ...(page.isLowerBound ? { totalIsLowerBound: true } : {}),
  };
  return success(
    {
      transactions: page.rows.map(presentTransaction),
      pagination,
      nextCursor: last ? writeCursor(owner, last) : null,
    },
    "Transactions retrieved",
  );
}
