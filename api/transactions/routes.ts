/** The history of the signed-in user, and exports of it. */
import { Elysia } from "elysia";
import { z } from "zod";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { TRANSACTION_STATUSES, TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import { presentTransaction } from "../../core/domain/transaction.ts";
import { listTransactions } from "../../db/transactions.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, isoTime } from "../http/envelope.ts";
import { exportRoutes } from "./export-routes.ts";
import { listQuery, toFilter } from "./filter.ts";

const transactionSchema = z.object({
  id: z.string(),
  type: z.enum(TRANSACTION_TYPES),
  amount: z.string(),
  currency: z.string(),
  network: z.enum(NETWORK_IDS),
  status: z.enum(TRANSACTION_STATUSES),
  title: z.string(),
  description: z.string(),
  clientWalletAddress: z.string(),
  transactionHash: z.string().nullable(),
  blockNumber: z.int().nullable(),
  confirmedAt: isoTime.nullable(),
  detectedAt: isoTime,
  metadata: z.looseObject({
    txHash: z.string().nullable(),
    logIndex: z.int().nullable(),
    linkId: z.string().nullable(),
    paymentId: z.string().nullable(),
    failureReason: z.string().optional(),
  }),
});

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
        .describe("Present and true when a search in a very large history found more than it counted"),
    }),
  }),
  message: z.string(),
});

export const transactionRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "transaction-routes" })
    .use(access(deps))
    .use(exportRoutes(deps))
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
