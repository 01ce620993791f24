/** The session on the wire: the JWT, and the cookie that carries it, read from the header and written into Elysia's `set`. */
import { jwt } from "@elysiajs/jwt";
import type { Context } from "elysia";
import { z } from "zod";
import type { Session } from "../../db/schema.ts";
import type { ApiConfig } from "../config.ts";
import { oncePer } from "./memoize-per-key.ts";

export const SESSION_COOKIE = "authToken";
const COOKIE_HEADER_MAX_CHARS = 16_384;

export type ResponseSet = Context["set"];

type NewToken = Pick<Session, "id" | "userId" | "expiresAt">;

/** A JWT that expires with the session. */
export async function tokenOf(config: ApiConfig, session: NewToken): Promise<string> {
  const [newest] = keysOf(config);
  const exp = Math.floor(session.expiresAt.getTime() / 1_000);
  return newest.sign({ sid: session.id, sub: session.userId, exp });
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

type SessionClaims = { sid: string; sub: string; iat: number; exp: number };

const ALGORITHM = "HS256";
const TYPE = "session+jwt";
const TOKEN_MAX_CHARS = 1_024;
/** Unpadded base64url, as RFC 7515 requires; the library also accepts padding. */
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]+$/;
/** How far another instance's clock may be ahead. */
const CLOCK_SKEW_S = 30;

const claimsSchema = z.strictObject({
  iss: z.string(),
  aud: z.string(),
  sub: z.string(),
  sid: z.string(),
  iat: z.int(),
  exp: z.int(),
});

type TokenConfig = Pick<ApiConfig, "jwtSecrets" | "baseUrl">;

/**
 * The session JWT, by @elysiajs/jwt (jose inside). By default the plugin's verification accepts every HMAC algorithm, any issuer and
 * tokens without expiry, so each verification names algorithm, type, issuer, audience and claims. One plugin per key: the first
 * key signs, tokens of every key in the list are accepted.
 */
const keysOf = oncePer(({ jwtSecrets, baseUrl }: TokenConfig) => {
  const [first, ...others] = jwtSecrets;
  return [openKey(first, baseUrl), ...others.map((secret) => openKey(secret, baseUrl))] as const;
});

function openKey(secret: string, issuer: string) {
  const { session } = jwt({
    name: "session",
    secret,
    alg: ALGORITHM,
    typ: TYPE,
    iss: issuer,
    aud: issuer,
  }).decorator;
  return session;
}

/** Ensures one encoding per token: base64url decoders ignore the spare bits of the last character (RFC 4648 3.5). */
function isCanonical(token: string): boolean {
  const signature = token.slice(token.lastIndexOf(".") + 1);
  return Buffer.from(signature, "base64url").toString("base64url") === signature;
}

/** The claims of a token this service signed that has not expired; undefined for everything else. */
export async function verifySessionToken(
  config: TokenConfig,
  token: string,
): Promise<SessionClaims | undefined> {
  if (token.length > TOKEN_MAX_CHARS || !COMPACT.test(token) || !isCanonical(token)) return undefined;
  const { baseUrl } = config;
  const expected = {
    algorithms: [ALGORITHM],
    typ: TYPE,
    issuer: baseUrl,
    audience: baseUrl,
    requiredClaims: ["exp", "iat", "sub", "sid"],
  };
  for (const key of keysOf(config)) {
    const payload = await key.verify(token, expected);
    if (payload) return readClaims(payload);
  }
  return undefined;
}

function readClaims(payload: unknown): SessionClaims | undefined {
  const claims = claimsSchema.safeParse(payload).data;
  if (!claims || claims.iat > Date.now() / 1_000 + CLOCK_SKEW_S) return undefined;
  const { sid, sub, iat, exp } = claims;
  return { sid, sub, iat, exp };
}
