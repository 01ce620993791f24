/**
 * The session JWT, by @elysiajs/jwt (jose inside). The plugin pins nothing by itself when it verifies: it would take every HMAC
 * algorithm, any issuer and tokens without an end. So each verification names algorithm, type, issuer, audience and claims. One
 * plugin a key: the first key signs, a token of any key in the list is read.
 */
import { jwt } from "@elysiajs/jwt";
import { z } from "zod";
import type { ApiConfig } from "../config.ts";
import { oncePer } from "./memoize-per-key.ts";

export type SessionClaims = { sid: string; sub: string; iat: number; exp: number };

const ALGORITHM = "HS256";
const TYPE = "session+jwt";
const TOKEN_MAX_CHARS = 1_024;
/** Unpadded base64url, as RFC 7515 writes it; the library also reads padding. */
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]+$/;
/** How far another instance's clock may run ahead. */
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

/** `exp` in Unix seconds. */
export async function signSessionToken(
  config: TokenConfig,
  claims: Pick<SessionClaims, "sid" | "sub" | "exp">,
): Promise<string> {
  const [newest] = keysOf(config);
  return newest.sign(claims);
}

/** The claims of a token this service signed that has not expired; undefined for everything else. */
export async function verifySessionToken(
  config: TokenConfig,
  token: string,
): Promise<SessionClaims | undefined> {
  if (token.length > TOKEN_MAX_CHARS || !COMPACT.test(token)) return undefined;
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
