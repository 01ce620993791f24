/** The documentation at /docs, as pages and as markdown, and /llms.txt. Public, the same for every reader, and without a request to another origin. */
import { createHash } from "node:crypto";
import { Elysia, NotFoundError } from "elysia";
import type { ApiDeps } from "../http/deps.ts";
import type { OpenApiDocument } from "../http/openapi-document.ts";
import { PAGE_POLICY } from "../http/page-policy.ts";
import { requestContext } from "../http/request-context.ts";
import { type DocsFiles, renderDocsHome, renderDocsPage } from "./page.ts";
import { buildSite, type Site } from "./site.ts";

const HEADERS = {
  // browsers revalidate: 304 after a restart with the same version, new pages after an update
  "cache-control": "no-cache",
  vary: "accept-encoding",
  "content-security-policy": PAGE_POLICY,
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
};
const HTML = "text/html; charset=utf-8";
const MARKDOWN = "text/markdown; charset=utf-8";

type File = { type: string; plain: Uint8Array<ArrayBuffer>; zipped: Uint8Array<ArrayBuffer>; tag: string };

/** `document` is the OpenAPI document, read when the first page is requested. */
export const guideRoutes = (deps: ApiDeps, document: () => object) => {
  let site: Site | undefined;
  const files = new Map<string, File>();
  const open = () => {
    site ??= buildSite(document() as OpenApiDocument, deps.config.baseUrl);
    return site;
  };
  const serve = (request: Request, path: string): Response => {
    const known = files.get(path) ?? makeFile(deps, open(), path);
    if (!known) throw new NotFoundError();
    files.set(path, known);
    return respond(request, known);
  };
  const hidden = { detail: { hide: true } } as const;
  return new Elysia({ name: "guide-routes" })
    .use(requestContext(deps))
    .get("/docs", ({ request }) => serve(request, ""), hidden)
    .get("/docs/:page", ({ request, params }) => serve(request, params.page), hidden)
    .get("/docs/reference/:tag", ({ request, params }) => serve(request, `reference/${params.tag}`), hidden)
    .get("/llms.txt", ({ request }) => serve(request, "llms.txt"), hidden);
};

function makeFile({ assets }: ApiDeps, site: Site, path: string): File | undefined {
  if (path === "llms.txt") return toFile("text/plain; charset=utf-8", site.llms);
  if (path === "search.json") return toFile("application/json", JSON.stringify(site.search));
  const names: DocsFiles = {
    style: assets.pathOf("docs.css"),
    script: assets.pathOf("docs.js"),
    icon: assets.pathOf("favicon.svg"),
  };
  if (path === "") return toFile(HTML, renderDocsHome(site, names).html);
  const isMarkdown = path.endsWith(".md");
  const page = site.pages.get(isMarkdown ? path.slice(0, -".md".length) : path);
  if (!page) return undefined;
  return isMarkdown ? toFile(MARKDOWN, page.markdown) : toFile(HTML, renderDocsPage(site, page, names).html);
}

function toFile(type: string, text: string): File {
  const plain = new TextEncoder().encode(text);
  const tag = `W/"${createHash("sha256").update(plain).digest("base64url").slice(0, 16)}"`;
  return { type, plain, zipped: Bun.gzipSync(plain), tag };
}

function respond(request: Request, { type, plain, zipped, tag }: File): Response {
  const headers = { ...HEADERS, "content-type": type, etag: tag };
  if (request.headers.get("if-none-match") === tag) return new Response(null, { status: 304, headers });
  if (!/\bgzip\b/.test(request.headers.get("accept-encoding") ?? "")) return new Response(plain, { headers });
  return new Response(zipped, { headers: { ...headers, "content-encoding": "gzip" } });
}
