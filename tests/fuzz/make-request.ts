/** Makes one malformed request from a stream of random numbers: mostly a real route with something wrong in it. */
import { CONTENT_TYPES, HEADERS, type Pick, QUERIES, RAW_BODIES, SEGMENTS, VALUES } from "./corpus.ts";

export type Route = { method: string; path: string; body: JsonSchema | undefined };

export type JsonSchema = {
  type?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
};

export type FuzzRequest = {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
  /** Sends a signed-in user's cookie. */
  isSignedIn: boolean;
};

/** Values that pass a field's own check, by its name, so that the fault is met further in. */
const GOOD: Record<string, unknown> = {
  email: "somebody@example.com",
  otp: "123456",
  code: "123456",
  challengeId: "ch_00000000-0000-4000-8000-000000000000",
  network: "base-sepolia",
  amount: 1.5,
  description: "a cup of coffee",
  expiresInHours: 24,
  transactionHash: `0x${"ab".repeat(32)}`,
  clientWalletAddress: `0x${"cd".repeat(20)}`,
  format: "csv",
  id: "AAAA",
  rawId: "AAAA",
  type: "public-key",
  clientDataJSON: "eyJ0eXBlIjoid2ViYXV0aG4uZ2V0In0",
  authenticatorData: "AAAA",
  attestationObject: "o2NmbXRkbm9uZWdhdHRTdG10oGhhdXRoRGF0YVglAA",
  signature: "AAAA",
  from: `0x${"11".repeat(20)}`,
  to: `0x${"22".repeat(20)}`,
  value: "1500000",
  nonce: `0x${"33".repeat(32)}`,
  validAfter: 0,
  validBefore: 9_999_999_999,
  x402Version: 1,
};

const X402_BODY: JsonSchema = {
  type: "object",
  properties: {
    network: { type: "string" },
    scheme: { type: "string" },
    x402Version: { type: "integer" },
    payload: {
      type: "object",
      properties: Object.fromEntries(
        ["from", "to", "value", "nonce", "validAfter", "validBefore", "data", "signature", "v", "r", "s"].map(
          (name) => [name, { type: "string" }],
        ),
      ),
    },
  },
};

/** Names of fields nobody asked for. */
const KEYS = [
  "__proto__",
  "constructor",
  "toString",
  "userId",
  "id",
  "status",
  "",
  "a.b",
  "\u0000",
  "x".repeat(500),
];
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"];
const BODYLESS = new Set(["GET", "HEAD"]);

/** `ids` exist, so that some requests get as far as the row. */
export function makeRequest(
  routes: readonly Route[],
  ids: readonly string[],
  random: () => number,
): FuzzRequest {
  const pick: Pick = (items) => {
    const item = items[Math.floor(random() * items.length)];
    if (item === undefined && !items.includes(item as never)) throw new RangeError("nothing to pick from");
    return item as (typeof items)[number];
  };
  const chance = (share: number) => random() < share;
  const route = pick(routes);
  const method = chance(0.05) ? pick(METHODS) : route.method.toUpperCase();
  const path = chance(0.03)
    ? `/${pick(SEGMENTS)}/${pick(SEGMENTS)}`
    : fillPath(route.path, ids, pick, chance);
  const query = chance(0.4) ? `?${pick(QUERIES)}${chance(0.3) ? `&${pick(QUERIES)}` : ""}` : "";
  const hasBody = !BODYLESS.has(method) && chance(0.97);
  const schema = route.body ?? (route.path.includes("x402") ? X402_BODY : undefined);
  const body = hasBody ? makeBody(schema, pick, chance) : undefined;
  return {
    method,
    path: path + query,
    headers: {
      ...(body === undefined
        ? {}
        : { "content-type": chance(0.9) ? "application/json" : pick(CONTENT_TYPES) }),
      ...(chance(0.25) ? pick(HEADERS) : {}),
    },
    body,
    // a forged logout must not end the session the others run on
    isSignedIn: !path.includes("logout") && chance(0.7),
  };
}

function fillPath(
  path: string,
  ids: readonly string[],
  pick: Pick,
  chance: (share: number) => boolean,
): string {
  const filled = path.replace(/[:{][^/]+/g, () => pick(chance(0.6) ? ids : SEGMENTS));
  return chance(0.02) ? `${filled}/` : filled;
}

function makeBody(schema: JsonSchema | undefined, pick: Pick, chance: (share: number) => boolean): string {
  if (!schema || chance(0.12)) return pick(RAW_BODIES);
  const text = JSON.stringify(makeValue(schema, "", pick, chance)) ?? "null";
  return chance(0.03) ? text.slice(0, Math.max(1, Math.floor(text.length / 2))) : text;
}

/** One value of the schema; each place may hold something else instead, be missing, or have company. */
function makeValue(
  schema: JsonSchema,
  name: string,
  pick: Pick,
  chance: (share: number) => boolean,
): unknown {
  if (chance(0.12)) return pick(VALUES);
  if (schema.anyOf && !(name in GOOD)) return makeValue(pick(schema.anyOf), name, pick, chance);
  if (schema.const !== undefined) return schema.const;
  if (schema.properties) {
    const entries = Object.entries(schema.properties)
      .filter(() => !chance(0.08))
      .map(([key, one]) => [key, makeValue(one, key, pick, chance)]);
    if (chance(0.1)) entries.push([pick(KEYS), pick(VALUES)]);
    return Object.fromEntries(entries);
  }
  if (schema.items) return [makeValue(schema.items, name, pick, chance)];
  if (name in GOOD) return GOOD[name];
  if (schema.enum) return pick(schema.enum);
  return schema.type === "number" || schema.type === "integer" ? 7 : "text";
}
