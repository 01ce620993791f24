/** A sign-in at the provider that is in progress: its state in the browser's cookie and, hashed, in the database; used once. */
import { createHash, timingSafeEqual } from "node:crypto";
import { invalid } from "../../../core/domain/errors.ts";
import { insertOauthFlow, type OauthFlow, takeOauthFlow } from "../../../db/accounts/identities.ts";
import type { ApiDeps } from "../../http/deps.ts";
import { type ResponseSet, readCookie } from "../../http/session-cookie.ts";
import type { Provider } from "./provider.ts";

const STATE_COOKIE = "googleState";
const LINK_COOKIE = "googleLink";
export const FLOW_LIFE_S = 600;
export const CALLBACK_PATH = "/v1/auth/google/callback";

/** Prefix of the state of a link: it alone tells the callback not to sign anyone in. */
export const LINK_STATE = "link.";

type FlowDeps = Pick<ApiDeps, "sql" | "config">;

export async function beginFlow(
  { sql, config }: FlowDeps,
  set: ResponseSet,
  provider: Provider,
  statePrefix?: typeof LINK_STATE,
): Promise<URL> {
  const { url, state, flow } = await provider.begin(`${config.baseUrl}${CALLBACK_PATH}`, statePrefix);
  await insertOauthFlow(sql, hashOf(state), { ...flow, lifeS: FLOW_LIFE_S });
  writeCookie({ config }, set, { name: STATE_COOKIE, value: state, maxAge: FLOW_LIFE_S });
  return url;
}

/** The state must be the one given to this browser, and is valid once. */
export async function takeFlow(
  { sql, config }: FlowDeps,
  set: ResponseSet,
  { cookies, state }: { cookies: string | null; state: string },
): Promise<OauthFlow> {
  const cookie = readCookie(cookies, STATE_COOKIE);
  writeCookie({ config }, set, { name: STATE_COOKIE, value: "", maxAge: 0 });
  const isOwn = cookie !== undefined && timingSafeEqual(hashOf(cookie), hashOf(state));
  const flow = isOwn ? await takeOauthFlow(sql, hashOf(state)) : undefined;
  if (flow) return flow;
  throw invalid(
    "state",
    "invalid_or_expired",
    "This sign-in was not started here or has expired; start again",
  );
}

/** Carries the session's token to the callback only: the session's own cookie is SameSite=Strict. */
export function writeLinkCookie(deps: Pick<ApiDeps, "config">, set: ResponseSet, token: string): void {
  writeCookie(deps, set, { name: LINK_COOKIE, value: token, maxAge: FLOW_LIFE_S });
}

export function takeLinkCookie(
  deps: Pick<ApiDeps, "config">,
  set: ResponseSet,
  cookies: string | null,
): string | undefined {
  writeCookie(deps, set, { name: LINK_COOKIE, value: "", maxAge: 0 });
  return readCookie(cookies, LINK_COOKIE);
}

function hashOf(state: string): Buffer {
  return createHash("sha256").update(state).digest();
}

/** Lax, because the provider's redirect is a cross-site navigation, for which a Strict cookie would not be sent. */
function writeCookie(
  { config }: Pick<ApiDeps, "config">,
  set: ResponseSet,
  { name, value, maxAge }: { name: string; value: string; maxAge: number },
): void {
  const secure = config.nodeEnv === "production";
  set.cookie = {
    ...set.cookie,
    [name]: { value, maxAge, secure, httpOnly: true, sameSite: "lax", path: CALLBACK_PATH },
  };
}
