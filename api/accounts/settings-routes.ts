/** A merchant's settings for matching transfers to links. */
import { Elysia } from "elysia";
import { z } from "zod";
import { CLAIM_POLICIES } from "../../core/domain/claim.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { updateSettings } from "../../db/accounts/users.ts";
import type { User } from "../../db/schema.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";

const settingsSchema = z
  .object({
    claimPolicy: z
      .enum(CLAIM_POLICIES)
      .describe(
        "early: a claim made before the block decides between links of one price; proven: only signed claims do",
      ),
    matchByAmount: z
      .boolean()
      .describe(
        "Whether a transfer of the amount that one open link asks for pays it without further evidence",
      ),
  })
  .meta({ id: "Settings" });
const tags = ["Settings"];

export const settingsRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "settings-routes" })
    .use(access(deps))
    .use(jsonBody)
    .get("/v1/settings", ({ user }) => presentSettings(user), {
      auth: { allow: ["session"], needs: "settings:read" },
      response: { 200: settingsSchema, ...errorResponses(401, 403, 429) },
      detail: { operationId: "getSettings", summary: "Your settings", tags },
    })
    .patch(
      "/v1/settings",
      async ({ body, user, trace }) =>
        deps.sql.begin(async (tx) => {
          const updated = await updateSettings(tx, user.id, body);
          await recordSecurityEvent(tx, {
            ...{ userId: user.id, type: "settings_changed", ...trace },
            details: presentSettings(updated),
          });
          return presentSettings(updated);
        }),
      {
        auth: { allow: ["session"], needs: "settings:write" },
        body: settingsSchema.partial().strict(),
        response: { 200: settingsSchema, ...errorResponses(400, 401, 403, 413, 429) },
        detail: {
          operationId: "updateSettings",
          summary: "Change settings; omitted fields are unchanged",
          tags,
        },
      },
    );

function presentSettings({ claimPolicy, matchByAmount }: User): z.infer<typeof settingsSchema> {
  return { claimPolicy, matchByAmount };
}
