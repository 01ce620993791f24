/** Serves a merchant's branding for pages: a style sheet with its colour, and its logo, each at a URL that changes with its content. */
import { Elysia } from "elysia";
import { pageColors } from "../../core/domain/page-colors.ts";
import { findLogo } from "../../db/links/page-settings.ts";
import type { ApiDeps } from "../http/deps.ts";
import { requestContext } from "../http/request-context.ts";

const STYLE = /^([0-9a-f]{6})\.css$/;
const LOGO = /^([0-9a-f]{32})\.png$/;

const HEADERS = {
  "cache-control": "public, max-age=31536000, immutable",
  "x-content-type-options": "nosniff",
  // opened directly, it is only an image
  "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
};

export const brandingAssetRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "branding-asset-routes" }).use(requestContext(deps)).get(
    "/looks/:file",
    async ({ params: { file } }) => {
      const [, color] = STYLE.exec(file) ?? [];
      if (color)
        return new Response(styleOf(`#${color}`), {
          headers: { ...HEADERS, "content-type": "text/css; charset=utf-8" },
        });
      const [, digest] = LOGO.exec(file) ?? [];
      const png = digest && (await findLogo(deps.sql, digest));
      if (!png) return new Response(null, { status: 404 });
      return new Response(Buffer.from(png), { headers: { ...HEADERS, "content-type": "image/png" } });
    },
    { detail: { hide: true } },
  );

function styleOf(color: string): string {
  return `${rootOf(color, "light")}@media (prefers-color-scheme:dark){${rootOf(color, "dark")}}`;
}

function rootOf(color: string, scheme: "light" | "dark"): string {
  const { accent, hover, soft, ink } = pageColors(color, scheme);
  return `:root{--accent:${accent};--accent-hover:${hover};--accent-soft:${soft};--on-accent:${ink}}`;
}
