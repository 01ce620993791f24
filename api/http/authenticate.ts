/** Verifies a request's credential and returns its caller. An unavailable database is an error, never a signed-in caller. */
import { createHash } from "node:crypto";
import { ServiceError } from "../../core/domain/errors.ts";
import { findLiveApiKey } from "../../db/api-keys/api-keys.ts";
import { findLiveSession } from "../../db/sessions/sessions.ts";
import type { Caller } from "./caller.ts";
import { refuseForgery } from "./csrf.ts";
import type { ApiDeps } from "./deps.ts";
import { readCookie, SESSION_COOKIE, verifySessionToken } from "./session-cookie.ts";

export type CredentialKind = "session" | "apiKey";

const API_KEY = /^sk_[A-Za-z0-9_-]{20,100}$/;

/**
 * The caller of a request, from the first credential present: a bearer token, then the cookie. A test bearer counts as a session where TEST_MODE
 * allows it. Throws UNAUTHORIZED when there is none, or it is not valid, and FORBIDDEN for a valid API key where keys are not allowed.
 */
export async function authenticate(
  deps: ApiDeps,
  request: Request,
  allow: readonly CredentialKind[],
): Promise<Caller> {
  const bearer = bearerOf(request);
  const isKey = bearer !== undefined && API_KEY.test(bearer);
  if (isKey && allow.includes("apiKey")) return callerOfKey(deps, bearer);
  if (!allow.includes("session")) throw withoutKey(request);
  if (bearer && deps.config.testMode && isTestRequest(request)) {
    return { kind: "test", ...(await sessionOf(deps, bearer)), role: "owner" };
  }
  const cookie = readCookie(request.headers.get("cookie"), SESSION_COOKIE);
  if (!cookie && isKey) throw await refusalOfKey(deps, bearer);
  if (!cookie && deps.config.testMode && bearer && !bearer.startsWith("sk_"))
    throw unauthorized("A session token as bearer needs the header `X-Test-Mode: true`");
  if (!cookie) throw allow.includes("apiKey") ? withoutKey(request) : unauthorized();
  const found = await sessionOf(deps, cookie);
  refuseForgery(request, deps.config);
  return { kind: "session", ...found, role: "owner" };
}

export function unauthorized(message = "Authentication is required"): ServiceError {
  return new ServiceError("UNAUTHORIZED", message, {
    headers: { "www-authenticate": 'Cookie realm="api"' },
  });
}

/** Names a malformed credential; otherwise the caller would look for a missing header. */
function withoutKey(request: Request): ServiceError {
  if (!request.headers.get("authorization")) return unauthorized();
  return unauthorized("The Authorization header must be `Bearer` and a whole API key, which begins with sk_");
}

function bearerOf(request: Request): string | undefined {
  return /^Bearer ([\x21-\x7e]+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
}

function isTestRequest(request: Request): boolean {
  return request.headers.get("x-test-mode")?.toLowerCase() === "true";
}

async function sessionOf(deps: ApiDeps, token: string) {
  const claims = await verifySessionToken(deps.config, token);
  if (!claims) throw sessionEnded();
  const found = await findLiveSession(deps.sql, claims.sid, claims.sub);
  if (!found) throw sessionEnded();
  return { ...found, person: found.user, actorId: found.user.id };
}

function sessionEnded(): ServiceError {
  return unauthorized("The session is unknown or has ended; sign in again");
}

/** On a route that requires a session: a valid key gets 403 with the reason, an unknown one counts as no credential. */
async function refusalOfKey(deps: ApiDeps, key: string): Promise<ServiceError> {
  await callerOfKey(deps, key);
  return new ServiceError("FORBIDDEN", "This route requires a session; API keys are not accepted", {
    details: { field: "authorization", issue: "session_required" },
  });
}

async function callerOfKey(deps: ApiDeps, key: string): Promise<Caller> {
  const found = await findLiveApiKey(deps.sql, createHash("sha256").update(key).digest());
  if (!found) throw unauthorized("This API key is unknown or revoked");
  return { kind: "apiKey", ...found, actorId: found.apiKey.id };
}
