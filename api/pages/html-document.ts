/** The HTML document that all pages for people share, and the headers it is sent with. */

import type { Language } from "../../core/domain/language.ts";
import { PAGE_POLICY } from "../http/page-policy.ts";
import { embedQuery } from "./embed-origin.ts";
import type { ForeignOrigins, FurtherWallets } from "./further-wallets.ts";
import { type Html, html } from "./html.ts";
import { LANGUAGES, type PageTexts } from "./page-texts.ts";

const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-store",
  vary: "accept-language, accept-encoding",
  "content-security-policy": PAGE_POLICY,
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  // `same-origin` would cut a wallet's popup off from the page that opened it
  "cross-origin-opener-policy": "same-origin-allow-popups",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy":
    "camera=(), microphone=(), geolocation=(), publickey-credentials-get=(self), publickey-credentials-create=(self), clipboard-write=(self)",
};

export type PageFiles = {
  style: string;
  script: string;
  icon: string;
  preview: string;
  furtherWallets: FurtherWallets | undefined;
  testWallet: string | undefined;
};

export type PageContent = {
  title: string;
  description: string;
  url: string;
  body: Html;
  /** Without it the page is plain text. */
  data?: Html | undefined;
  branding?: Branding | undefined;
  /** Wallets outside the browser may pay here. */
  hasFurtherWallets?: boolean;
  /** Seconds after which a page without script reloads. */
  refreshS?: number | undefined;
  /** The name of the shop, in every language. */
  shopOrigin?: string | undefined;
};

/** The branding of the merchant whose page it is. */
export type Branding = { accent: string | null; logoDigest: string | null };

export type PageOptions = {
  hasForm?: boolean;
  /** The only origin whose pages may show it in a frame or popup; checked against the merchant's list. */
  shopOrigin?: string | undefined;
  foreignOrigins?: ForeignOrigins | undefined;
};

function headersOf({ hasForm = false, shopOrigin, foreignOrigins }: PageOptions): Record<string, string> {
  let policy = PAGE_POLICY;
  if (hasForm) policy = policy.replace("form-action 'none'", "form-action 'self'");
  if (foreignOrigins) {
    const { connect, frame } = foreignOrigins;
    policy = policy.replace("connect-src 'self'", ["connect-src 'self'", ...connect].join(" "));
    if (frame.length > 0) policy += `; frame-src ${frame.join(" ")}`;
  }
  if (shopOrigin === undefined) return { ...PAGE_HEADERS, "content-security-policy": policy };
  // x-frame-options cannot allow another origin: where a shop may frame the page, only frame-ancestors says so
  const { "x-frame-options": _, ...headers } = PAGE_HEADERS;
  return {
    ...headers,
    "content-security-policy": policy.replace("frame-ancestors 'none'", `frame-ancestors ${shopOrigin}`),
    // the page that opened a popup receives its messages
    "cross-origin-opener-policy": "unsafe-none",
    "cross-origin-resource-policy": "cross-origin",
  };
}

/** Compressed when the request takes gzip. */
export function sendPage(page: Html, request: Request, status = 200, options: PageOptions = {}): Response {
  const headers = headersOf(options);
  if (!/\bgzip\b/.test(request.headers.get("accept-encoding") ?? ""))
    return new Response(page.html, { status, headers });
  const body = Bun.gzipSync(page.html);
  return new Response(body, { status, headers: { ...headers, "content-encoding": "gzip" } });
}

export function renderDocument(texts: PageTexts, files: PageFiles, content: PageContent): Html {
  const { title, description, url, body, data, branding, refreshS, shopOrigin } = content;
  return html`<!doctype html>
<html lang="${texts.language}" dir="${texts.direction}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<meta name="description" content="${description}">
<meta name="robots" content="noindex">
<meta name="color-scheme" content="light dark">
<meta name="theme-color" media="(prefers-color-scheme: light)" content="#f5f6f8">
<meta name="theme-color" media="(prefers-color-scheme: dark)" content="#0b0d12">
<meta property="og:type" content="website">
<meta property="og:title" content="${title}">
<meta property="og:description" content="${description}">
<meta property="og:url" content="${url}">
<meta property="og:image" content="${files.preview}">
<meta property="og:image:width" content="1200">
<meta property="og:image:height" content="630">
<meta name="twitter:card" content="summary_large_image">
${refreshS === undefined ? "" : data ? html`<noscript>${refreshTag(refreshS)}</noscript>` : refreshTag(refreshS)}
<link rel="icon" href="${files.icon}" type="image/svg+xml">
<link rel="stylesheet" href="${files.style}">
${branding?.accent && html`<link rel="stylesheet" href="/looks/${branding.accent.slice(1)}.css">`}
${data && html`<script type="module" src="${files.script}"></script>`}
${content.hasFurtherWallets && html`<script type="module" src="${files.furtherWallets?.script}"></script>`}
${data && files.testWallet && html`<script type="module" src="${files.testWallet}"></script>`}
</head>
<body>
${body}
${languageMenu(texts, url, shopOrigin)}
${data}
</body>
</html>`;
}

function refreshTag(seconds: number): Html {
  return html`<meta http-equiv="refresh" content="${seconds}">`;
}

/** Longer amounts are set in a smaller size. */
const AMOUNT_CHARS = 10;

/** A link's amount as its page's heading. */
export function amountHeading(amount: string, summary: string): Html {
  const size = amount.length > AMOUNT_CHARS && html` class="long"`;
  return html`<h1${size} aria-label="${summary}"><bdi>${amount}</bdi> <span class="unit">USDC</span></h1>`;
}

/** The logo, or the name's first letter; the name itself is next to it. */
export function merchantMark({ logoDigest }: Branding, name: string): Html {
  const [letter = ""] = name.toUpperCase();
  return logoDigest === null
    ? html`<span class="avatar" aria-hidden="true">${letter}</span>`
    : html`<img class="avatar logo" src="/looks/${logoDigest}.png" alt="" width="40" height="40">`;
}

function languageMenu(texts: PageTexts, url: string, shopOrigin: string | undefined): Html {
  const tags = Object.keys(LANGUAGES) as Language[];
  const items = tags.map((tag) => {
    const current = tag === texts.language ? html` aria-current="true"` : "";
    return html`<a href="${url}?lang=${tag}${embedQuery(shopOrigin)}" lang="${tag}" hreflang="${tag}"${current}>${LANGUAGES[tag].name}</a>`;
  });
  return html`<details class="languages"><summary><span class="hidden">${texts.say("language")}: </span>${LANGUAGES[texts.language].name}</summary><nav aria-label="${texts.say("language")}">${items}</nav></details>`;
}
