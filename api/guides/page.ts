/**
 * The HTML document around a page: navigation, search, table of contents, previous and next page. Works without scripts, except for search and
 * copying.
 */
import { type Html, html } from "../pages/html.ts";
import type { DocsPage, Site } from "./site.ts";

export type DocsFiles = { style: string; script: string; icon: string };

const NOTABLE_LEVEL = 2;
const SECTIONS_MIN = 2;

export function renderDocsPage(site: Site, page: DocsPage, files: DocsFiles): Html {
  const order = [...site.guides, ...site.reference];
  const at = order.indexOf(page);
  return shell(files, {
    title: page.title,
    description: page.summary,
    markdown: `${page.path}.md`,
    navigation: navigation(site, page),
    contents: contents(page),
    body: html`<article>${{ html: page.html }}</article>${neighbours(order[at - 1], order[at + 1])}`,
  });
}

/** /docs itself: the overview. */
export function renderDocsHome(site: Site, files: DocsFiles): Html {
  const card = ({ path, title, summary }: DocsPage) =>
    html`<li><a href="${path}"><strong>${title}</strong><span>${summary}</span></a></li>`;
  return shell(files, {
    title: "Documentation",
    description: "Guides and reference of the payment API",
    markdown: "/llms.txt",
    navigation: navigation(site, undefined),
    contents: undefined,
    body: html`<article><h1>Documentation</h1>
<p class="lead">Take USDC on Base: payment links for people, x402 for programs, and every change as an event.</p>
<ul class="cards">${site.guides.map(card)}</ul>
<h2>API reference</h2>
<ul class="cards">${site.reference.map(card)}</ul></article>`,
  });
}

type Shell = {
  title: string;
  description: string;
  markdown: string;
  navigation: Html;
  contents: Html | undefined;
  body: Html;
};

function shell(files: DocsFiles, { title, description, markdown, navigation, contents, body }: Shell): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · USDC payments</title>
<meta name="description" content="${description}">
<meta name="color-scheme" content="light dark">
<meta name="theme-color" media="(prefers-color-scheme: light)" content="#f5f6f8">
<meta name="theme-color" media="(prefers-color-scheme: dark)" content="#0b0d12">
<link rel="icon" href="${files.icon}" type="image/svg+xml">
<link rel="alternate" href="${markdown}" type="text/markdown">
<link rel="stylesheet" href="${files.style}">
<script type="module" src="${files.script}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header><a class="home" href="/docs">USDC payments <span>Docs</span></a>
<div class="search" hidden><label class="hidden" for="search">Search the documentation</label><input id="search" type="search" placeholder="Search" autocomplete="off" spellcheck="false"><kbd aria-hidden="true">/</kbd><div class="results" hidden><p class="hidden" role="status"></p><ul></ul></div></div>
<a class="dashboard" href="/">Dashboard</a></header>
<div class="columns">
<details class="menu"><summary>Menu</summary>${navigation}</details>
<div class="side">${navigation}</div>
<main id="content">${body}
<footer><a href="${markdown}">This page as markdown</a><a href="/openapi.json">OpenAPI document</a></footer></main>
${contents}
</div>
</body>
</html>`;
}

function navigation(site: Site, current: DocsPage | undefined): Html {
  const item = (page: DocsPage) => {
    const mark = page === current ? html` aria-current="page"` : "";
    return html`<li><a href="${page.path}"${mark}>${page.title}</a></li>`;
  };
  return html`<nav aria-label="Documentation"><p>Guides</p><ul>${site.guides.map(item)}</ul><p>Reference</p><ul>${site.reference.map(item)}</ul></nav>`;
}

function contents({ sections }: DocsPage): Html | undefined {
  const listed = sections.filter(({ level }) => level === NOTABLE_LEVEL);
  if (listed.length < SECTIONS_MIN) return undefined;
  const items = listed.map(({ id, title }) => html`<li><a href="#${id}">${title}</a></li>`);
  return html`<nav class="contents" aria-label="On this page"><p>On this page</p><ul>${items}</ul></nav>`;
}

function neighbours(before: DocsPage | undefined, after: DocsPage | undefined): Html {
  const link = (page: DocsPage | undefined, name: string) =>
    page && html`<a class="${name}" href="${page.path}"><span>${name}</span>${page.title}</a>`;
  return html`<nav class="neighbours" aria-label="Pages before and after">${link(before, "Previous")}${link(after, "Next")}</nav>`;
}
