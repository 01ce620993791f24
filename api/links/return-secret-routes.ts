/** The secret with which a shop verifies returning payers. */
import { Elysia } from "elysia";
import { z } from "zod";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { getReturnSecret, rotateReturnSecret } from "./return-secret.ts";

const secretSchema = z
  .object({
    returnSecret: z
      .string()
      .describe(
        "Keys `sig` of a return query: hex HMAC-SHA256 of linkId, reference, status and at, joined by newlines",
      ),
  })
  .meta({ id: "ReturnSecret" });
const auth = { allow: ["session"], needs: "settings:write", freshPasskey: true } as const;
const tags = ["Settings"];

export const returnRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "return-secret-routes" })
    .use(access(deps))
    .get(
      "/v1/settings/return-secret",
      async ({ user }) => ({ returnSecret: await getReturnSecret(deps.sql, deps.config, user.id) }),
      {
        auth,
        response: { 200: secretSchema, ...errorResponses(401, 403, 429) },
        detail: {
          operationId: "getReturnSecret",
          summary: "The secret that signs the query of successUrl and cancelUrl",
          tags,
        },
      },
    )
    .post(
      "/v1/settings/return-secret/rotate",
      async ({ user, trace }) =>
        deps.sql.begin(async (tx) => {
          const returnSecret = await rotateReturnSecret(tx, deps.config, user.id);
          await recordSecurityEvent(tx, {
            ...{ userId: user.id, type: "return_secret_rotated", ...trace },
            details: {},
          });
          return { returnSecret };
        }),
      {
        auth,
        response: { 200: secretSchema, ...errorResponses(400, 401, 403, 429) },
        detail: {
          operationId: "rotateReturnSecret",
          summary: "Replace that secret, effective immediately",
          tags,
        },
      },
    );
