/**
 * Limits the size of a request's headers and URL. The server would refuse larger ones with a 431 without a body, so its limit is raised to that
 * of a body, and our lower limit responds with a reason. A payment header has x402's own limit.
 */
import http from "node:http";
import { ServiceError } from "../../core/domain/errors.ts";
import { BODY_MAX_BYTES } from "./json-body.ts";

/** All headers except the payment header, names plus values; the server's default limit. */
export const HEADERS_MAX_CHARS = 16_384;
/** For URLs; no request to this service needs a quarter of it. */
export const URL_MAX_CHARS = 16_384;
/** Of a payment header, which x402 parses. */
export const PAYMENT_HEADER_MAX_CHARS = 16_384;
const PAYMENT_HEADERS: readonly string[] = ["x-payment", "payment-signature"];
/** A payment header of 1 MiB plus the other headers still gets a response with a body. */
const SERVER_HEAD_MAX_BYTES = BODY_MAX_BYTES + 4 * HEADERS_MAX_CHARS;

/** Call before listening. Bun.serve reads the process-wide limit of node:http; it has no option of its own. */
export function raiseServerHeaderLimit(): void {
  const settings: { maxHeaderSize: number } = http;
  settings.maxHeaderSize = SERVER_HEAD_MAX_BYTES;
}

/** Throws 431 for headers that are too large together, whatever the route. */
export function refuseLargeHeaders(request: Request): void {
  let chars = 0;
  for (const [name, value] of request.headers) {
    if (!PAYMENT_HEADERS.includes(name)) chars += name.length + value.length;
  }
  if (chars <= HEADERS_MAX_CHARS) return;
  throw new ServiceError(
    "VALIDATION_ERROR",
    `The headers have ${chars} characters, at most ${HEADERS_MAX_CHARS} are accepted`,
    { status: 431, details: { field: "headers", issue: "too_large" } },
  );
}

/** Throws 414, whatever the route, so that code that reads a path or query string can rely on the limit. */
export function refuseLongUrl({ url }: Request): void {
  if (url.length <= URL_MAX_CHARS) return;
  throw new ServiceError(
    "VALIDATION_ERROR",
    `The URL has ${url.length} characters, at most ${URL_MAX_CHARS} are accepted`,
    { status: 414, details: { field: "url", issue: "too_large" } },
  );
}
