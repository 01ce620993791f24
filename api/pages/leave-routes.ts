/**
 * Serves the page for leaving the service. It is a single file that people keep and can serve from any computer: its own policy lists,
 * as hashes, what it may run and load, and headers only add what a file cannot express.
 */
import { Elysia } from "elysia";
import type { ApiDeps } from "../http/deps.ts";
import { requestContext } from "../http/request-context.ts";

const FILE = "leave.html";
const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-cache",
  vary: "accept-encoding",
  "content-security-policy": "frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin-allow-popups",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy":
    "camera=(), microphone=(), geolocation=(), publickey-credentials-create=(), publickey-credentials-get=(self), clipboard-write=(self)",
};

/** `?download` saves it as a file, byte for byte. */
export const leaveRoutes = (deps: ApiDeps) => {
  const [name = ""] = deps.assets.pathOf(FILE).split("/").slice(-1);
  return new Elysia({ name: "leave-routes" }).use(requestContext(deps)).get(
    "/leave",
    ({ request }) => {
      const asset = deps.assets.respond(name, request.headers.get("accept-encoding") ?? "");
      const encoding = asset?.headers.get("content-encoding");
      const isDownload = new URL(request.url).searchParams.has("download");
      return new Response(asset?.body ?? null, {
        headers: {
          ...HEADERS,
          ...(encoding ? { "content-encoding": encoding } : {}),
          ...(isDownload ? { "content-disposition": `attachment; filename="${FILE}"` } : {}),
        },
      });
    },
    { detail: { hide: true } },
  );
};
