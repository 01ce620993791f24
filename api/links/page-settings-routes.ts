/** How a merchant's payment pages work: which shops may show them. */
import { Elysia } from "elysia";
import { z } from "zod";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { findMerchantPage, updatePageSettings } from "../../db/links/merchant-pages.ts";
import { access } from "../http/access.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";

const ORIGINS_MAX = 20;
const ORIGIN_MAX = 255;

/** An origin as browsers write it: scheme, host and port, nothing behind. */
const origin = z
  .string()
  .max(ORIGIN_MAX)
  .refine((text) => {
    const url = URL.parse(text);
    const isLocal = url?.protocol === "http:" && ["localhost", "127.0.0.1"].includes(url.hostname);
    return url !== null && url.origin === text && (url.protocol === "https:" || isLocal);
  }, "must be an origin such as https://shop.example: https, or http on localhost, without a path")
  // it becomes a part of a header
  .refine((text) => !/[\s;,*]/.test(text), "must be one origin");

const settingsSchema = z.object({
  frameOrigins: z
    .array(origin)
    .max(ORIGINS_MAX)
    .describe("Origins whose pages may show your payment pages through embed.js; no others may"),
});
const tags = ["Settings"];

export const pageSettingsRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "page-settings-routes" })
    .use(access(deps))
    .use(jsonBody)
    .get("/v1/settings/pages", async ({ user }) => present(await findMerchantPage(deps.sql, user.id)), {
      auth: { allow: ["session"] },
      response: { 200: settingsSchema, ...errorResponses(401, 403, 429) },
      detail: { summary: "Settings of your payment pages", tags },
    })
    .patch(
      "/v1/settings/pages",
      async ({ body, user, requestId, clientAddress }) =>
        deps.sql.begin(async (tx) => {
          const updated = await updatePageSettings(tx, user.id, body);
          const trace = { requestId, clientAddress };
          const details = { frameOrigins: updated.frameOrigins.join(" ") };
          await recordSecurityEvent(tx, { userId: user.id, type: "settings_changed", ...trace, details });
          return present(updated);
        }),
      {
        auth: { allow: ["session"], freshPasskey: true },
        body: settingsSchema.partial().strict(),
        response: { 200: settingsSchema, ...errorResponses(400, 401, 403, 413, 429) },
        detail: { summary: "Change them; omitted ones are unchanged", tags },
      },
    );

function present(page: { frameOrigins: string[] } | undefined): z.infer<typeof settingsSchema> {
  return { frameOrigins: page?.frameOrigins ?? [] };
}
