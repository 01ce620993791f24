/**
 * Handles one x402 request: executes the payment it carries, or responds 402 with the terms. Used for all four request forms
 * (routes.ts); independent of the HTTP framework.
 */

import { ServiceError } from "../../core/domain/errors.ts";
import { LINK_ID } from "../../core/domain/ids.ts";
import { acceptedLanguage } from "../../core/domain/language.ts";
import { parseUnits } from "../../core/domain/money.ts";
import { PAYMENT_REFUSALS, type Refusal, refusalOf } from "../../core/domain/payment.ts";
import { findObstacle, type PayableLink } from "../../core/domain/payment-acceptance.ts";
import { isRelayObstacle } from "../../core/domain/relay-budget.ts";
import { choiceOf, isTooFine } from "../../core/domain/reusable-link.ts";
import { IDEMPOTENCY_KEY_MAX } from "../../db/http/idempotency.ts";
import { findNextPlaceOf } from "../../db/links/places.ts";
import { withTimeout } from "../../db/postgres/retry-while-unavailable.ts";
import { retryAfter } from "../links/open-use.ts";
import type { PayMetrics } from "./metrics.ts";
import type { OfferSigner } from "./offers.ts";
import { type LinkPayTools, type PayOrder, type PayResult, payLink } from "./pay-link.ts";
import { readShown } from "./payload.ts";
import { resourceUrl, type Shape } from "./payment-required.ts";
import { type Answer, type Paid, present, type Terms } from "./present.ts";

/** Maximum wait for the terms that accompany a refusal. */
const TERMS_TIMEOUT_MS = 5_000;

export type LinkAnswerTools = LinkPayTools & { payMetrics: PayMetrics; signer: OfferSigner | undefined };

/** One request, whatever its method and path. */
export type Ask = Omit<PayOrder, "attempt" | "payerLanguage"> & {
  shape: Shape;
  /** `?amount=`: what the payer chooses to pay if the link allows it. */
  amountText: string | undefined;
  headers: Record<string, string | undefined>;
  /** JSON text of the body on the JSON route; undefined on the others. */
  bodyText: string | undefined;
};

export async function answerPaymentRequest(tools: LinkAnswerTools, ask: Ask): Promise<Answer> {
  const answer = await answerAsked(tools, ask);
  const isFull = (answer.body as { error?: unknown }).error === "LINK_ALREADY_PAID";
  if (!isFull) return answer;
  const nextPlaceAt = await withTimeout(TERMS_TIMEOUT_MS, findNextPlaceOf(tools.sql, ask.linkId)).catch(
    () => null,
  );
  return { ...answer, headers: { ...answer.headers, ...retryAfter(nextPlaceAt) } };
}

async function answerAsked(tools: LinkAnswerTools, ask: Ask): Promise<Answer> {
  const { baseUrl } = tools.config;
  const origin = { baseUrl, signer: tools.signer, resourceUrl: resourceUrl(ask.linkId, baseUrl) };
  const paid = findMalformed(ask) ?? (await payShown(tools, ask));
  if (paid && !isAnsweredWithTerms(paid)) return present({ paid, ...origin });
  const terms = await readTerms(tools, ask, paid);
  return present(
    terms ? { paid, terms, ...origin } : { paid: refusedPlainly(refusalOf("NOT_FOUND")), ...origin },
  );
}

function findMalformed({ linkId, headers }: Ask): Paid | undefined {
  if (!LINK_ID.test(linkId)) return refusedPlainly(refusalOf("NOT_FOUND"));
  const key = headers["idempotency-key"];
  if (key === undefined || (key !== "" && key.length <= IDEMPOTENCY_KEY_MAX)) return undefined;
  const message = `Idempotency-Key must have 1 to ${IDEMPOTENCY_KEY_MAX} characters`;
  return refusedPlainly(refusalOf("INVALID_PAYLOAD_STRUCTURE", message));
}

/** Undefined when the request only asks for the terms. */
async function payShown(tools: LinkAnswerTools, ask: Ask): Promise<Paid | undefined> {
  const shown = readShown(ask.headers, ask.bodyText);
  if (shown.kind === "question") return undefined;
  const { way, parsed } = shown;
  const label = way === "json" ? "json" : "header";
  if (!parsed.ok) {
    tools.payMetrics.countUnreadable(label);
    const refusal = refusalOf("INVALID_PAYLOAD_STRUCTURE", parsed.issue);
    return { way, payer: undefined, result: { kind: "refused", ...refusal } };
  }
  const startedMs = performance.now();
  const idempotencyKey = ask.headers["idempotency-key"] ?? parsed.attempt.paymentIdentifier;
  const payerLanguage = acceptedLanguage(ask.headers["accept-language"]);
  const attempt = { ...parsed.attempt, idempotencyKey };
  const result = await tryToPay(tools, { ...ask, attempt, payerLanguage });
  tools.payMetrics.observe(label, result, startedMs);
  return { way, payer: parsed.attempt.authorization.from, result };
}

/** Before acceptance a failure leaves nothing behind and may be retried; after it `payLink` does not throw. */
async function tryToPay(tools: LinkAnswerTools, order: PayOrder): Promise<PayResult> {
  try {
    return await payLink(tools, order);
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    tools.log.error({ err: error, requestId: order.requestId }, "payment failed before acceptance");
    const message = "the payment can't be accepted now; nothing was stored";
    return { kind: "refused", ...refusalOf("INTERNAL_ERROR", message), retryable: true };
  }
}

/** For payments in a header, a refusal is 402 with the terms, as x402 clients expect, unless other terms would not help. */
function isAnsweredWithTerms({ way, result }: Paid): boolean {
  if (way === "json" || result.kind !== "refused") return false;
  const { reason } = result;
  return PAYMENT_REFUSALS[reason] !== 500 && reason !== "NOT_FOUND" && reason !== "IDEMPOTENCY_KEY_REUSED";
}

async function readTerms(
  tools: LinkAnswerTools,
  { linkId, shape, amountText }: Ask,
  paid: Paid | undefined,
): Promise<Terms | undefined> {
  const reading = tools.readLink({ id: linkId });
  const found = await (paid ? withTimeout(TERMS_TIMEOUT_MS, reading) : reading);
  if (!found) return undefined;
  const now = new Date();
  const chosen = choose(found, amountText);
  const link = "reason" in chosen ? found : chosen;
  const obstacle = findObstacle(link, tools.config, now) ?? ("reason" in chosen ? chosen : undefined);
  if (!paid && obstacle && isRelayObstacle(obstacle)) tools.payMetrics.countUnrelayed(obstacle.reason);
  return { link, obstacle, shape, now };
}

/** The link with the amount that its payer chose, or what is wrong with the choice. */
function choose(link: PayableLink, amountText: string | undefined): PayableLink | Refusal {
  const choice = choiceOf(link);
  if (!choice) return link;
  const amountUnits = amountText === undefined ? undefined : parseUnits(amountText);
  if (amountUnits === undefined || isTooFine(amountUnits)) return refusalOf("AMOUNT_REQUIRED");
  if (amountUnits < choice.minUnits) return refusalOf("AMOUNT_BELOW_REQUIRED");
  if (amountUnits > choice.maxUnits) return refusalOf("AMOUNT_EXCEEDS_MAXIMUM");
  return { ...link, amountUnits };
}

/** Responds with JSON whatever form the request had. */
function refusedPlainly(refusal: Refusal): Paid {
  return { way: "json", payer: undefined, result: { kind: "refused", ...refusal } };
}
