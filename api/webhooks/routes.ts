/** Webhooks according to Standard Webhooks 1.0.0: endpoints, their secrets, and the delivery log. */
import { Elysia } from "elysia";
import { z } from "zod";
import { conflict, invalid, notFound } from "../../core/domain/errors.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import {
  type DeliveryPosition,
  findDelivery,
  listAttempts,
  listDeliveries,
  redeliver,
} from "../../db/webhooks/deliveries.ts";
import { type EndpointChange, findEndpoint, listEndpoints } from "../../db/webhooks/webhooks.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, metaOf, withMeta } from "../http/envelope.ts";
import { pageLimit, pageOf, wholeList } from "../http/list-pages.ts";
import { knownQuery } from "../http/query.ts";
import {
  changeEndpoint,
  createEndpoint,
  removeEndpoint,
  rotateEndpointSecret,
  sendTestEvent,
} from "./endpoints.ts";
import {
  createBody,
  deliveryAnswerSchema,
  deliveryDetailSchema,
  deliveryListSchema,
  endpointListSchema,
  endpointSchema,
  endpointWithSecretSchema,
  presentAttempt,
  presentDelivery,
  presentEndpoint,
  testBody,
  updateBody,
} from "./wire.ts";

const deletedSchema = withMeta(z.object({ id: z.string(), deleted: z.literal(true) }));

const ENDPOINTS = "/v1/webhook-endpoints";
const DELIVERIES = "/v1/webhook-deliveries";
const tags = ["Webhooks"];
const auth = { allow: ["session", "apiKey"], scope: "webhooks", needs: "webhooks:manage" } as const;
/** Changes to where messages go and who can sign them. */
const guarded = { ...auth, freshPasskey: true } as const;
const params = z.object({ id: z.string().max(100) });
const CURSOR = /^(\d{1,18})\.(whd_[0-9a-f]{32})$/;

const logQuery = knownQuery({
  cursor: z.string().max(200).optional(),
  limit: pageLimit(50),
});

export const webhookRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "webhook-routes" })
    .use(access(deps))
    .post(
      ENDPOINTS,
      async ({ body, caller, trace, requestId, status }) => {
        const { endpoint, secret } = await createEndpoint(deps, { caller, trace }, body);
        return status(201, { data: { ...presentEndpoint(endpoint), secret }, meta: metaOf(requestId) });
      },
      {
        auth: guarded,
        body: createBody,
        response: { 201: endpointWithSecretSchema, ...errorResponses(400, 401, 403, 409, 413, 429) },
        detail: { operationId: "createWebhookEndpoint", summary: "Add a webhook endpoint", tags },
      },
    )
    .get(
      ENDPOINTS,
      async ({ user, requestId }) => ({
        ...wholeList((await listEndpoints(deps.sql, user.id)).map(presentEndpoint)),
        meta: metaOf(requestId),
      }),
      {
        auth,
        response: { 200: endpointListSchema, ...errorResponses(401, 403, 429) },
        detail: { operationId: "listWebhookEndpoints", summary: "Your webhook endpoints", tags },
      },
    )
    .get(
      `${ENDPOINTS}/:id`,
      async ({ params: { id }, user, requestId }) => {
        const endpoint = await findEndpoint(deps.sql, { id, userId: user.id });
        if (!endpoint) throw notFound("Webhook endpoint");
        return { data: presentEndpoint(endpoint), meta: metaOf(requestId) };
      },
      {
        auth,
        params,
        response: { 200: endpointSchema, ...errorResponses(401, 403, 404, 429) },
        detail: { operationId: "getWebhookEndpoint", summary: "One webhook endpoint", tags },
      },
    )
    .patch(
      `${ENDPOINTS}/:id`,
      async ({ params: { id }, body, caller, trace, requestId }) => {
        const change = { id, ...(body as EndpointChange) };
        const endpoint = await changeEndpoint(deps, { caller, trace }, change);
        return { data: presentEndpoint(endpoint), meta: metaOf(requestId) };
      },
      {
        auth: guarded,
        params,
        body: updateBody,
        response: { 200: endpointSchema, ...errorResponses(400, 401, 403, 404, 413, 429) },
        detail: {
          operationId: "updateWebhookEndpoint",
          summary: "Change, disable or enable a webhook endpoint",
          tags,
        },
      },
    )
    .delete(
      `${ENDPOINTS}/:id`,
      async ({ params: { id }, caller, trace, requestId }) => {
        await removeEndpoint(deps, { caller, trace }, id);
        return { data: { id, deleted: true as const }, meta: metaOf(requestId) };
      },
      {
        auth,
        params,
        response: { 200: deletedSchema, ...errorResponses(401, 403, 404, 429) },
        detail: {
          operationId: "deleteWebhookEndpoint",
          summary: "Delete a webhook endpoint and its delivery log",
          tags,
        },
      },
    )
    .post(
      `${ENDPOINTS}/:id/rotate-secret`,
      async ({ params: { id }, caller, trace, requestId }) => {
        const { endpoint, secret } = await rotateEndpointSecret(deps, { caller, trace }, id);
        return { data: { ...presentEndpoint(endpoint), secret }, meta: metaOf(requestId) };
      },
      {
        auth: guarded,
        params,
        response: { 200: endpointWithSecretSchema, ...errorResponses(401, 403, 404, 429) },
        detail: {
          operationId: "rotateWebhookSecret",
          summary: "Rotate the secret; for 24 hours messages carry both signatures",
          tags,
        },
      },
    )
    .post(
      `${ENDPOINTS}/:id/test`,
      async ({ params: { id }, body, user, requestId, status }) => {
        const delivery = await sendTestEvent(deps, { id, userId: user.id }, body?.type);
        return status(202, { data: presentDelivery(delivery), meta: metaOf(requestId) });
      },
      {
        auth,
        params,
        body: testBody,
        response: { 202: deliveryAnswerSchema, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: {
          operationId: "sendTestWebhook",
          summary: "Send a webhook.test event to this endpoint",
          tags,
        },
      },
    )
    .get(
      `${ENDPOINTS}/:id/deliveries`,
      async ({ params: { id }, query: { cursor, limit }, user, requestId }) => {
        const own = { endpointId: id, userId: user.id };
        if (!(await findEndpoint(deps.sql, { id, userId: user.id }))) throw notFound("Webhook endpoint");
        const after = cursor === undefined ? undefined : readCursor(cursor);
        const found = await listDeliveries(deps.sql, own, { after, limit: limit + 1 });
        const { rows, ...page } = pageOf(found, limit, writeCursor);
        return {
          data: rows.map(presentDelivery),
          pagination: { ...page, limit },
          meta: metaOf(requestId),
        };
      },
      {
        auth,
        params,
        query: logQuery,
        response: { 200: deliveryListSchema, ...errorResponses(400, 401, 403, 404, 429) },
        detail: {
          operationId: "listWebhookDeliveries",
          summary: "Deliveries of an endpoint, newest first",
          tags,
        },
      },
    )
    .get(
      `${DELIVERIES}/:id`,
      async ({ params: { id }, user, requestId }) => {
        const delivery = await findDelivery(deps.sql, { id, userId: user.id });
        if (!delivery) throw notFound("Webhook delivery");
        const attemptLog = (await listAttempts(deps.sql, id)).map(presentAttempt);
        return { data: { ...presentDelivery(delivery), attemptLog }, meta: metaOf(requestId) };
      },
      {
        auth,
        params,
        response: { 200: deliveryDetailSchema, ...errorResponses(401, 403, 404, 429) },
        detail: { operationId: "getWebhookDelivery", summary: "One delivery with all its attempts", tags },
      },
    )
    .post(
      `${DELIVERIES}/:id/redeliver`,
      async ({ params: { id }, user, requestId, status }) => {
        const delivery = await sendAgain(deps, { id, userId: user.id });
        return status(202, { data: presentDelivery(delivery), meta: metaOf(requestId) });
      },
      {
        auth,
        params,
        response: { 202: deliveryAnswerSchema, ...errorResponses(401, 403, 404, 409, 429) },
        detail: { operationId: "redeliverWebhook", summary: "Redeliver a message, with the same id", tags },
      },
    );

async function sendAgain({ sql }: Pick<ApiDeps, "sql">, own: { id: string; userId: string }) {
  return sql.begin(async (tx) => {
    const isDue = await redeliver(tx, own);
    const delivery = await findDelivery(tx, own);
    if (!delivery) throw notFound("Webhook delivery");
    if (!isDue) throw conflict("This message is being delivered");
    await enqueue(tx, "deliver_webhooks", {});
    return delivery;
  });
}

function writeCursor({ createdAtMicros, id }: DeliveryPosition): string {
  return Buffer.from(`${createdAtMicros}.${id}`).toString("base64url");
}

function readCursor(cursor: string): DeliveryPosition {
  const [, micros, id] = CURSOR.exec(Buffer.from(cursor, "base64url").toString()) ?? [];
  if (!micros || !id) throw invalid("cursor", "is not a cursor of this list");
  return { createdAtMicros: BigInt(micros), id };
}
