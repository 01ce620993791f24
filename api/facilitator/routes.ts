/**
 * The standard facilitator interface of x402, version 1 and 2, for USDC `exact` on the enabled networks. Verdicts are answered with
 * 200 and say themselves whether they are good; a request that is none is 400. Settling needs an API key with the scope `facilitator`.
 */
import { Elysia } from "elysia";
import { NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { insertFacilitatedPayments, listRelayers } from "../../db/facilitated-payments.ts";
import { parseIdempotencyKey } from "../../db/idempotency.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { openAcceptor } from "../x402/accept.ts";
import { openChainClock } from "../x402/chain-time.ts";
import { openPaymentReader } from "../x402/read-payment.ts";
import { readRequest } from "./request.ts";
import { type SettleTools, settlePayment } from "./settle.ts";
import { verifyPayment } from "./verify.ts";

const maySettle = { allow: ["apiKey"], scope: "facilitator", limit: "facilitatorSettle" } as const;

export const facilitatorRoutes = (deps: ApiDeps) => {
  const tools: SettleTools = {
    ...deps,
    acceptor: openAcceptor(deps.sql, insertFacilitatedPayments),
    clock: openChainClock(deps.sql),
    readPayment: openPaymentReader(deps.sql),
  };
  const isEnabled = (network: NetworkId) => deps.chains.has(network);
  return new Elysia({ name: "facilitator-routes", prefix: "/facilitator", tags: ["facilitator"] })
    .use(access(deps))
    .get("/supported", () => describeSupport(deps), {
      limit: "x402Requirements",
      detail: { summary: "The kinds of payment this facilitator verifies and settles" },
    })
    .post(
      "/verify",
      async ({ body, set }) => {
        const read = readRequest(body, isEnabled);
        if (!read.ok) {
          set.status = 400;
          return { isValid: false, invalidReason: read.reason, ...payerOf(read.payer) };
        }
        const verdict = await verifyPayment(tools, read.request);
        const payer = payerOf(read.request.attempt.authorization.from);
        return verdict.ok
          ? { isValid: true, ...payer }
          : { isValid: false, invalidReason: verdict.reason, ...payer };
      },
      {
        limit: "facilitatorVerify",
        detail: { summary: "Would this payment settle now? Nothing is stored" },
      },
    )
    .post(
      "/settle",
      async ({ body, set, user, requestId, headers }) => {
        const read = readRequest(body, isEnabled);
        if (!read.ok) {
          set.status = 400;
          const errorReason = read.reason;
          return { success: false, errorReason, transaction: "", network: "", ...payerOf(read.payer) };
        }
        const idempotencyKey = parseIdempotencyKey(headers["idempotency-key"]);
        const { request } = read;
        const asker = { userId: user.id, requestId, idempotencyKey };
        const settlement = await settlePayment(tools, request, asker);
        return {
          success: settlement.success,
          transaction: settlement.transaction,
          network: request.version === 2 ? NETWORKS[request.network].caip2 : request.network,
          ...payerOf(request.attempt.authorization.from),
          ...(settlement.success
            ? { amount: request.terms.amountUnits.toString() }
            : { errorReason: settlement.reason, ...messageOf(settlement.message) }),
        };
      },
      {
        auth: maySettle,
        detail: {
          summary: "Settle a payment",
          description: "One payment's success is told once; again only to the same Idempotency-Key",
        },
      },
    );
};

async function describeSupport(deps: ApiDeps) {
  const kinds = [...deps.chains.keys()].flatMap((network) => [
    { x402Version: 1, scheme: "exact", network },
    { x402Version: 2, scheme: "exact", network: NETWORKS[network].caip2 },
  ]);
  return { kinds, extensions: [], signers: { "eip155:*": await listRelayers(deps.sql) } };
}

function messageOf(errorMessage: string | undefined): { errorMessage?: string } {
  return errorMessage === undefined ? {} : { errorMessage };
}

function payerOf(payer: string | undefined): { payer?: string } {
  return payer === undefined ? {} : { payer };
}
