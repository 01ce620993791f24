/** One x402 exchange: what was asked, and the status, headers and body it is answered with. Knows nothing of the web framework. */
import { ServiceError } from "../../core/domain/errors.ts";
import { effectiveStatus } from "../../core/domain/link.ts";
import { findPayableLink, type PayableLinkRow } from "../../db/links/payable-links.ts";
import { within } from "../../db/postgres/retry-while-unavailable.ts";
import { answerOf, settled, settledElsewhere } from "./answer.ts";
import type { PayMetrics } from "./metrics.ts";
import { type PayTools as LinkTools, type PayResult, payLink, whyUnpayable } from "./pay.ts";
import { carriesPayment, type Parsed, parsePayment, parsePaymentHeader } from "./payload.ts";
import { whyNotRelayed } from "./relay-limits.ts";
import {
  type Requirements,
  requirementsOf,
  type Shape,
  settlementHeader,
  unpayable,
} from "./requirements.ts";
import { stockReason } from "./stock-reasons.ts";

const LINK_ID = /^link_[A-Za-z0-9_-]{22}$/;
const IDEMPOTENCY_KEY_MAX = 255;
/** The terms beside a refusal are not worth more. */
const TERMS_TIMEOUT_MS = 5_000;

export type PayTools = LinkTools & { payMetrics: PayMetrics };

/** One request, whatever its method and path. */
export type Ask = {
  linkId: string;
  shape: Shape;
  headers: Record<string, string | undefined>;
  /** JSON text of the body on the JSON way; undefined on the others. */
  bodyText: string | undefined;
  requestId: string;
  /** Called when a payment is stored, or was before: its outcome is waited for. Throws when the caller has been answered already. */
  goOn(): void;
  /** Takes one from the payer's limit; throws RATE_LIMITED when there is none left. */
  countPayer(payer: string): Promise<void>;
};
export type Answer = { status: number; headers: Record<string, string>; body: unknown };

/** Does this request bring a payment, as far as can be told without reading it? */
export function bringsPayment(headers: Ask["headers"], bodyText: string | undefined): boolean {
  return (
    headers["payment-signature"] !== undefined ||
    headers["x-payment"] !== undefined ||
    (bodyText ?? "").trim() !== ""
  );
}

/** The three ways in: a payment header, a JSON payment, or a question. */
export async function answer402(tools: PayTools, ask: Ask): Promise<Answer> {
  if (!LINK_ID.test(ask.linkId)) return unknownLink();
  const key = ask.headers["idempotency-key"];
  if (key !== undefined && (key === "" || key.length > IDEMPOTENCY_KEY_MAX)) {
    return plain(400, "INVALID_PAYLOAD_STRUCTURE", "Idempotency-Key must have 1 to 255 characters");
  }
  const header = ask.headers["payment-signature"] ?? ask.headers["x-payment"];
  if (header !== undefined) {
    const version = ask.headers["payment-signature"] === undefined ? 1 : 2;
    return payByHeader(tools, ask, parsePaymentHeader(header), version);
  }
  const body = readJson(ask.bodyText);
  if (!body.ok) return plain(400, "INVALID_PAYLOAD_STRUCTURE", "the body is not JSON");
  if (carriesPayment(body.value)) return payByJson(tools, ask, parsePayment(body.value));
  return askTerms(tools, ask);
}

async function payByJson(tools: PayTools, ask: Ask, parsed: Parsed): Promise<Answer> {
  if (!parsed.ok) {
    tools.payMetrics.countUnreadable("json");
    return plain(400, "INVALID_PAYLOAD_STRUCTURE", parsed.issue);
  }
  const result = await pay(tools, ask, parsed, "json");
  const { status, body } = answerOf(result, tools.config.baseUrl);
  return { status, headers: replayHeader(result), body };
}

/** Refusals on this way are 402 with the requirements and the reason, as x402 clients expect. */
async function payByHeader(tools: PayTools, ask: Ask, parsed: Parsed, version: 1 | 2): Promise<Answer> {
  if (!parsed.ok) {
    tools.payMetrics.countUnreadable("header");
    return refuseWithTerms(tools, ask, { reason: "INVALID_PAYLOAD_STRUCTURE", message: parsed.issue }, {});
  }
  const result = await pay(tools, ask, parsed, "header");
  const { authorization } = parsed.attempt;
  if (result.kind === "refused") {
    if (result.reason === "NOT_FOUND") return unknownLink();
    const { status, body } = answerOf(result, tools.config.baseUrl);
    if (status === 500 || result.isKeyTaken) return { status, headers: {}, body };
    const failure = result.network && {
      ...{ success: false, txHash: result.txHash ?? null, network: result.network },
      ...{ payer: authorization.from, reason: stockReason(result.reason) },
    };
    const header = failure && settlementHeader(version, failure);
    return refuseWithTerms(tools, ask, result, header ? { [header.name]: header.value } : {});
  }
  if (result.kind === "paid-elsewhere") {
    const { txHash, network } = result;
    const header = settlementHeader(version, { success: true, txHash, network, payer: authorization.from });
    return { status: 200, headers: { [header.name]: header.value }, body: settledElsewhere(result) };
  }
  const { payment } = result;
  const answer =
    result.kind === "replayed"
      ? settled(result.payment, tools.config.baseUrl)
      : answerOf(result, tools.config.baseUrl);
  const header = settlementHeader(version, {
    success: answer.body.success,
    txHash: answer.body.txHash,
    network: payment.network,
    payer: authorization.from,
    ...(answer.body.error === null ? {} : { reason: "settlement_pending" }),
  });
  const headers = { ...replayHeader(result), [header.name]: header.value };
  return { status: answer.status, headers, body: answer.body };
}

/** The same key and the same authorization once more: the answer is the first one's. */
function replayHeader(result: PayResult): Record<string, string> {
  return result.kind === "replayed" && result.sameKey ? { "Idempotent-Replayed": "true" } : {};
}

async function pay(
  tools: PayTools,
  ask: Ask,
  parsed: Extract<Parsed, { ok: true }>,
  way: "json" | "header",
): Promise<PayResult> {
  const startedMs = performance.now();
  const result = await tryToPay(tools, ask, parsed);
  tools.payMetrics.observe(way, result, startedMs);
  return result;
}

/** Before acceptance any failure leaves nothing behind, and is told as one that may be tried again; after it `payLink` does not fail. */
async function tryToPay(
  tools: PayTools,
  ask: Ask,
  parsed: Extract<Parsed, { ok: true }>,
): Promise<PayResult> {
  try {
    return await payLink(tools, {
      linkId: ask.linkId,
      attempt: parsed.attempt,
      idempotencyKey: ask.headers["idempotency-key"] ?? parsed.attempt.paymentIdentifier,
      requestId: ask.requestId,
      goOn: ask.goOn,
      countPayer: ask.countPayer,
    });
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    tools.log.error({ err: error, requestId: ask.requestId }, "a payment could not be taken");
    const message = "the payment can't be taken now; nothing was stored";
    return { kind: "refused", reason: "INTERNAL_ERROR", message, retryable: true };
  }
}

async function askTerms(tools: PayTools, ask: Ask): Promise<Answer> {
  const link = await findPayableLink(tools.sql, ask.linkId);
  if (!link) return unknownLink();
  const unrelayed = !whyUnpayable(link, new Date()) && whyNotRelayed(link, tools.config, new Date());
  if (unrelayed) tools.payMetrics.countUnrelayed(unrelayed.reason);
  return demand(termsOf(tools, link, ask.shape));
}

type Refusal = { reason: string; message: string };

async function refuseWithTerms(
  tools: PayTools,
  ask: Ask,
  refusal: Refusal,
  headers: Record<string, string>,
): Promise<Answer> {
  const link = await within(TERMS_TIMEOUT_MS, findPayableLink(tools.sql, ask.linkId));
  if (!link) return unknownLink();
  const answer = demand(termsOf(tools, link, ask.shape, refusal));
  return { ...answer, headers: { ...answer.headers, ...headers } };
}

function termsOf(tools: PayTools, link: PayableLinkRow, shape: Shape, refusal?: Refusal): Requirements {
  const now = new Date();
  const { baseUrl } = tools.config;
  const obstacle = whyUnpayable(link, now) ?? whyNotRelayed(link, tools.config, now);
  if (!obstacle) return requirementsOf(link, { baseUrl, shape, now, ...(refusal ? { refusal } : {}) });
  const isOver = obstacle.reason === "LINK_NOT_PAYABLE";
  const cancelled = effectiveStatus(link, now) === "CANCELLED";
  const named = isOver ? (cancelled ? "LINK_CANCELLED" : "LINK_EXPIRED") : obstacle.reason;
  return unpayable(link.id, { baseUrl, reason: named, message: obstacle.message });
}

function demand(requirements: Requirements): Answer {
  return { status: 402, headers: { "PAYMENT-REQUIRED": requirements.header }, body: requirements.body };
}

/** Nothing was stored: the database did not answer, or something unforeseen went wrong before a payment was accepted. */
export function unavailable(): Answer {
  const answer = plain(500, "INTERNAL_ERROR", "this can't be answered now; nothing was stored");
  return { ...answer, body: { ...answer.body, retryable: true } };
}

function unknownLink(): Answer {
  return plain(404, "NOT_FOUND", "there is no payment link with this id");
}

function plain(status: number, error: string, message: string): Answer & { body: object } {
  return { status, headers: {}, body: { success: false, txHash: null, networkId: null, error, message } };
}

function readJson(text: string | undefined): { ok: true; value: unknown } | { ok: false } {
  if (text === undefined || text.trim() === "") return { ok: true, value: undefined };
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch {
    return { ok: false };
  }
}
