/** The guides in reading order. They are files in docs/guides; a page that is not listed here is not served. */
import agents from "../../docs/guides/agents.md" with { type: "text" };
import authentication from "../../docs/guides/authentication.md" with { type: "text" };
import checkout from "../../docs/guides/checkout.md" with { type: "text" };
import events from "../../docs/guides/events.md" with { type: "text" };
import exports from "../../docs/guides/exports.md" with { type: "text" };
import idempotency from "../../docs/guides/idempotency.md" with { type: "text" };
import pagination from "../../docs/guides/pagination.md" with { type: "text" };
import paymentLinks from "../../docs/guides/payment-links.md" with { type: "text" };
import quickStart from "../../docs/guides/quick-start.md" with { type: "text" };
import testMode from "../../docs/guides/test-mode.md" with { type: "text" };
import versions from "../../docs/guides/versions.md" with { type: "text" };
import webhooks from "../../docs/guides/webhooks.md" with { type: "text" };
import x402Buyers from "../../docs/guides/x402-buyers.md" with { type: "text" };
import x402Sellers from "../../docs/guides/x402-sellers.md" with { type: "text" };
import { renderErrors } from "./errors-page.ts";

export type Guide = { slug: string; markdown: string };

/** The placeholder in the files for the service's own URL. */
export const EXAMPLE_ORIGIN = "https://pay.example.com";
/** Blocks that only the samples test runs. */
const HIDDEN = /^<!--[\s\S]*?-->\n+/gm;

const FILES: readonly Guide[] = [
  { slug: "quick-start", markdown: quickStart },
  { slug: "authentication", markdown: authentication },
  { slug: "payment-links", markdown: paymentLinks },
  { slug: "checkout", markdown: checkout },
  { slug: "x402-buyers", markdown: x402Buyers },
  { slug: "x402-sellers", markdown: x402Sellers },
  { slug: "agents", markdown: agents },
  { slug: "webhooks", markdown: webhooks },
  { slug: "events", markdown: events },
  { slug: "idempotency", markdown: idempotency },
  { slug: "pagination", markdown: pagination },
  { slug: "errors", markdown: renderErrors() },
  { slug: "exports", markdown: exports },
  { slug: "test-mode", markdown: testMode },
  { slug: "versions", markdown: versions },
];

/** As shown to readers: without the blocks that only tests run. */
export function listGuides(): Guide[] {
  return FILES.map(({ slug, markdown }) => ({
    slug,
    markdown: `${markdown.replaceAll(HIDDEN, "").trim()}\n`,
  }));
}
