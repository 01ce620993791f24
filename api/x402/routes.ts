/**
 * x402 over HTTP. `/v1/x402/{linkId}` and `/x402/{linkId}` are the same resource in two documented shapes (the merged item, and the
 * `evm-erc3009` item: payment-required.ts). A payment comes in a header on GET or POST, or as JSON on POST …/pay; HEAD never pays.
 */

import { Elysia } from "elysia";
import { notFound, ServiceError } from "../../core/domain/errors.ts";
import { PAYMENT_ID } from "../../core/domain/ids.ts";
import { addressGroup } from "../http/client-address.ts";
import type { ApiDeps } from "../http/deps.ts";
import { readBodyText } from "../http/json-body.ts";
import { takeFromCallersLimit, takeFromLimit } from "../http/rate-limits.ts";
import { requestContext } from "../http/request-context.ts";
import type { ResponseSet } from "../http/session-cookie.ts";
import { answerPaymentRequest, type LinkAnswerTools } from "./answer-payment-request.ts";
import { storeLinkPayments } from "./group-commit.ts";
import { limitDatabaseWait } from "./limit-database-wait.ts";
import { openPayMetrics, openRelayLimitMetrics } from "./metrics.ts";
import { openOfferSigner } from "./offers.ts";
import { documentX402 } from "./openapi-schemas.ts";
import { openPayTools } from "./pay-tools.ts";
import { bringsPayment, withoutPayment } from "./payload.ts";
import type { Shape } from "./payment-required.ts";
import { presentPayment, presentUnavailable } from "./present.ts";

/** Standard clients send `access-control-expose-headers` as a request header, so it is allowed as one. */
const CORS = {
  "access-control-allow-origin": "*",
  "access-control-allow-methods": "GET, POST, OPTIONS",
  "access-control-allow-headers":
    "content-type, x-payment, payment-signature, idempotency-key, x-request-id, access-control-expose-headers",
  "access-control-expose-headers":
    "PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, Idempotent-Replayed, X-Request-Id, Retry-After",
  "access-control-max-age": "600",
  "cross-origin-resource-policy": "cross-origin",
};

export const x402Routes = (deps: ApiDeps) => {
  const payMetrics = openPayMetrics(deps.metrics.registry);
  const signer = openOfferSigner(deps.config);
  const tools: LinkAnswerTools = {
    ...openPayTools({ ...deps, sql: deps.plannedSql }, storeLinkPayments),
    payMetrics,
    signer,
  };
  openRelayLimitMetrics(deps.metrics.registry, deps.config);
  return new Elysia({ name: "x402-routes", tags: ["x402"] })
    .use(resource(deps, tools, "/v1/x402", "a"))
    .use(resource(deps, tools, "/x402", "b"));
};

function resource(deps: ApiDeps, tools: LinkAnswerTools, prefix: string, defaultShape: Shape) {
  const respond = async (context: Context, bodyText?: string) => {
    const { set, clientAddress } = context;
    // RFC 9110: HEAD asks what GET would answer to, without an effect
    const headers = context.request.method === "HEAD" ? withoutPayment(context.headers) : context.headers;
    Object.assign(set.headers, CORS);
    const limitName = bringsPayment(headers, bodyText) ? "x402Pay" : "x402Requirements";
    const answer = await limitDatabaseWait(async (onAccepting) => {
      await takeFromCallersLimit(deps, set, limitName, { clientAddress, route: "x402" });
      return answerPaymentRequest(tools, {
        linkId: context.params.linkId,
        shape: chooseShape(context.query.shape, defaultShape),
        amountText: context.query.amount,
        headers,
        bodyText,
        requestId: context.requestId,
        opener: addressGroup(clientAddress),
        onAccepting,
        countPayer: (payer) => takeFromLimit(deps, set, { limitName: "x402Payer", key: payer }),
      });
    }).catch((error: unknown) => {
      if (error instanceof ServiceError) throw error;
      deps.log.error({ err: error, requestId: context.requestId }, "x402 request failed");
      return presentUnavailable(tools.config.baseUrl);
    });
    Object.assign(set.headers, answer.headers);
    set.status = answer.status;
    return answer.body;
  };
  const documented = documentX402(defaultShape === "b" ? "ShapeB" : "");
  return new Elysia({ prefix })
    .use(requestContext(deps))
    .get("/:linkId", (context) => respond(context), { detail: documented.read })
    .post("/:linkId", (context) => respond(context, asText(context.body)), {
      parse: ({ request }: { request: Request }) => readBodyText(request),
      detail: documented.post,
    })
    .get("/:linkId/pay", (context) => respond(context), { detail: documented.readPay })
    .post("/:linkId/pay", (context) => respond(context, asText(context.body)), {
      parse: ({ request }: { request: Request }) => readBodyText(request),
      detail: documented.pay,
    })
    .options("/:linkId", preflight)
    .options("/:linkId/pay", preflight)
    .options("/:linkId/payments/:paymentId", preflight)
    .get(
      "/:linkId/payments/:paymentId",
      async ({ params, set, clientAddress }) => {
        Object.assign(set.headers, CORS);
        await takeFromCallersLimit(deps, set, "x402Payment", { clientAddress, route: "x402" });
        const payment = PAYMENT_ID.test(params.paymentId)
          ? await tools.readPayment(params.paymentId)
          : undefined;
        if (!payment || payment.linkId !== params.linkId) throw notFound("payment");
        return presentPayment(payment, tools.config.baseUrl);
      },
      { detail: documented.payment },
    );
}

type Context = {
  request: Request;
  params: { linkId: string };
  query: Record<string, string | undefined>;
  headers: Record<string, string | undefined>;
  set: ResponseSet;
  requestId: string;
  clientAddress: string;
};

function preflight({ set }: { set: ResponseSet }) {
  Object.assign(set.headers, CORS);
  set.status = 204;
  return null;
}

function chooseShape(asked: string | undefined, fallback: Shape): Shape {
  return asked === "a" || asked === "b" ? asked : fallback;
}

function asText(body: unknown): string {
  return typeof body === "string" ? body : "";
}
