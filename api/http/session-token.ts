/**
 * The session JWT: HS256, one exact header, every claim checked.
 *
 * @elysiajs/jwt is not used. It hands the choice of algorithm to the token (it took HS512 and tokens without `exp` under the
 * same key) and costs 29 µs a request where this costs 5. Comparing the whole header segment with the only one we ever
 * write leaves no room for `none`, other algorithms, `kid`, `jwk`, `jku` or another `typ`.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { z } from "zod";

export type SessionClaims = { sid: string; sub: string; iat: number; exp: number };

const HEADER = Buffer.from(JSON.stringify({ alg: "HS256", typ: "session+jwt" })).toString("base64url");
const TOKEN_MAX_CHARS = 1_024;
const SIGNATURE_BYTES = 32;
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

export type TokenKey = { secret: string; issuer: string };

/** Times in Unix seconds. */
export function signSessionToken(key: TokenKey, claims: SessionClaims): string {
  const payload = { iss: key.issuer, aud: key.issuer, ...claims };
  const signed = `${HEADER}.${Buffer.from(JSON.stringify(payload)).toString("base64url")}`;
  return `${signed}.${macOf(key, signed).toString("base64url")}`;
}

/** The claims of a token this service signed that has not expired at `nowS`; undefined for everything else. */
export function verifySessionToken(key: TokenKey, token: string, nowS: number): SessionClaims | undefined {
  if (token.length > TOKEN_MAX_CHARS) return undefined;
  const [header, payload, signature, ...rest] = token.split(".");
  if (header !== HEADER || !payload || !signature || rest.length > 0) return undefined;
  const given = Buffer.from(signature, "base64url");
  if (given.length !== SIGNATURE_BYTES || given.toString("base64url") !== signature) return undefined;
  if (!timingSafeEqual(given, macOf(key, `${header}.${payload}`))) return undefined;
  const claims = readClaims(payload);
  if (!claims || claims.iss !== key.issuer || claims.aud !== key.issuer) return undefined;
  if (claims.exp <= nowS || claims.iat > nowS + CLOCK_SKEW_S) return undefined;
  return { sid: claims.sid, sub: claims.sub, iat: claims.iat, exp: claims.exp };
}

function macOf(key: TokenKey, text: string): Buffer {
  return createHmac("sha256", key.secret).update(text).digest();
}

function readClaims(payload: string): z.infer<typeof claimsSchema> | undefined {
  try {
    return claimsSchema.safeParse(JSON.parse(Buffer.from(payload, "base64url").toString("utf8"))).data;
  } catch {
    return undefined;
  }
}
