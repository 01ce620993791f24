/** Sign-in with Google, and the callback of linking an account: OpenID Connect code flow with state, PKCE and nonce. Off (404) unless configured. */
import { Elysia } from "elysia";
import { z } from "zod";
import { ServiceError } from "../../../core/domain/errors.ts";
import { access } from "../../http/access.ts";
import type { ApiDeps } from "../../http/deps.ts";
import { errorResponses } from "../../http/envelope.ts";
import { type ResponseSet, setSessionCookie } from "../../http/session-cookie.ts";
import { browserOf } from "../../sessions/start-session.ts";
import { type LinkRefusal, linkGoogleAccount } from "./link-account.ts";
import { googleLinkRoutes } from "./link-routes.ts";
import { beginFlow, CALLBACK_PATH, LINK_STATE, takeFlow, takeLinkCookie } from "./oauth-state.ts";
import { openProvider, type Provider } from "./provider.ts";
import { type GoogleRefusal, signInWithGoogle } from "./sign-in.ts";

type CallbackError = GoogleRefusal | LinkRefusal | "access_denied" | "provider_error";

const tags = ["Sessions"];
const redirected = z.string().describe("Redirect: see the `location` header");

export const googleRoutes = (deps: ApiDeps) => {
  const { config, log } = deps;
  const provider = config.google ? openProvider(config.google, log) : undefined;
  return new Elysia({ name: "google-routes" })
    .use(access(deps))
    .use(googleLinkRoutes(deps, () => configured(provider)))
    .get(
      "/v1/auth/google/authorize",
      async ({ set }) => {
        const url = await beginFlow(deps, set, configured(provider));
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
        const cookies = request.headers.get("cookie");
        const flow = await takeFlow(deps, set, { cookies, state: query.state });
        const isLink = query.state.startsWith(LINK_STATE);
        const fail = (error: CallbackError) =>
          redirectTo(set, (isLink ? linkedUrl : signInUrl)(config.dashboardUrl, error));
        if (query.error !== undefined)
          return fail(query.error === "access_denied" ? "access_denied" : "provider_error");
        const callback = new URL(`${config.baseUrl}${CALLBACK_PATH}${new URL(request.url).search}`);
        const identity = await finish(callback, query.state, flow);
        if (!identity) return fail("provider_error");
        if (isLink) {
          const token = takeLinkCookie(deps, set, cookies);
          const linked = await linkGoogleAccount(deps, {
            identity,
            token,
            trace: { requestId, clientAddress },
          });
          return linked.ok ? redirectTo(set, linkedUrl(config.dashboardUrl, "linked")) : fail(linked.reason);
        }
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
        // before the query is validated, so that a disabled route is 404 whatever its query
        transform: () => void configured(provider),
        query: z.object({
          state: z.string().min(1).max(512),
          code: z.string().max(2_048).optional(),
          error: z.string().max(512).optional(),
        }),
        response: { 302: redirected, ...errorResponses(400, 404, 429) },
        detail: {
          operationId: "finishGoogleSignIn",
          summary:
            "Callback for sign-in with Google; signs the user in, or completes a link that a signed-in user began",
          tags,
        },
      },
    );
};

function configured(provider: Provider | undefined): Provider {
  if (provider) return provider;
  throw new ServiceError("NOT_FOUND", "Sign-in with Google is not configured on this service");
}

function redirectTo(set: ResponseSet, location: string): string {
  set.status = 302;
  set.headers.location = location;
  return "";
}

function signInUrl(dashboardUrl: string, error: CallbackError): string {
  const url = new URL("/sign-in", dashboardUrl);
  url.searchParams.set("error", error);
  return url.href;
}

/** The dashboard's sign-in methods screen, with the outcome of the link. */
function linkedUrl(dashboardUrl: string, outcome: CallbackError | "linked"): string {
  const url = new URL("/security", dashboardUrl);
  url.searchParams.set("google", outcome);
  return url.href;
}
