/** Refunds of the signed-in merchant's links, signed by the passkey like every send. */

import { Elysia } from "elysia";
import { invalid, notFound } from "../../core/domain/errors.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { parseIdempotencyKey } from "../../db/http/idempotency.ts";
import { findLink } from "../../db/links/links.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { takesHeaders } from "../http/openapi-headers.ts";
import { cancelRefund } from "./cancel-refund.ts";
import { refuseAboveRefundable } from "./choose-refund.ts";
import { confirmOperation } from "./confirm-operation.ts";
import { awaitOperation, presentHistory, transportsOf } from "./operations.ts";
import { prepareRefund, readRefundable } from "./prepare-refund.ts";
import { prepareVoid } from "./prepare-void.ts";
import { answerRefund, answerRefunds, answerRefundsOfLink, getRefund } from "./present-refunds.ts";
import {
  confirmedRefundSchema,
  linkRefundsSchema,
  preparedRefundSchema,
  presentShown,
  refundBody,
  refundListQuery,
  refundListSchema,
  refundSchema,
} from "./refund-wire.ts";
import {
  operationParams,
  preparedSchema as preparedSendSchema,
  presentPrepared,
  presentSigning,
  signedBody,
  waitQuery,
} from "./wire.ts";

const tags = ["Refunds"];
const sending = { allow: ["session"], needs: "money:send" } as const;
/** Whoever may request refunds may also see their outcome. */
const mayRead = {
  allow: ["session", "apiKey"],
  scope: "refunds:request",
  needs: "transactions:read",
} as const;

export const refundRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "refund-routes" })
    .use(access(deps))
    .use(jsonBody)
    .post(
      "/v1/payment-links/:id/refunds",
      async ({ params, body, bodyText, user, person, headers, requestId, set, status: answer }) => {
        const { operation, isReplay } = await prepareRefund(deps, {
          user,
          signer: person,
          linkId: params.id,
          body: body ?? {},
          bodyText,
          requestId,
          idempotencyKey: parseIdempotencyKey(headers["idempotency-key"]),
        });
        if (isReplay) set.headers["idempotent-replayed"] = "true";
        const refund = await getRefund(deps, user, operation.id);
        return answer(201, {
          ...presentShown(refund),
          refundable: formatUnits(await readRefundable(deps, { id: refund.linkId })),
          ...presentSigning(operation, deps.config, await transportsOf(deps, person)),
        });
      },
      {
        auth: { ...sending, limit: "paymentOperations" },
        params: operationParams,
        body: refundBody,
        response: { 201: preparedRefundSchema, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: {
          operationId: "prepareRefund",
          parameters: takesHeaders("Idempotency-Key"),
          summary: "Prepare a refund of a link's money for the passkey to sign",
          tags,
        },
      },
    )
    .get("/v1/payment-links/:id/refunds", ({ params, user }) => answerRefundsOfLink(deps, user, params.id), {
      auth: mayRead,
      params: operationParams,
      response: { 200: linkRefundsSchema, ...errorResponses(400, 401, 403, 404, 429) },
      detail: {
        operationId: "listLinkRefunds",
        summary: "Refunds of a link and refund requests, newest first",
        tags,
      },
    })
    .get("/v1/refunds", ({ query, user }) => answerRefunds(deps, user, query), {
      auth: mayRead,
      query: refundListQuery,
      response: { 200: refundListSchema, ...errorResponses(400, 401, 403, 429) },
      detail: {
        operationId: "listRefunds",
        summary: "Your refunds and refund requests, newest first",
        tags,
      },
    })
    .get(
      "/v1/refunds/:id",
      async ({ params, query, user }) => {
        const { id, userOpHash } = await getRefund(deps, user, params.id);
        if (userOpHash !== null) await awaitOperation(deps, { user, id, kind: "REFUND" }, query);
        return answerRefund(deps, user, id);
      },
      {
        auth: { ...mayRead, waits: true },
        params: operationParams,
        query: waitQuery,
        response: { 200: refundSchema, ...errorResponses(400, 401, 403, 404, 429) },
        detail: {
          operationId: "getRefund",
          summary: "One refund, immediately or when its status changes",
          tags,
        },
      },
    )
    .post(
      "/v1/refunds/:id/confirm",
      async ({ params, body, user, person, trace, status: answer }) => {
        const refund = await getRefund(deps, user, params.id);
        if (refund.userOpHash === null) throw notPrepared();
        const link = await findLink(deps.sql, { id: refund.linkId, userId: user.id });
        if (!link) throw notFound("Payment link");
        const operation = await confirmOperation(deps, {
          user,
          signer: person,
          kind: "REFUND",
          id: refund.id,
          challengeId: body.challengeId,
          response: body.passkeyResponse,
          trace,
          event: "refund.created",
          history: { linkId: link.id, description: link.description, note: refund.reason },
          // since the preparation its payment may have left the chain, or an ended refund of the same money may have been executed
          recheck: (tx) => refuseAboveRefundable(tx, refund),
        });
        const [transaction] = await presentHistory(deps, user, operation);
        return answer(202, {
          success: true as const,
          refundId: operation.id,
          status: operation.state,
          userOpHash: operation.userOpHash,
          statusUrl: `${deps.config.baseUrl}/v1/refunds/${operation.id}`,
          ...(transaction ? { transaction } : {}),
        });
      },
      {
        auth: sending,
        params: operationParams,
        body: signedBody,
        response: { 202: confirmedRefundSchema, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: {
          operationId: "confirmRefund",
          summary: "Confirm a prepared refund with the passkey's response",
          tags,
        },
      },
    )
    .post(
      "/v1/refunds/:id/void",
      async ({ params, user, person, requestId, status: answer }) => {
        const ended = { user, signer: person, id: params.id, kind: "REFUND", requestId } as const;
        const operation = await prepareVoid(deps, ended);
        return answer(201, presentPrepared(operation, deps.config, await transportsOf(deps, person)));
      },
      {
        auth: { ...sending, limit: "paymentOperations" },
        params: operationParams,
        response: { 201: preparedSendSchema, ...errorResponses(400, 401, 403, 404, 409, 429) },
        detail: {
          operationId: "voidRefund",
          summary:
            "Prepare an empty operation that prevents an ended refund from still being executed; confirm it like a send",
          tags,
        },
      },
    )
    .post(
      "/v1/refunds/:id/cancel",
      async ({ params, user }) => {
        await cancelRefund(deps, { user, refund: await getRefund(deps, user, params.id) });
        return answerRefund(deps, user, params.id);
      },
      {
        auth: sending,
        params: operationParams,
        response: { 200: refundSchema, ...errorResponses(400, 401, 403, 404, 409, 429) },
        detail: {
          operationId: "cancelRefund",
          summary: "Cancel a refund or refund request that is not signed yet, and release its reservation",
          tags,
        },
      },
    );

function notPrepared() {
  return invalid("challengeId", "invalid_or_expired", "This refund was only requested; prepare it first");
}
