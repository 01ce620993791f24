/** The result of a tool: the value as JSON text and as structured content, or an error with its code and advice. */
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { ApiError, ConnectionError } from "../sdk/errors.ts";
import { UnknownOutcomeError } from "../sdk/pay-link.ts";

/** Annotations of a tool that changes nothing. */
export const reading = { readOnlyHint: true, openWorldHint: false };

/** Refused by the tool itself, before the service is asked. */
export class ToolRefusal extends Error {
  readonly code: string;
  readonly advice: string;

  constructor(code: string, message: string, advice: string) {
    super(message);
    this.code = code;
    this.advice = advice;
  }
}

const ADVICE: Readonly<Record<string, string>> = {
  VALIDATION_ERROR: "Correct the named argument and call again.",
  UNAUTHORIZED: "The API key is missing, wrong or revoked: ask the user for a valid one. Do not call again.",
  FORBIDDEN: "Ask the user for an API key with that scope. Do not call again.",
  NOT_FOUND: "Check the id: it must be one that a tool of this server returned.",
  CONFLICT: "Read the current state first, then decide.",
  RATE_LIMITED: "Wait before calling again.",
  INTERNAL_ERROR: "The service failed: call again in a few seconds.",
  OVER_LIMIT: "Nothing was paid. Ask the user whether to raise the limit; do not split the payment.",
  NETWORK_NOT_ALLOWED: "Nothing was paid. Tell the user that the link is on another network.",
  AMOUNT_REQUIRED: "Nothing was paid. The payer chooses the amount: pass `amount`.",
  NONCE_USED:
    "The authorization was executed elsewhere: the money may have left the wallet. Do not pay again; tell the user.",
  PAYMENT_IN_PROGRESS: "Nothing was paid by this call. Wait for the link with wait_for_payment.",
};
const DEFAULT_ADVICE = "Tell the user; do not repeat the call unchanged.";

export function answerWith(value: Record<string, unknown>): CallToolResult {
  return { content: [{ type: "text", text: JSON.stringify(value) }], structuredContent: value };
}

/** Runs a tool; every failure becomes a result that a model can act on. */
export async function answering(work: () => Promise<CallToolResult>): Promise<CallToolResult> {
  try {
    return await work();
  } catch (error) {
    const { code, message, advice } = explain(error);
    return { content: [{ type: "text", text: `${code}: ${message}\nWhat to do: ${advice}` }], isError: true };
  }
}

function explain(error: unknown): { code: string; message: string; advice: string } {
  if (error instanceof ToolRefusal) return error;
  if (error instanceof UnknownOutcomeError)
    return {
      code: "OUTCOME_UNKNOWN",
      message: error.message,
      advice:
        "The payment may have been made. Call pay_link again with the same link: it asks about that payment first and does not pay twice.",
    };
  if (error instanceof ConnectionError)
    return {
      code: "SERVICE_UNREACHABLE",
      message: error.message,
      advice: "Whether the request was carried out is unknown: read the state, then call again.",
    };
  if (error instanceof ApiError) {
    const { field, scope } = error.details;
    const place = typeof field === "string" && field !== "scope" ? ` (argument ${field})` : "";
    const wait =
      error.retryAfterS === undefined
        ? ""
        : ` Retry in ${Math.ceil(error.retryAfterS)} seconds at the earliest.`;
    const missing = typeof scope === "string" ? ` Missing scope: ${scope}.` : "";
    return {
      code: error.code,
      message: `${error.message}${place}`,
      advice: `${ADVICE[error.code] ?? DEFAULT_ADVICE}${missing}${wait}`,
    };
  }
  return {
    code: "INTERNAL_ERROR",
    message: error instanceof Error ? error.message : String(error),
    advice: DEFAULT_ADVICE,
  };
}
