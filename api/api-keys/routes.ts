/** API keys for a merchant's programs. Managed with a session only: a key cannot create keys. */
import { Elysia } from "elysia";
import { z } from "zod";
import { API_KEY_SCOPES, LIVE_KEYS_MAX } from "../../core/domain/api-key-scopes.ts";
import { listApiKeys } from "../../db/api-keys/api-keys.ts";
import type { ApiKey } from "../../db/schema.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses, isoTime, metaOf, pageSchema, withMeta } from "../http/envelope.ts";
import { wholeList } from "../http/list-pages.ts";
import { createApiKey, revokeKey } from "./keys.ts";

const apiKeySchema = z
  .object({
    id: z.string(),
    name: z.string(),
    prefix: z.string().describe("The first characters of the key, to identify it"),
    scopes: z.array(z.enum(API_KEY_SCOPES)),
    createdAt: isoTime,
    lastUsedAt: isoTime.nullable(),
    revokedAt: isoTime.nullable(),
  })
  .meta({ id: "ApiKey" });

const createBody = z.strictObject({
  name: z
    .string()
    .trim()
    .min(1)
    .max(100)
    .regex(/^[^\p{Cc}]+$/u, "must not contain control characters"),
  scopes: z.array(z.enum(API_KEY_SCOPES)).min(1).max(API_KEY_SCOPES.length),
});

const tags = ["API keys"];

export const apiKeyRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "api-key-routes" })
    .use(access(deps))
    .post(
      "/v1/api-keys",
      async ({ body, caller, trace, requestId, status }) => {
        const { apiKey, key } = await createApiKey(deps, { ...body, caller, trace });
        return status(201, { data: { ...presentApiKey(apiKey), key }, meta: metaOf(requestId) });
      },
      {
        auth: { allow: ["session"], needs: "keys:manage", freshPasskey: true },
        body: createBody,
        response: {
          201: withMeta(apiKeySchema.extend({ key: z.string().describe("Shown only once") })),
          ...errorResponses(400, 401, 403, 409, 413, 429),
        },
        detail: {
          operationId: "createApiKey",
          summary: `Create an API key; at most ${LIVE_KEYS_MAX} active keys; requires a passkey used in the last 15 minutes`,
          tags,
        },
      },
    )
    .get(
      "/v1/api-keys",
      async ({ user, requestId }) => ({
        ...wholeList((await listApiKeys(deps.sql, user.id)).map(presentApiKey)),
        meta: metaOf(requestId),
      }),
      {
        auth: { allow: ["session"], needs: "keys:manage" },
        response: {
          200: pageSchema(apiKeySchema),
          ...errorResponses(401, 403, 429),
        },
        detail: { operationId: "listApiKeys", summary: "The user's API keys, newest first", tags },
      },
    )
    .delete(
      "/v1/api-keys/:id",
      async ({ params, user, trace, requestId }) => {
        const apiKey = await revokeKey(deps, { id: params.id, userId: user.id, trace });
        return { data: presentApiKey(apiKey), meta: metaOf(requestId) };
      },
      {
        auth: { allow: ["session"], needs: "keys:manage" },
        params: z.object({ id: z.string().regex(/^key_[\w-]{1,64}$/, "must be an API key's id") }),
        response: {
          200: withMeta(apiKeySchema),
          ...errorResponses(400, 401, 403, 404, 429),
        },
        detail: { operationId: "revokeApiKey", summary: "Revoke an API key", tags },
      },
    );

function presentApiKey(apiKey: ApiKey): z.infer<typeof apiKeySchema> {
  return {
    id: apiKey.id,
    name: apiKey.name,
    prefix: apiKey.prefix,
    scopes: apiKey.scopes,
    createdAt: apiKey.createdAt.toISOString(),
    lastUsedAt: apiKey.lastUsedAt?.toISOString() ?? null,
    revokedAt: apiKey.revokedAt?.toISOString() ?? null,
  };
}
