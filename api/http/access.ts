/**
 * Who may call a route, and how often. `.use(access(deps))`, then on a route one of
 *
 *   { auth: { allow: ["session"], needs: "money:send" } }        signed in and ACTIVE, as the merchant or a member whose role may; 1000 requests an hour
 *   { auth: { allow: ["session", "apiKey"], needs: "links:read", scope: "links:read", limit: "paymentOperations" } }
 *   { auth: { allow: ["session"], needs: "self", requireActive: false } }    any signed-in user, about their own account
 *   { auth: { allow: ["session"], needs: "keys:manage", freshPasskey: true } } signed in with the passkey in the last 15 minutes
 *   { auth: { allow: ["session"], needs: "self", session: "recovery" } }     in a recovery, whose session is refused everywhere else
 *   { limit: "publicLinkData" }                                   public, counted by client address
 *
 * `auth` gives the handler `user` (the row of the account acted for), `person` (who acts, and whose passkey signs), `caller` and `trace`. It runs before a body that cannot be read is refused
 * and before the body is validated, so that both are counted, and reveal nothing to callers without access. 401 without a valid credential, 403 when the user or key may not, 429 beyond a limit.
 * What no API key may do, whatever its scopes: core/domain/api-key-scopes.ts. Roles of members: core/domain/member.ts.
 */
import { Elysia } from "elysia";
import { type ApiKeyScope, SESSION_ONLY } from "../../core/domain/api-key-scopes.ts";
import { ServiceError } from "../../core/domain/errors.ts";
import type { Need } from "../../core/domain/member.ts";
import { SESSION_RENEWED_BELOW_S } from "../../core/domain/session-lifetime.ts";
import { type LiveSession, noteSessionSeen, renewSession } from "../../db/sessions/sessions.ts";
import { actForMerchant } from "./act-for-merchant.ts";
import type { Trace } from "./audit-trace.ts";
import { authenticate, type CredentialKind } from "./authenticate.ts";
import type { Caller, KeyCaller, PersonCaller } from "./caller.ts";
import type { ApiDeps } from "./deps.ts";
import { requireFreshPasskey } from "./fresh-passkey.ts";
import { oncePer } from "./memoize-per-key.ts";
import { type LimitName, takeFromCallersLimit } from "./rate-limits.ts";
import { requestContext } from "./request-context.ts";
import { type ResponseSet, setSessionCookie } from "./session-cookie.ts";
import { userAgentOf } from "./user-agent.ts";

export type AuthRule = {
  allow: readonly [CredentialKind, ...CredentialKind[]];
  /** The scope an API key needs (one of a list is enough); required when keys are allowed. "any": the route calls other routes, which check theirs. */
  scope?: ApiKeyScope | readonly ApiKeyScope[] | "any";
  /** The capability that the role of a member acting for a merchant must include; see core/domain/member.ts. API keys have scopes instead. */
  needs: Need;
  /** Status for a key without the scope; default 403. With 401, the response to a request without a key also names the required scope. */
  missingScope?: 401;
  /** Default true: users who have not finished their wallet setup get 403. */
  requireActive?: boolean;
  /** "recovery": only recovery sessions. "any": all sessions. Default: all but recovery sessions. */
  session?: "recovery" | "any";
  /** The session must have used its passkey within the last 15 minutes; see fresh-passkey.ts. */
  freshPasskey?: boolean;
  /** Default "general". */
  limit?: LimitName;
  /** The response may take seconds, so the caller is checked again before it is sent. */
  waits?: boolean;
};

const SEEN_EVERY_S = 60;

export const access = oncePer((deps: ApiDeps) =>
  new Elysia({ name: "access" }).use(requestContext(deps)).macro({
    auth: (rule: AuthRule) => ({
      async transform({ request, set, clientAddress, route, admission, unreadBody }) {
        admission.caller = await admit(deps, { request, set, clientAddress, route }, rule);
        if (unreadBody) throw unreadBody;
      },
      resolve({ admission: { caller }, requestId, clientAddress }) {
        if (!caller) throw new Error("a route with `auth` was reached without a caller");
        const person = caller.kind === "apiKey" ? caller.user : caller.person;
        const trace: Trace = { requestId, clientAddress, actorId: caller.actorId };
        return { caller, user: caller.user, person, authKind: caller.kind, trace };
      },
      async afterHandle({ request, admission: { caller } }) {
        if (rule.waits && caller) await admitAgain(deps, request, { rule, userId: caller.user.id });
      },
      detail: { security: checked(rule).allow.map((kind) => ({ [kind]: [] })), "x-needs": rule.needs },
    }),
    limit: (limitName: LimitName) => ({
      async transform({ set, clientAddress, route, unreadBody }) {
        await takeFromCallersLimit(deps, set, limitName, { clientAddress, route });
        if (unreadBody) throw unreadBody;
      },
    }),
  }),
);

/** A route that admits API keys where only a session is allowed is a programming error, detected when the app is built. */
function checked(rule: AuthRule): AuthRule {
  if (rule.allow.includes("apiKey") && SESSION_ONLY.includes(rule.needs))
    throw new Error(`a route that needs ${rule.needs} admits API keys`);
  return rule;
}

type Incoming = { request: Request; set: ResponseSet; clientAddress: string; route: string };

async function admit(deps: ApiDeps, incoming: Incoming, rule: AuthRule): Promise<Caller> {
  const limitName = rule.limit ?? "general";
  const caller = await authenticate(deps, incoming.request, rule.allow).catch(async (error: unknown) => {
    if (!(error instanceof ServiceError) || error.errorCode !== "UNAUTHORIZED") throw error;
    await takeFromCallersLimit(deps, incoming.set, "general", incoming);
    throw rule.missingScope && isScope(rule.scope) ? scopeNeeded(rule.scope, error.message) : error;
  });
  const { id: userId } = caller.kind === "apiKey" ? caller.user : caller.person;
  await takeFromCallersLimit(deps, incoming.set, limitName, { ...incoming, userId });
  if (caller.kind === "apiKey" && !hasScope(caller, rule))
    throw rule.missingScope && isScope(rule.scope)
      ? scopeNeeded(rule.scope, "This API key lacks a scope")
      : forbidden(`This API key lacks the scope ${scopesOf(rule).join(" or ") || "for this route"}`, "scope");
  refuseRecovery(caller, rule);
  if (rule.requireActive !== false && caller.user.status !== "ACTIVE")
    throw forbidden("Finish your wallet setup first", "status");
  const acting = await actForMerchant(deps, incoming.request, { caller, need: rule.needs });
  if (rule.freshPasskey) requireFreshPasskey(caller, new Date());
  if (caller.kind !== "apiKey") await noteSeen(deps, incoming, caller.session);
  if (caller.kind === "session") await renew(deps, incoming.set, caller);
  return acting;
}

type Admitted = { rule: AuthRule; userId: string };

/** Throws UNAUTHORIZED or FORBIDDEN when an admitted request would no longer be admitted for the same account. */
async function admitAgain(deps: ApiDeps, request: Request, { rule, userId }: Admitted): Promise<void> {
  const caller = await authenticate(deps, request, rule.allow);
  if (caller.kind === "apiKey" && !hasScope(caller, rule))
    throw forbidden("This API key lacks a scope", "scope");
  const { user } = await actForMerchant(deps, request, { caller, need: rule.needs });
  if (user.id !== userId) throw forbidden("This request was admitted for another account", "user");
}

/** For event streams, which outlast the request that was admitted. */
export async function isStillAdmitted(deps: ApiDeps, request: Request, admitted: Admitted): Promise<boolean> {
  try {
    await admitAgain(deps, request, admitted);
    return true;
  } catch (error) {
    if (error instanceof ServiceError && ["UNAUTHORIZED", "FORBIDDEN"].includes(error.errorCode))
      return false;
    throw error;
  }
}

function hasScope({ apiKey }: KeyCaller, rule: AuthRule): boolean {
  return rule.scope === "any" || scopesOf(rule).some((scope) => apiKey.scopes.includes(scope));
}

function scopesOf({ scope = [] }: AuthRule): readonly ApiKeyScope[] {
  if (scope === "any") return [];
  return isScope(scope) ? [scope] : scope;
}

function isScope(scope: AuthRule["scope"]): scope is ApiKeyScope {
  return typeof scope === "string" && scope !== "any";
}

/** A recovery session may only register a passkey. */
function refuseRecovery(caller: Caller, { session }: AuthRule): void {
  if (caller.kind === "apiKey" || session === "any") return;
  const isRecovery = caller.session.method === "recovery";
  if (isRecovery === (session === "recovery")) return;
  throw new ServiceError(
    "FORBIDDEN",
    isRecovery
      ? "This session may only register a passkey; sign in with it once it is an owner of your wallet"
      : "Only a recovery session may do this; signed in, add an owner instead",
    { details: { field: "session", issue: isRecovery ? "recovery_session" : "not_recovering" } },
  );
}

/** Records the browser and address using the session, at most once a minute. */
async function noteSeen(deps: ApiDeps, incoming: Incoming, { id, lastSeenAt }: LiveSession): Promise<void> {
  if (Date.now() - lastSeenAt.getTime() < SEEN_EVERY_S * 1_000) return;
  const { request, clientAddress } = incoming;
  const userAgent = userAgentOf(request);
  await noteSessionSeen(deps.sql, id, { userAgent, clientAddress, everyS: SEEN_EVERY_S });
}

/** Sliding expiry: a session with less than 30 minutes left is renewed for an hour with a new cookie, up to its absolute end. */
async function renew(deps: ApiDeps, set: ResponseSet, { session }: PersonCaller): Promise<void> {
  if (session.expiresAt.getTime() - Date.now() >= SESSION_RENEWED_BELOW_S * 1_000) return;
  if (session.expiresAt >= session.absoluteEndAt) return;
  const renewed = await renewSession(deps.sql, session.id);
  if (renewed) await setSessionCookie(set, deps.config, renewed);
}

/** RFC 6750: the challenge says what the next call needs. */
function scopeNeeded(scope: ApiKeyScope, message: string): ServiceError {
  return new ServiceError(
    "UNAUTHORIZED",
    `${message}: send an API key with the scope ${scope} as bearer token`,
    {
      details: { field: "scope", scope },
      headers: { "www-authenticate": `Bearer realm="api", scope="${scope}"` },
    },
  );
}

function forbidden(message: string, field: string): ServiceError {
  return new ServiceError("FORBIDDEN", message, { details: { field } });
}
