/**
 * The only body parser: JSON of at most 1 MiB. Forms, text and files are refused unread.
 * Handlers also get `bodyText`, the body as sent: parsing rounds numbers, while amounts are read digit by digit.
 */
import { Elysia } from "elysia";
import { invalid, ServiceError } from "../../core/domain/errors.ts";

export const BODY_MAX_BYTES = 1_048_576;
/** Deeper than any body we accept, shallow enough for all recursive code that processes it. */
const DEPTH_MAX = 32;
const STRICT_UTF8 = new TextDecoder("utf-8", { fatal: true });

export const jsonBody = new Elysia({ name: "json-body" })
  .onRequest(({ request }) => refuseLargeBody(request))
  .decorate({ bodyText: "", unreadBody: undefined as ServiceError | undefined })
  .onParse({ as: "global" }, async (context, contentType) => {
    if (!context.request.body) return undefined;
    try {
      return await readJson(context, contentType);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      // thrown by access.ts once the caller is admitted and counted
      context.unreadBody = error;
      // undefined would have Elysia read the body itself
      return null;
    }
  })
  .onBeforeHandle({ as: "global" }, ({ unreadBody }) => {
    if (unreadBody) throw unreadBody;
  });

/** Undefined for an empty body. Sets `bodyText`. */
async function readJson(
  context: { request: Request; bodyText: string },
  contentType: string,
): Promise<unknown> {
  const bytes = await readBody(context.request);
  if (bytes.byteLength === 0) return undefined;
  if (contentType.trim().toLowerCase() !== "application/json")
    throw invalid("content-type", "must_be_application_json", "Send the body as application/json");
  const text = decodeStrictly(bytes);
  context.bodyText = text;
  if (isDeeperThan(text, DEPTH_MAX)) throw tooDeep();
  const body = parseJson(text);
  const illFormed = SURROGATE_ESCAPE.test(text) ? findIllFormed(body) : undefined;
  if (illFormed)
    throw invalid(illFormed.join(".") || "body", "invalid_text", "The body contains an unpaired surrogate");
  return body;
}

/** Only an escape can put an unpaired surrogate into a string, since as bytes it is not UTF-8. Postgres stores it neither as text nor in JSON. */
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;

/** The path of the first malformed string, or of the object that has such a key. */
function findIllFormed(value: unknown, path: readonly string[] = []): readonly string[] | undefined {
  if (typeof value === "string") return value.isWellFormed() ? undefined : path;
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, item] of Object.entries(value)) {
    const found = key.isWellFormed() ? findIllFormed(item, [...path, key]) : path;
    if (found) return found;
  }
  return undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ServiceError("VALIDATION_ERROR", "The body is not valid JSON", {
      details: { field: "body", issue: "invalid_json" },
      cause,
    });
  }
}

/** Counts brackets outside of strings; the text need not be JSON. */
function isDeeperThan(text: string, depthMax: number): boolean {
  let depth = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (isInString && character === "\\") at++;
    else if (character === '"') isInString = !isInString;
    else if (!isInString && (character === "{" || character === "[")) depth++;
    else if (!isInString && (character === "}" || character === "]")) depth--;
    if (depth > depthMax) return true;
  }
  return false;
}

function tooDeep(): ServiceError {
  return invalid("body", "too_deep", `The body is nested deeper than ${DEPTH_MAX} levels`);
}

/** Throws 413 for a body whose Content-Length is too large, without reading it. */
export function refuseLargeBody(request: Request): void {
  if (Number(request.headers.get("content-length") ?? 0) > BODY_MAX_BYTES) throw tooLarge();
}

/** The body as text, in which bytes that are not UTF-8 are replaced by U+FFFD. */
export async function readBodyText(request: Request): Promise<string> {
  return new TextDecoder().decode(await readBody(request));
}

/** A body in another encoding would otherwise be stored, and shown to payers, with its letters replaced. */
function decodeStrictly(bytes: Uint8Array): string {
  try {
    return STRICT_UTF8.decode(bytes);
  } catch (cause) {
    throw new ServiceError("VALIDATION_ERROR", "The body is not valid UTF-8", {
      details: { field: "body", issue: "invalid_json" },
      cause,
    });
  }
}

/** A chunked body is counted as it arrives and no longer read once it is too large: 413. */
async function readBody(request: Request): Promise<Uint8Array> {
  // the server reads no more than the Content-Length, which refuseLargeBody has checked
  if (!request.body || request.headers.has("content-length")) {
    return new Uint8Array(await request.arrayBuffer());
  }
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of request.body) {
    bytes += piece.byteLength;
    if (bytes > BODY_MAX_BYTES) throw tooLarge();
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

function tooLarge(): ServiceError {
  return new ServiceError("VALIDATION_ERROR", `The body is larger than ${BODY_MAX_BYTES} bytes`, {
    status: 413,
    details: { field: "body", issue: "too_large" },
  });
}
