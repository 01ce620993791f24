/** The request and response headers of the OpenAPI document. A route names the ones it reads: `detail: { parameters: takesHeaders("Idempotency-Key") }`. */

import { IDEMPOTENCY_KEYS_KEPT_DAYS } from "../../core/domain/retention.ts";
import { PAYMENT_HEADER_MAX_CHARS } from "./header-limit.ts";

const text = (maxLength: number) => ({ type: "string", maxLength });
const payment = text(PAYMENT_HEADER_MAX_CHARS);

const REQUEST_HEADERS = {
  "Idempotency-Key": {
    description: `Within ${IDEMPOTENCY_KEYS_KEPT_DAYS} days the same key with the same body returns the first response, with \`Idempotent-Replayed: true\`; with another body 409`,
    schema: text(255),
    example: "order-1042",
  },
  Prefer: {
    description: "`respond-async`: answer 202 at once, and download the file when it is ready",
    schema: text(200),
    example: "respond-async",
  },
  "Last-Event-ID": {
    description: "The id of the last message received: the stream resumes after it",
    schema: text(200),
  },
  "X-Merchant": {
    description:
      "The merchant that a member acts for: an id from `merchants` of /v1/auth/me. Default: the caller's own account. A GET also accepts the query parameter `merchant`, for streams and downloads in browsers",
    schema: text(41),
    example: "user_7b0a2c1e-8f6d-4d0e-9a53-0c1f4e5d6a7b",
  },
  "X-PAYMENT": {
    description: "An x402 version 1 payment: JSON, base64-encoded",
    schema: payment,
  },
  "Accept-Language": {
    description:
      "The payer's languages: the receipt is issued in the first one that the payment page supports, else in the merchant's",
    schema: text(200),
    example: "de",
  },
  "PAYMENT-SIGNATURE": {
    description: "An x402 version 2 payment: JSON, base64-encoded",
    schema: payment,
  },
} as const;
export type RequestHeader = keyof typeof REQUEST_HEADERS;

export function takesHeaders(...names: RequestHeader[]) {
  return names.map((name) => ({ $ref: `#/components/parameters/${name}` }));
}

export const headerParameters = Object.fromEntries(
  Object.entries(REQUEST_HEADERS).map(([name, header]) => [
    name,
    { name, in: "header", required: false, ...header },
  ]),
);

export const responseHeaders = {
  "Retry-After": { description: "Seconds to wait before the next attempt", schema: { type: "integer" } },
  "Idempotent-Replayed": {
    description:
      "`true` when this is the stored response to an earlier request with the same Idempotency-Key",
    schema: { type: "string", enum: ["true"] },
  },
  "PAYMENT-REQUIRED": {
    description: "The requirements for x402 version 2: JSON, base64-encoded",
    schema: { type: "string" },
  },
};
