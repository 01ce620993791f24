/** Assigns received transfers to links manually: sessions only, with a recent passkey assertion. */

import { Elysia } from "elysia";
import { z } from "zod";
import { notFound } from "../../core/domain/errors.ts";
import { TRANSACTION_ID } from "../../core/domain/ids.ts";
import { presentTransaction } from "../../core/domain/transaction.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, success, successSchema } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { assignTransaction, unassignTransaction } from "./assign-or-unassign.ts";
import { transactionSchema } from "./wire.ts";

const params = z.object({ id: z.string().max(100) });
const answer = successSchema(z.object({ transaction: transactionSchema })).meta({ id: "TransactionAnswer" });
const auth = { allow: ["session"], needs: "transfers:assign", freshPasskey: true } as const;
const responses = { 200: answer, ...errorResponses(400, 401, 403, 404, 409, 413, 429) };
const tags = ["Transactions"];

export const assignRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "assign-routes" })
    .use(access(deps))
    .use(jsonBody)
    .post(
      "/v1/transactions/:id/assign",
      async ({ params, body, user, trace }) => {
        const asked = {
          transactionId: readId(params.id),
          userId: user.id,
          trace,
          mismatchMinUnits: deps.config.relayMinUnits,
        };
        const row = await assignTransaction(deps.sql, { ...asked, ...body });
        const transaction = presentTransaction(row);
        return success({ transaction }, "Transaction assigned");
      },
      {
        auth,
        params,
        // strict: with a misspelt `accept` the transfer would be booked without paying
        body: z.strictObject({
          linkId: z.string().min(1).max(100),
          accept: z
            .boolean()
            .default(false)
            .describe("Let the transfer pay the link even if its value differs from the link's amount"),
        }),
        response: responses,
        detail: { operationId: "assignTransaction", summary: "Assign a received transfer to a link", tags },
      },
    )
    .post(
      "/v1/transactions/:id/unassign",
      async ({ params, user, trace }) => {
        const row = await unassignTransaction(deps.sql, {
          transactionId: readId(params.id),
          userId: user.id,
          trace,
          mismatchMinUnits: deps.config.relayMinUnits,
        });
        const transaction = presentTransaction(row);
        return success({ transaction }, "Transaction unassigned");
      },
      {
        auth,
        params,
        response: responses,
        detail: { operationId: "unassignTransaction", summary: "Unassign a transfer from its link", tags },
      },
    );

function readId(id: string): string {
  if (!TRANSACTION_ID.test(id)) throw notFound("Transaction");
  return id;
}
