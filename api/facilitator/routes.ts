/**
 * The standard facilitator interface of x402, version 1 and 2, for USDC `exact` on the enabled networks. Verdicts of
 * either kind are returned with 200, malformed requests with 400. Settling needs an API key with the scope `facilitator`.
 */

import { Elysia } from "elysia";
import { ServiceError } from "../../core/domain/errors.ts";
import { NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { standardReason } from "../../core/domain/payment.ts";
import { hashOf, parseIdempotencyKey } from "../../db/http/idempotency.ts";
import type { Asker } from "../../db/payments/claim-success-answer.ts";
import { insertFacilitatedPayments, listRelayers } from "../../db/payments/facilitated-payments.ts";
import { mayClaimIdentifier } from "../../db/payments/payment-identifiers.ts";
import { type AuthRule, access } from "../http/access.ts";
import { authenticate } from "../http/authenticate.ts";
import type { Caller } from "../http/caller.ts";
import type { ApiDeps } from "../http/deps.ts";
import { takesHeaders } from "../http/openapi-headers.ts";
import { openPayTools } from "../x402/pay-tools.ts";
import { isAnswerDueTo } from "./report-success-once.ts";
import { type FacilitatorRequest, identifiedOf, readRequest } from "./request.ts";
import { IDENTIFIER_REUSED, type SettleTools, settlePayment } from "./settle-payment.ts";
import { openChainTimeReader, verifyPayment } from "./verify-payment.ts";

const SCOPE = "facilitator";
const maySettle = {
  allow: ["apiKey"],
  needs: "self",
  scope: SCOPE,
  limit: "facilitatorSettle",
  missingScope: 401,
} as const satisfies AuthRule;

export const facilitatorRoutes = (deps: ApiDeps) => {
  const tools: SettleTools = {
    ...openPayTools({ ...deps, sql: deps.plannedSql }, insertFacilitatedPayments),
    readChainTime: openChainTimeReader(deps.sql),
  };
  /** Already settled, and its success belongs to this caller, who must settle again to get it, so the payment counts as valid. */
  const isRepeat = async (given: Request, headers: Headers, body: unknown, request: FacilitatorRequest) => {
    const caller = await findSeller(deps, given);
    return caller !== undefined && isAnswerDueTo(tools, request, askerOf(caller, headers, body, request));
  };
  const isIdentifierTaken = async (given: Request, request: FacilitatorRequest) => {
    if (request.attempt.paymentIdentifier === undefined) return false;
    const caller = await findSeller(deps, given);
    const identified = caller && identifiedOf(request, caller.user.id);
    return identified !== undefined && !(await mayClaimIdentifier(deps.sql, identified));
  };
  const isEnabled = (network: NetworkId) => deps.chains.has(network);
  return new Elysia({ name: "facilitator-routes", prefix: "/facilitator", tags: ["facilitator"] })
    .use(access(deps))
    .get("/supported", () => describeSupport(deps), {
      limit: "x402Requirements",
      detail: {
        operationId: "getSupportedPayments",
        summary: "The kinds of payment this facilitator verifies and settles",
      },
    })
    .post(
      "/verify",
      async ({ body, set, request, headers }) => {
        const read = readRequest(body, isEnabled);
        if (!read.ok) {
          set.status = 400;
          return { isValid: false, invalidReason: read.reason, ...payerOf(read.payer) };
        }
        const verdict = await verifyPayment(tools, read.request);
        const payer = payerOf(read.request.attempt.authorization.from);
        const isValid = verdict.ok || (await isRepeat(request, headers, body, read.request));
        if (isValid && (await isIdentifierTaken(request, read.request))) {
          const invalidReason = standardReason("IDEMPOTENCY_KEY_REUSED");
          return { isValid: false, invalidReason, invalidMessage: IDENTIFIER_REUSED, ...payer };
        }
        if (isValid) return { isValid, ...payer };
        const invalidMessage = verdict.message === undefined ? {} : { invalidMessage: verdict.message };
        return { isValid: false, invalidReason: verdict.reason, ...invalidMessage, ...payer };
      },
      {
        limit: "facilitatorVerify",
        detail: {
          operationId: "verifyPayment",
          summary: "Check whether a payment would settle now; nothing is stored",
        },
      },
    )
    .post(
      "/settle",
      async ({ body, set, caller, request: { signal: connection }, requestId, headers }) => {
        const read = readRequest(body, isEnabled);
        if (!read.ok) {
          set.status = 400;
          const errorReason = read.reason;
          return { success: false, errorReason, transaction: "", network: "", ...payerOf(read.payer) };
        }
        const { request } = read;
        const asker = askerOf(caller, headers, body, request);
        const settlement = await settlePayment(tools, request, { asker, requestId, connection });
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
          operationId: "settlePayment",
          parameters: takesHeaders("Idempotency-Key"),
          summary: "Settle a payment",
          description:
            "A success is reported once, to the API key that brought it; again to the same Idempotency-Key or " +
            "payment-identifier (unless `Prefer: no-repeat`), and for 60 s to the same request if the connection closed first.",
        },
      },
    );
};

type Headers = Record<string, string | undefined>;

/** Verifying needs no API key; a caller whose key may settle is identified. */
async function findSeller(deps: ApiDeps, request: Request): Promise<Caller | undefined> {
  if (!request.headers.has("authorization")) return undefined;
  try {
    const caller = await authenticate(deps, request, maySettle.allow);
    return caller.kind === "apiKey" && caller.apiKey.scopes.includes(SCOPE) ? caller : undefined;
  } catch (error) {
    if (error instanceof ServiceError && error.errorCode === "UNAUTHORIZED") return undefined;
    throw error;
  }
}

function askerOf(caller: Caller, headers: Headers, body: unknown, { attempt }: FacilitatorRequest): Asker {
  if (caller.kind !== "apiKey") throw new Error("only API keys can settle");
  return {
    userId: caller.user.id,
    keyId: caller.apiKey.id,
    idempotencyKey: parseIdempotencyKey(headers["idempotency-key"]),
    digest: hashOf(body),
    isIdentified: attempt.paymentIdentifier !== undefined && !refusesRepeats(headers),
  };
}

/**
 * The payer chooses the identifier, and may add one for a seller who does not store answers by it, and would sell again with each success.
 * Such a seller asks for none to be repeated.
 */
function refusesRepeats({ prefer = "" }: Headers): boolean {
  return /(^|,)\s*no-repeat\s*(,|;|$)/i.test(prefer);
}

async function describeSupport(deps: ApiDeps) {
  const kinds = [...deps.chains.keys()].flatMap((network) => [
    { x402Version: 1, scheme: "exact", network },
    { x402Version: 2, scheme: "exact", network: NETWORKS[network].caip2 },
  ]);
  return { kinds, extensions: ["payment-identifier"], signers: { "eip155:*": await listRelayers(deps.sql) } };
}

function messageOf(errorMessage: string | undefined): { errorMessage?: string } {
  return errorMessage === undefined ? {} : { errorMessage };
}

function payerOf(payer: string | undefined): { payer?: string } {
  return payer === undefined ? {} : { payer };
}
