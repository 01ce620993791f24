/** Sends and payouts from the signed-in user's wallets. Not accessible to API keys: only the passkey can move money. */

import { Elysia } from "elysia";
import type { z } from "zod";
import { invalid, notFound } from "../../core/domain/errors.ts";
import { newSendId, SEND_ID } from "../../core/domain/ids.ts";
import { DEFAULT_NETWORK } from "../../core/domain/networks.ts";
import { FEE_NOTE } from "../../core/domain/wallet-operation.ts";
import { parseIdempotencyKey } from "../../db/http/idempotency.ts";
import type { User, Wallet } from "../../db/schema.ts";
import { listOperations, type NewOperationItem } from "../../db/wallet-ops/operations.ts";
import { findWallet } from "../../db/wallets/wallets.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { pageOf } from "../http/list-pages.ts";
import { takesHeaders } from "../http/openapi-headers.ts";
import { getEnabledChain } from "../wallets/enabled-network.ts";
import { confirmOperation } from "./confirm-operation.ts";
import { awaitOperation, cancel, presentHistory, transportsOf } from "./operations.ts";
import { parseRecipients } from "./parse-recipients.ts";
import { prepareOperation } from "./prepare-operation.ts";
import { prepareVoid } from "./prepare-void.ts";
import {
  confirmBody,
  confirmedSchema,
  listQuery,
  operationParams,
  prepareBody,
  preparedSchema,
  presentPrepared,
  presentSend,
  sendListSchema,
  sendSchema,
  waitQuery,
} from "./wire.ts";

const tags = ["Sends"];
const sending = { allow: ["session"], needs: "money:send" } as const;
const reading = { allow: ["session"], needs: "transactions:read" } as const;

export const sendRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "send-routes" })
    .use(access(deps))
    .use(jsonBody)
    .post(
      "/v1/wallets/send/prepare",
      async ({ body, bodyText, user, person, headers, requestId, set, status }) => {
        const network = body.network ?? DEFAULT_NETWORK;
        const chain = getEnabledChain(deps, network);
        const wallet = await findWallet(deps.sql, user.id, network);
        if (!wallet) throw notFound(`A wallet of yours on ${network}`);
        const items = parseRecipients({ body, bodyText, minUnits: deps.config.sendMinUnits }, wallet);
        const { operation, isReplay } = await prepareOperation(deps, chain, {
          id: newSendId(new Date()),
          kind: "SEND",
          wallet,
          signer: person,
          requestId,
          items: [...items, ...feeItems(deps.config, wallet)],
          request: { network, items },
          idempotencyKey: parseIdempotencyKey(headers["idempotency-key"]),
        });
        if (isReplay) set.headers["idempotent-replayed"] = "true";
        return status(201, presentPrepared(operation, deps.config, await transportsOf(deps, person)));
      },
      {
        auth: { ...sending, limit: "paymentOperations" },
        body: prepareBody,
        response: { 201: preparedSchema, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: {
          operationId: "prepareSend",
          parameters: takesHeaders("Idempotency-Key"),
          summary: "Prepare a send or payout for the passkey to sign",
          tags,
        },
      },
    )
    .post(
      "/v1/wallets/send/confirm",
      async ({ body, user, person, trace, status }) => {
        const operation = await confirmOperation(deps, {
          user,
          signer: person,
          kind: "SEND",
          id: body.sendId,
          challengeId: body.challengeId,
          response: body.passkeyResponse,
          trace,
          history: { linkId: null, description: null, note: null },
          event: "wallet.send_queued",
        });
        const transactions = await presentHistory(deps, user, operation);
        const [only, ...others] = transactions;
        return status(202, {
          success: true as const,
          sendId: operation.id,
          status: operation.state,
          userOpHash: operation.userOpHash,
          statusUrl: `${deps.config.baseUrl}/v1/wallets/sends/${operation.id}`,
          ...(only && others.length === 0 ? { transaction: only } : { transactions }),
        });
      },
      {
        auth: sending,
        body: confirmBody,
        response: { 202: confirmedSchema, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: {
          operationId: "confirmSend",
          summary: "Confirm a prepared send with the passkey's response",
          tags,
        },
      },
    )
    .get("/v1/wallets/sends", ({ query, user }) => answerList(deps, user, query), {
      auth: reading,
      query: listQuery,
      response: { 200: sendListSchema, ...errorResponses(400, 401, 403, 429) },
      detail: { operationId: "listSends", summary: "Your sends, newest first", tags },
    })
    .get(
      "/v1/wallets/sends/:id",
      async ({ params, query, user }) =>
        presentSend(await awaitOperation(deps, { user, id: params.id, kind: "SEND" }, query)),
      {
        auth: { ...reading, waits: true },
        params: operationParams,
        query: waitQuery,
        response: { 200: sendSchema, ...errorResponses(400, 401, 403, 404, 429) },
        detail: { operationId: "getSend", summary: "One send, immediately or when its status changes", tags },
      },
    )
    .post(
      "/v1/wallets/sends/:id/void",
      async ({ params, user, person, requestId, status }) => {
        const ended = { user, signer: person, id: params.id, kind: "SEND", requestId } as const;
        const operation = await prepareVoid(deps, ended);
        return status(201, presentPrepared(operation, deps.config, await transportsOf(deps, person)));
      },
      {
        auth: { ...sending, limit: "paymentOperations" },
        params: operationParams,
        response: { 201: preparedSchema, ...errorResponses(400, 401, 403, 404, 409, 429) },
        detail: {
          operationId: "voidSend",
          summary:
            "Prepare an empty operation that prevents an ended send from still being executed; confirm it like a send",
          tags,
        },
      },
    )
    .post(
      "/v1/wallets/sends/:id/cancel",
      async ({ params, user }) => presentSend(await cancel(deps, { user, id: params.id, kind: "SEND" })),
      {
        auth: sending,
        params: operationParams,
        response: { 200: sendSchema, ...errorResponses(400, 401, 403, 404, 409, 429) },
        detail: { operationId: "cancelSend", summary: "Cancel a send that is not signed yet", tags },
      },
    );

/** The service's own wallets pay no fee to themselves. */
function feeItems({ sendFee }: ApiDeps["config"], { address }: Wallet): NewOperationItem[] {
  if (!sendFee || sendFee.address === address) return [];
  return [{ to: sendFee.address, amountUnits: sendFee.units, note: FEE_NOTE, isFee: true }];
}

async function answerList(deps: ApiDeps, user: User, query: z.infer<typeof listQuery>) {
  const { limit, status: state, cursor } = query;
  if (cursor !== undefined && !SEND_ID.test(cursor)) throw invalid("cursor", "is not a cursor of this list");
  const found = await listOperations(
    deps.sql,
    { userId: user.id, kind: "SEND", state },
    { before: cursor, limit: limit + 1 },
  );
  const { rows, nextCursor, hasNextPage } = pageOf(found, limit, ({ id }) => id);
  return { sends: rows.map(presentSend), nextCursor, pagination: { hasNextPage, limit } };
}
