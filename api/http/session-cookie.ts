/** The cookie that carries the session, read from the header and written into Elysia's `set`. */
import type { Context } from "elysia";
import type { Session } from "../../db/schema.ts";
import type { ApiConfig } from "../config.ts";
import { signSessionToken } from "./session-token.ts";

export const SESSION_COOKIE = "authToken";
const COOKIE_HEADER_MAX_CHARS = 16_384;

export type ResponseSet = Context["set"];

type NewToken = Pick<Session, "id" | "userId" | "expiresAt">;

/** A JWT that ends when the session does. */
export async function tokenOf(config: ApiConfig, session: NewToken): Promise<string> {
  return signSessionToken(config, {
    sid: session.id,
    sub: session.userId,
    exp: Math.floor(session.expiresAt.getTime() / 1_000),
  });
}

/** Signs the browser in: httpOnly, SameSite=Strict, whole site, Secure outside development. */
export async function setSessionCookie(
  set: ResponseSet,
  config: ApiConfig,
  session: NewToken,
): Promise<void> {
  const lifeS = Math.max(0, Math.round((session.expiresAt.getTime() - Date.now()) / 1_000));
  writeCookie(set, config, await tokenOf(config, session), lifeS);
}

export function clearSessionCookie(set: ResponseSet, config: ApiConfig): void {
  writeCookie(set, config, "", 0);
}

function writeCookie(set: ResponseSet, config: ApiConfig, value: string, maxAge: number): void {
  set.cookie = {
    ...set.cookie,
    [SESSION_COOKIE]: {
      value,
      httpOnly: true,
      secure: config.nodeEnv === "production",
      sameSite: "strict",
      path: "/",
      maxAge,
    },
  };
}

/** The value of one cookie in a `Cookie` header. A name given twice with different values counts as absent. */
export function readCookie(header: string | null, name: string): string | undefined {
  if (!header || header.length > COOKIE_HEADER_MAX_CHARS) return undefined;
  const values = new Set<string>();
  for (const pair of header.split(";")) {
    const at = pair.indexOf("=");
    if (at > 0 && pair.slice(0, at).trim() === name) values.add(pair.slice(at + 1).trim());
  }
  const [value, ...others] = values;
  return others.length > 0 || value === "" ? undefined : value;
}
