/** Refunds of the signed-in merchant's links, signed by the passkey like every send. */
import { Elysia } from "elysia";
import { z } from "zod";
import { notFound } from "../../core/domain/errors.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { REFUND_REASON_MAX_CHARS, REFUND_SOURCES, type Refund } from "../../core/domain/refund.ts";
import { isStillPossible, OPERATION_STATES } from "../../core/domain/wallet-operation.ts";
import { parseIdempotencyKey } from "../../db/http/idempotency.ts";
import { findLink } from "../../db/links/links.ts";
import type { User } from "../../db/schema.ts";
import type { OperationView } from "../../db/wallet-ops/operations.ts";
import { findRefund, listRefunds } from "../../db/wallet-ops/refunds.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, isoTime } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { transactionSchema } from "../transactions/wire.ts";
import { confirmOperation } from "./confirm.ts";
import { cancel, getOperation, presentHistory, transportsOf } from "./operations.ts";
import { prepareRefund, readRefundable } from "./prepare-refund.ts";
import { prepareVoid } from "./prepare-void.ts";
import {
  amount,
  failureReason,
  operationParams,
  preparedSchema as preparedSendSchema,
  presentPrepared,
  presentSigning,
  signedBody,
  signingFields,
  statusOf,
  text,
} from "./wire.ts";

const LIST_MAX = 100;

const refundBody = z
  .object({
    amount: amount
      .optional()
      .describe("Default: what is left of the transfer; of an overpaid link the surplus"),
    toAddress: z.string().max(100).optional().describe("Default: who paid"),
    reason: text(REFUND_REASON_MAX_CHARS)
      .refine((given) => given !== "", "must not be empty")
      .optional(),
    transactionId: z.string().max(100).optional().describe("Which payment, when several came"),
  })
  .optional();

const status = z.enum(OPERATION_STATES);
const shownRefund = {
  refundId: z.string(),
  linkId: z.string(),
  status,
  to: z.string(),
  toSource: z.enum(REFUND_SOURCES),
  amount: z.string(),
};
const preparedSchema = z.object({
  ...shownRefund,
  refundable: z.string().describe("What may be refunded beside this"),
  ...signingFields,
});
const confirmedSchema = z.object({
  success: z.literal(true),
  refundId: z.string(),
  status,
  userOpHash: z.string(),
  statusUrl: z.string(),
  transaction: transactionSchema.optional(),
});
const refundSchema = z.object({
  ...shownRefund,
  network: z.enum(NETWORK_IDS),
  note: z.string().nullable().describe("Why: the reason given"),
  userOpHash: z.string(),
  transactionHash: z.string().nullable(),
  blockNumber: z.int().nullable(),
  transactionId: z.string().nullable(),
  reason: failureReason,
  stillPossible: z.boolean(),
  createdAt: isoTime,
  confirmedAt: isoTime.nullable(),
});
const listSchema = z.object({ refunds: z.array(refundSchema), refundable: z.string() });

const tags = ["Refunds"];
const session = { allow: ["session"] } as const;

export const refundRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "refund-routes" })
    .use(access(deps))
    .use(jsonBody)
    .post(
      "/v1/payment-links/:id/refunds",
      async ({ params, body, bodyText, user, headers, requestId, set, status: answer }) => {
        const { operation, isReplay } = await prepareRefund(deps, {
          ...{ user, linkId: params.id, body: body ?? {}, bodyText, requestId },
          idempotencyKey: parseIdempotencyKey(headers["idempotency-key"]),
        });
        if (isReplay) set.headers["idempotent-replayed"] = "true";
        const refund = await getRefund(deps, user, operation.id);
        return answer(201, {
          ...presentShown(refund, operation),
          refundable: formatUnits(await readRefundable(deps, { id: refund.linkId })),
          ...presentSigning(operation, deps.config, await transportsOf(deps, user)),
        });
      },
      {
        auth: { ...session, limit: "paymentOperations" },
        params: operationParams,
        body: refundBody,
        response: { 201: preparedSchema, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: { summary: "Prepare a refund of a link's money for the passkey to sign", tags },
      },
    )
    .get("/v1/payment-links/:id/refunds", ({ params, user }) => answerList(deps, user, params.id), {
      auth: session,
      params: operationParams,
      response: { 200: listSchema, ...errorResponses(400, 401, 403, 404, 429) },
      detail: { summary: "Refunds of a link, newest first", tags },
    })
    .get("/v1/refunds/:id", ({ params, user }) => answerOne(deps, user, params.id), {
      auth: session,
      params: operationParams,
      response: { 200: refundSchema, ...errorResponses(400, 401, 403, 404, 429) },
      detail: { summary: "One refund", tags },
    })
    .post(
      "/v1/refunds/:id/confirm",
      async ({ params, body, user, requestId, clientAddress, status: answer }) => {
        const { operation: prepared, refund } = await getBoth(deps, user, params.id);
        const link = await findLink(deps.sql, { id: refund.linkId, userId: user.id });
        if (!link) throw notFound("Payment link");
        const operation = await confirmOperation(deps, {
          ...{ user, kind: "REFUND", id: prepared.id, challengeId: body.challengeId },
          ...{ response: body.passkeyResponse, trace: { requestId, clientAddress }, event: "refund.created" },
          history: { linkId: link.id, description: link.description, note: refund.reason },
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
        auth: session,
        params: operationParams,
        body: signedBody,
        response: { 202: confirmedSchema, ...errorResponses(400, 401, 403, 404, 409, 413, 429) },
        detail: { summary: "Confirm a prepared refund with the passkey's answer", tags },
      },
    )
    .post(
      "/v1/refunds/:id/void",
      async ({ params, user, requestId, status: answer }) => {
        const operation = await prepareVoid(deps, { user, id: params.id, kind: "REFUND", requestId });
        return answer(201, presentPrepared(operation, deps.config, await transportsOf(deps, user)));
      },
      {
        auth: { ...session, limit: "paymentOperations" },
        params: operationParams,
        response: { 201: preparedSendSchema, ...errorResponses(400, 401, 403, 404, 409, 429) },
        detail: {
          summary: "Prepare an empty operation that makes an ended refund impossible; confirm it like a send",
          tags,
        },
      },
    )
    .post(
      "/v1/refunds/:id/cancel",
      async ({ params, user }) => {
        await cancel(deps, { user, id: params.id, kind: "REFUND" });
        return answerOne(deps, user, params.id);
      },
      {
        auth: session,
        params: operationParams,
        response: { 200: refundSchema, ...errorResponses(400, 401, 403, 404, 409, 429) },
        detail: { summary: "Cancel a refund that is not signed yet; its reservation is free again", tags },
      },
    );

async function getRefund({ sql }: ApiDeps, user: User, id: string): Promise<Refund> {
  const refund = await findRefund(sql, { id, userId: user.id });
  if (refund) return refund;
  throw notFound("Refund");
}

async function getBoth(deps: ApiDeps, user: User, id: string) {
  const operation = await getOperation(deps, { user, id, kind: "REFUND" });
  return { operation, refund: await getRefund(deps, user, id) };
}

async function answerOne(deps: ApiDeps, user: User, id: string): Promise<z.infer<typeof refundSchema>> {
  const { operation, refund } = await getBoth(deps, user, id);
  return presentRefund(refund, operation);
}

async function answerList(deps: ApiDeps, user: User, linkId: string): Promise<z.infer<typeof listSchema>> {
  const link = await findLink(deps.sql, { id: linkId, userId: user.id });
  if (!link) throw notFound("Payment link");
  const refunds = await listRefunds(deps.sql, linkId, LIST_MAX);
  return {
    refunds: await Promise.all(refunds.map(({ id }) => answerOne(deps, user, id))),
    refundable: formatUnits(await readRefundable(deps, link)),
  };
}

function presentShown(refund: Refund, operation: OperationView) {
  return {
    refundId: refund.id,
    linkId: refund.linkId,
    status: statusOf(operation),
    to: refund.toAddress,
    toSource: refund.toSource,
    amount: formatUnits(refund.amountUnits),
  };
}

function presentRefund(refund: Refund, operation: OperationView): z.infer<typeof refundSchema> {
  const { isNonceSpent } = operation;
  return {
    ...presentShown(refund, operation),
    network: refund.network,
    note: refund.reason,
    userOpHash: operation.userOpHash,
    transactionHash: operation.txHash,
    blockNumber: operation.blockNumber === null ? null : Number(operation.blockNumber),
    transactionId: operation.items[0]?.transactionId ?? null,
    reason: operation.reason,
    stillPossible: isStillPossible({ state: statusOf(operation), isNonceSpent }),
    createdAt: refund.createdAt.toISOString(),
    confirmedAt: operation.confirmedAt?.toISOString() ?? null,
  };
}
