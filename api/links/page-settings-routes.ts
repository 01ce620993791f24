/** Settings of a merchant's payment pages: colour, logo, and which shops may embed them. */
import { createHash } from "node:crypto";
import { Elysia } from "elysia";
import { z } from "zod";
import { COLOR } from "../../core/domain/page-colors.ts";
import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { findMerchantPage, replaceLogo, updatePageSettings } from "../../db/links/page-settings.ts";
import type { MerchantPage } from "../../db/links/schema.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { access } from "../http/access.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { errorResponses } from "../http/envelope.ts";
import { jsonBody } from "../http/json-body.ts";
import { encodeLogo, UPLOAD_MAX_BYTES } from "./encode-logo.ts";

const ORIGINS_MAX = 20;
const ORIGIN_MAX = 255;
/** 128 bits of SHA-256. */
const DIGEST_DIGITS = 32;

/** An origin as browsers serialise it: scheme, host and port, nothing else. */
const origin = z
  .string()
  .max(ORIGIN_MAX)
  .refine((text) => {
    const url = URL.parse(text);
    const isLocal = url?.protocol === "http:" && ["localhost", "127.0.0.1"].includes(url.hostname);
    return url !== null && url.origin === text && (url.protocol === "https:" || isLocal);
  }, "must be an origin such as https://shop.example: https, or http on localhost, without a path")
  // it becomes part of a header
  .refine((text) => !/[\s;,*]/.test(text), "must be one origin");

const changesSchema = z.object({
  frameOrigins: z
    .array(origin)
    .max(ORIGINS_MAX)
    .describe("The only origins whose pages may embed your payment pages with embed.js"),
  accentColor: z
    .string()
    .toLowerCase()
    .regex(COLOR, "must be a colour such as #0b50e6")
    .nullable()
    .describe(
      "Colour of buttons and links; pages darken or lighten it until it is readable. null: the default",
    ),
});
const settingsSchema = changesSchema
  .extend({
    logoUrl: z
      .string()
      .nullable()
      .describe(
        "Your logo on payment pages, receipts and receipt e-mails, on white; null: the name's first letter",
      ),
  })
  .meta({ id: "PageSettings" });
const logoSchema = z.strictObject({
  image: z
    .string()
    .min(1)
    .max(Math.ceil(UPLOAD_MAX_BYTES / 3) * 4 + 100)
    .describe("PNG, JPEG or WebP of at most 512 kB and 4 megapixels, as base64 or a data URL"),
});
const tags = ["Settings"];

export const pageSettingsRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "page-settings-routes" })
    .use(access(deps))
    .use(jsonBody)
    .get("/v1/settings/pages", async ({ user }) => present(await findMerchantPage(deps.sql, user.id), deps), {
      auth: { allow: ["session"], needs: "settings:read" },
      response: { 200: settingsSchema, ...errorResponses(401, 403, 429) },
      detail: { operationId: "getPageSettings", summary: "Settings for your payment pages", tags },
    })
    .patch(
      "/v1/settings/pages",
      async ({ body, user, trace }) =>
        deps.sql.begin(async (tx) => {
          const { accentColor: accent, frameOrigins } = body;
          const updated = await updatePageSettings(tx, user.id, { frameOrigins, accent });
          await recordChange(tx, updated, trace);
          return present(updated, deps);
        }),
      {
        auth: { allow: ["session"], needs: "settings:write", freshPasskey: true },
        body: changesSchema.partial().strict(),
        response: { 200: settingsSchema, ...errorResponses(400, 401, 403, 413, 429) },
        detail: {
          operationId: "updatePageSettings",
          summary: "Change settings for your payment pages; omitted fields are unchanged",
          tags,
        },
      },
    )
    .post(
      "/v1/settings/pages/logo",
      async ({ body, user, trace }) => {
        const png = await encodeLogo(body.image);
        const digest = createHash("sha256").update(png).digest("hex").slice(0, DIGEST_DIGITS);
        return deps.sql.begin(async (tx) => {
          const updated = await replaceLogo(tx, user.id, { png, digest });
          await recordChange(tx, updated, trace);
          return present(updated, deps);
        });
      },
      {
        auth: { allow: ["session"], needs: "settings:write", freshPasskey: true },
        body: logoSchema,
        response: { 200: settingsSchema, ...errorResponses(400, 401, 403, 413, 429) },
        detail: {
          operationId: "setLogo",
          summary: "Set the logo; it is re-encoded as a PNG of at most 64 kB",
          tags,
        },
      },
    )
    .delete(
      "/v1/settings/pages/logo",
      async ({ user, trace }) =>
        deps.sql.begin(async (tx) => {
          const updated = await replaceLogo(tx, user.id, null);
          await recordChange(tx, updated, trace);
          return present(updated, deps);
        }),
      {
        auth: { allow: ["session"], needs: "settings:write", freshPasskey: true },
        response: { 200: settingsSchema, ...errorResponses(401, 403, 429) },
        detail: { operationId: "removeLogo", summary: "Remove the logo", tags },
      },
    );

async function recordChange(tx: Tx, page: MerchantPage, trace: Trace): Promise<void> {
  const details = {
    frameOrigins: page.frameOrigins.join(" "),
    accentColor: page.accent,
    logo: page.logoDigest,
  };
  await recordSecurityEvent(tx, { userId: page.userId, type: "settings_changed", ...trace, details });
}

function present(
  page: MerchantPage | undefined,
  { config }: Pick<ApiDeps, "config">,
): z.infer<typeof settingsSchema> {
  return {
    frameOrigins: page?.frameOrigins ?? [],
    accentColor: page?.accent ?? null,
    logoUrl: page?.logoDigest ? `${config.baseUrl}/looks/${page.logoDigest}.png` : null,
  };
}
