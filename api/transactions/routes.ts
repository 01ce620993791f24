/** The history of the signed-in user, and exports of it. */
import { Elysia } from "elysia";
import { z } from "zod";
import { presentTransaction } from "../../core/domain/transaction.ts";
import { listTransactions } from "../../db/transactions/transactions.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { assignRoutes } from "./assign-routes.ts";
import { listQuery, toFilter } from "./filter.ts";
import { transactionSchema } from "./wire.ts";

const listSchema = z.object({
  success: z.literal(true),
  data: z.object({
    transactions: z.array(transactionSchema),
    pagination: z.object({
      total: z.int(),
      limit: z.int(),
      offset: z.int(),
      hasMore: z.boolean(),
      totalIsLowerBound: z
        .boolean()
        .optional()
        .describe("Present and true when a search in a very large history matched more rows than it counted"),
    }),
  }),
  message: z.string(),
});

export const transactionRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "transaction-routes" })
    .use(access(deps))
    .use(assignRoutes(deps))
    .get(
      "/v1/transactions",
      async ({ query, user }) => {
        const filter = toFilter(query);
        const { limit, offset } = query;
        const page = await deps.sql.begin("isolation level repeatable read read only", (tx) =>
          listTransactions(tx, user.id, filter, { limit, offset }),
        );
        const pagination = {
          total: page.total,
          limit,
          offset,
          hasMore: offset + page.rows.length < page.total,
          ...(page.isLowerBound ? { totalIsLowerBound: true } : {}),
        };
        return {
          success: true as const,
          data: { transactions: page.rows.map(presentTransaction), pagination },
          message: "Transactions retrieved",
        };
      },
      {
        auth: { allow: ["session", "apiKey"], scope: "transactions:read", limit: "transactions" },
        query: listQuery,
        response: { 200: listSchema, ...errorResponses(400, 401, 403, 429) },
        detail: { summary: "Your transactions, newest first", tags: ["Transactions"] },
      },
    );
