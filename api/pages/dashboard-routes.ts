/**
 * The dashboard: one shell for all of its screens, whose script calls the API. The shell is the same for every visitor, since a navigation from
 * a mail or a chat carries no cookie (SameSite=Strict). `/` answers programs with JSON.
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

/** Under these, programs read the answers; a browser's user gets there by a link of a program. */
const API_PATHS = /^\/(v1|api|x402|facilitator|health|assets|looks|\.well-known)(\/|$)/;

/** A mistyped address in a browser is answered with a page, status 404. Stands before the error mapper, which answers programs. */
export const unknownPageRoutes = (deps: ApiDeps) =>
  new Elysia({ name: "unknown-pages" }).onError({ as: "global" }, ({ error, request }) => {
    if (!(error instanceof NotFoundError) || !["GET", "HEAD"].includes(request.method)) return undefined;
    const { pathname } = new URL(request.url);
    if (API_PATHS.test(pathname) || !wantsHtml(request)) return undefined;
    return sendPage(shell(deps, request, { isUnknown: true }), request, 404);
  });

/** Browsers name HTML; clients of an API name JSON, anything, or nothing. */
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
    // texts that are not translated yet are English
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
