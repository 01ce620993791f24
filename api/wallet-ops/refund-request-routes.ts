/** Refund requests: made by a session or an API key, then prepared by an owner of the wallet, who signs them like every send. */

import { Elysia } from "elysia";
import { formatUnits } from "../../core/domain/money.ts";
import { parseIdempotencyKey } from "../../db/http/idempotency.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { takesHeaders } from "../http/openapi-headers.ts";
import { transportsOf } from "./operations.ts";
import { prepareRequested, readRefundable } from "./prepare-refund.ts";
import { answerRefund, getRefund } from "./present-refunds.ts";
import { preparedRefundSchema, presentShown, refundBody, requestedRefundSchema } from "./refund-wire.ts";
import { requestRefund } from "./request-refund.ts";
import { operationParams, presentSigning } from "./wire.ts";

const tags = ["Refunds"];

export const refundRequestRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "refund-request-routes" })
    .use(access(deps))
    .use(jsonBody)
    .post(
      "/v1/payment-links/:id/refund-requests",
      async ({ params, body, bodyText, user, caller, headers, requestId, set, status: answer }) => {
        const { id, isReplay } = await requestRefund(deps, {
          user,
          linkId: params.id,
          body: body ?? {},
          bodyText,
          requestId,
          requestedBy: caller.actorId,
          idempotencyKey: parseIdempotencyKey(headers["idempotency-key"]),
        });
        if (isReplay) set.headers["idempotent-replayed"] = "true";
        const refundable = await readRefundable(deps, { id: params.id });
        return answer(201, {
          ...(await answerRefund(deps, user, id)),
          refundable: formatUnits(refundable),
        });
      },
      {
        auth: {
          allow: ["session", "apiKey"],
          scope: "refunds:request",
          needs: "refunds:request",
          limit: "paymentOperations",
        },
        params: operationParams,
        body: refundBody,
        response: { 201: requestedRefundSchema, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: {
          operationId: "requestRefund",
          parameters: takesHeaders("Idempotency-Key"),
          summary: "Ask for a refund, which an owner of the wallet then prepares and signs",
          tags,
        },
      },
    )
    .post(
      "/v1/refunds/:id/prepare",
      async ({ params, user, person, requestId, status: answer }) => {
        const requested = await getRefund(deps, user, params.id);
        const { operation } = await prepareRequested(deps, {
          user,
          signer: person,
          refund: requested,
          requestId,
        });
        const refund = await getRefund(deps, user, params.id);
        return answer(201, {
          ...presentShown(refund),
          refundable: formatUnits(await readRefundable(deps, { id: refund.linkId })),
          ...presentSigning(operation, deps.config, await transportsOf(deps, person)),
        });
      },
      {
        auth: { allow: ["session"], needs: "money:send", limit: "paymentOperations" },
        params: operationParams,
        response: { 201: preparedRefundSchema, ...errorResponses(400, 401, 403, 404, 409, 429) },
        detail: {
          operationId: "prepareRequestedRefund",
          summary: "Prepare a requested refund for the passkey to sign; can be repeated while it is unsigned",
          tags,
        },
      },
    );
