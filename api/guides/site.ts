/** All pages under /docs: the guides, then the reference. Built once, on the first request. */
import type { OpenApiDocument } from "../http/openapi-document.ts";
import { EXAMPLE_ORIGIN, type Guide, listGuides } from "./guides.ts";
import { renderReference } from "./reference.ts";
import { type Rendered, renderMarkdown } from "./render.ts";

export type DocsPage = Guide & Rendered & { path: string };
export type SearchEntry = { path: string; page: string; title: string; text: string };
export type Site = {
  /** By path under /docs, without a slash. */
  pages: ReadonlyMap<string, DocsPage>;
  guides: readonly DocsPage[];
  reference: readonly DocsPage[];
  search: readonly SearchEntry[];
  llms: string;
};

/** Characters per section in the search index: enough to find it by its words. */
const SEARCH_CHARS = 900;

export function buildSite(document: OpenApiDocument, baseUrl: string): Site {
  const toPage = ({ slug, markdown: text }: Guide): DocsPage => {
    // recorded examples contain another origin, too
    const markdown = text.replaceAll(EXAMPLE_ORIGIN, baseUrl);
    return { slug, markdown, ...renderMarkdown(markdown), path: `/docs/${slug}` };
  };
  const guides = listGuides().map(toPage);
  const reference = renderReference(document).map(toPage);
  const all = [...guides, ...reference];
  return {
    pages: new Map(all.map((page) => [page.slug, page])),
    guides,
    reference,
    search: all.flatMap(entriesOf),
    llms: renderLlms(guides, reference, baseUrl),
  };
}

function entriesOf({ path, title: page, sections }: DocsPage): SearchEntry[] {
  return sections.map(({ id, title, level, text }) => ({
    path: level === 1 ? path : `${path}#${id}`,
    page,
    title,
    text: text.slice(0, SEARCH_CHARS),
  }));
}

/** https://llmstxt.org: an overview with links to the markdown pages. */
function renderLlms(guides: readonly DocsPage[], reference: readonly DocsPage[], baseUrl: string): string {
  const line = ({ title, path, summary }: DocsPage) => `- [${title}](${baseUrl}${path}.md): ${summary}`;
  return `# USDC payment service

> Non-custodial USDC payments on Base: payment links that people pay from a wallet and agents pay by x402 without gas, with webhooks, events, receipts and exports.

Base URL: ${baseUrl}. Programs authenticate with \`Authorization: Bearer sk_…\`. The OpenAPI 3.1 document is ${baseUrl}/openapi.json.

## Guides

${guides.map(line).join("\n")}

## Reference

${reference.map(line).join("\n")}
`;
}
