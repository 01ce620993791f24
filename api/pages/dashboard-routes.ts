/**
 * The dashboard: one shell for all of its screens, whose script calls the API. The shell is the same for every visitor, since a navigation
 * from an e-mail or chat sends no cookie (SameSite=Strict). `/` responds to programs with JSON.
 */
import { Elysia, NotFoundError } from "elysia";
import { NETWORKS } from "../../core/domain/networks.ts";
import type { ApiDeps } from "../http/deps.ts";
import { requestContext } from "../http/request-context.ts";
import { type Html, html, jsonBlock } from "./html.ts";
import { sendPage } from "./html-document.ts";
import { chooseLanguage, dashboardMessagesOf } from "./page-texts.ts";

/** Screens by their paths; the script routes within them. */
const SCREENS = [
  "/dashboard",
  "/sign-in",
  "/email-verification",
  "/wallet-setup",
  "/recover",
  "/links",
  "/links/:id",
  "/transactions",
  "/documents",
  "/statements",
  "/exports",
  "/saved-exports",
  "/exchange-rates",
  "/wallet",
  "/send",
  "/payout",
  "/developers/keys",
  "/developers/webhooks",
  "/members",
  "/invitations",
  "/security",
  "/settings",
] as const;

const DIRECTORY = {
  name: "USDC payment service",
  version: "v1",
  documentation: "/docs",
  openapi: "/openapi.json",
  health: "/health",
};

export const dashboardRoutes = (deps: ApiDeps) => {
  const routes = new Elysia({ name: "dashboard-routes" }).use(requestContext(deps)).get(
    "/",
    ({ request, set }) => {
      set.headers.vary = "accept, accept-language, accept-encoding";
      return wantsHtml(request) ? respond(deps, request) : DIRECTORY;
    },
    { detail: { hide: true } },
  );
  for (const path of SCREENS)
    routes.get(path, ({ request }) => respond(deps, request), { detail: { hide: true } });
  return routes;
};

/** Paths for programs; people reach them in a browser only through a program's link. */
const API_PATHS = /^\/(v1|api|x402|facilitator|health|assets|looks|\.well-known)(\/|$)/;

/** A mistyped address in a browser gets an HTML page with status 404. Must precede the error mapper, which responds to programs. */
export const unknownPageRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "unknown-pages" }).onError({ as: "global" }, ({ error, request }) => {
    if (!(error instanceof NotFoundError) || !["GET", "HEAD"].includes(request.method)) return undefined;
    const { pathname } = new URL(request.url);
    if (API_PATHS.test(pathname) || !wantsHtml(request)) return undefined;
    return sendPage(shell(deps, request, { isUnknown: true }), request, 404);
  });

/** Browsers accept HTML explicitly; API clients accept JSON, anything, or send no Accept header. */
function wantsHtml(request: Request): boolean {
  return /\btext\/html\b/i.test(request.headers.get("accept") ?? "");
}

function respond(deps: ApiDeps, request: Request): Response {
  return sendPage(shell(deps, request), request);
}

function shell({ assets, config }: ApiDeps, request: Request, { isUnknown = false } = {}): Html {
  const asked = new URL(request.url).searchParams.get("lang");
  const language = chooseLanguage(asked, request.headers.get("accept-language"));
  const messages = dashboardMessagesOf(language);
  const page = {
    // untranslated texts stay English
    language: messages ? language : "en",
    messages: messages ?? {},
    networks: config.chains.map(({ id, confirmations }) => {
      const { displayName, chainId, explorerUrl, isTestnet } = NETWORKS[id];
      return { id, name: displayName, chainId, explorerUrl, isTestnet, confirmations };
    }),
    serviceName: config.passkey.rpName,
    hasGoogle: config.google !== undefined,
    hasMailbox: config.testMode,
    hasTestWallet: config.testWallet !== undefined,
    isUnknown,
  };
  return html`<!doctype html>
<html lang="${page.language}" dir="${page.language === "ar" ? "rtl" : "ltr"}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${config.passkey.rpName}</title>
<meta name="robots" content="noindex">
<meta name="color-scheme" content="light dark">
<meta name="theme-color" media="(prefers-color-scheme: light)" content="#f5f6f8">
<meta name="theme-color" media="(prefers-color-scheme: dark)" content="#0b0d12">
<link rel="icon" href="${assets.pathOf("favicon.svg")}" type="image/svg+xml">
<link rel="stylesheet" href="${assets.pathOf("dashboard.css")}">
<script type="module" src="${assets.pathOf("dashboard.js")}"></script>
</head>
<body>
<div id="app"><main class="late"><h1>The dashboard did not load</h1><p>Check your connection and <a href="">try again</a>.</p></main></div>
<noscript>${isUnknown && html`<h1 class="without-script">404: there is no such page</h1>`}<p class="without-script">The dashboard needs JavaScript: passkeys sign in the browser. Everything it does is also in the <a href="/docs">API</a>.</p></noscript>
${jsonBlock("page", page)}
</body>
</html>`;
}
