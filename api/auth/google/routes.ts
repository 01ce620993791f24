/** Sign-in with Google: OpenID Connect code flow with state, PKCE and nonce. Off (404) unless configured. */
import { createHash, timingSafeEqual } from "node:crypto";
import { Elysia } from "elysia";
import { z } from "zod";
import { invalid, ServiceError } from "../../../core/domain/errors.ts";
import { insertOauthFlow, type OauthFlow, takeOauthFlow } from "../../../db/accounts/identities.ts";
import { access } from "../../http/access.ts";
import type { ApiDeps } from "../../http/deps.ts";
import { errorResponses } from "../../http/envelope.ts";
import { type ResponseSet, readCookie, setSessionCookie } from "../../http/session-cookie.ts";
import { browserOf } from "../../sessions/start-session.ts";
import { openProvider, type Provider } from "./provider.ts";
import { type GoogleRefusal, signInWithGoogle } from "./sign-in.ts";

const STATE_COOKIE = "googleState";
const FLOW_LIFE_S = 600;
const CALLBACK_PATH = "/v1/auth/google/callback";

type SignInError = GoogleRefusal | "access_denied" | "provider_error";

const tags = ["Sessions"];
const redirected = z.string().describe("Redirect: see the `location` header");

export const googleRoutes = (deps: ApiDeps) => {
  const { config, sql, log } = deps;
  const provider = config.google ? openProvider(config.google, log) : undefined;
  return new Elysia({ name: "google-routes" })
    .use(access(deps))
    .get(
      "/v1/auth/google/authorize",
      async ({ set }) => {
        const { url, state, flow } = await configured(provider).begin(`${config.baseUrl}${CALLBACK_PATH}`);
        await insertOauthFlow(sql, hashOf(state), { ...flow, lifeS: FLOW_LIFE_S });
        writeStateCookie(set, state, FLOW_LIFE_S, config.nodeEnv === "production");
        return redirectTo(set, url.href);
      },
      {
        limit: "googleAuthorize",
        response: { 302: redirected, ...errorResponses(404, 429) },
        detail: { operationId: "beginGoogleSignIn", summary: "Begin a sign-in with Google", tags },
      },
    )
    .get(
      CALLBACK_PATH,
      async ({ request, query, set, requestId, clientAddress }) => {
        const { finish } = configured(provider);
        const state = readCookie(request.headers.get("cookie"), STATE_COOKIE);
        writeStateCookie(set, "", 0, config.nodeEnv === "production");
        const flow = await takeFlow(deps, state, query.state);
        const fail = (error: SignInError) => redirectTo(set, signInUrl(config.dashboardUrl, error));
        if (query.error !== undefined)
          return fail(query.error === "access_denied" ? "access_denied" : "provider_error");
        const callback = new URL(`${config.baseUrl}${CALLBACK_PATH}${new URL(request.url).search}`);
        const identity = await finish(callback, query.state, flow);
        if (!identity) return fail("provider_error");
        const result = await signInWithGoogle(deps, {
          identity,
          browser: await browserOf(request, config),
          trace: { requestId, clientAddress },
        });
        if (!result.ok) return fail(result.reason);
        await setSessionCookie(set, config, result.session);
        return redirectTo(set, config.dashboardUrl);
      },
      {
        limit: "authentication",
        // before the query is validated: a disabled route is 404 whatever its query
        transform: () => void configured(provider),
        query: z.object({
          state: z.string().min(1).max(512),
          code: z.string().max(2_048).optional(),
          error: z.string().max(512).optional(),
        }),
        response: { 302: redirected, ...errorResponses(400, 404, 429) },
        detail: {
          operationId: "finishGoogleSignIn",
          summary: "Callback of the sign-in with Google; signs in",
          tags,
        },
      },
    );
};

function configured(provider: Provider | undefined): Provider {
  if (provider) return provider;
  throw new ServiceError("NOT_FOUND", "Sign-in with Google is not configured here");
}

/** The state must be the one given to this browser, and is valid once. */
async function takeFlow(deps: ApiDeps, cookie: string | undefined, state: string): Promise<OauthFlow> {
  const isOwn = cookie !== undefined && timingSafeEqual(hashOf(cookie), hashOf(state));
  const flow = isOwn ? await takeOauthFlow(deps.sql, hashOf(state)) : undefined;
  if (flow) return flow;
  throw invalid(
    "state",
    "invalid_or_expired",
    "This sign-in was not started here or has expired; start again",
  );
}

function hashOf(state: string): Buffer {
  return createHash("sha256").update(state).digest();
}

/** Lax, because the provider's redirect is a cross-site navigation, for which a Strict cookie would not be sent. */
function writeStateCookie(set: ResponseSet, value: string, maxAge: number, secure: boolean): void {
  set.cookie = {
    ...set.cookie,
    [STATE_COOKIE]: { value, maxAge, secure, httpOnly: true, sameSite: "lax", path: CALLBACK_PATH },
  };
}

function redirectTo(set: ResponseSet, location: string): string {
  set.status = 302;
  set.headers.location = location;
  return "";
}

function signInUrl(dashboardUrl: string, error: SignInError): string {
  const url = new URL("/sign-in", dashboardUrl);
  url.searchParams.set("error", error);
  return url.href;
}
