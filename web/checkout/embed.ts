/** Reports to the shop that embeds this page in a frame or opened its window. The server has checked that origin. */
import { type Link, page } from "./page-data.ts";

const isFramed = window.parent !== window;
const shop: Window | null = isFramed ? window.parent : window.opener;

function send(message: Record<string, unknown>): void {
  if (page.shopOrigin) shop?.postMessage({ type: "usdc-payment", ...message }, page.shopOrigin);
}

export function reportStatus({ linkId, status, transactionHash }: Link): void {
  send({ linkId, status, transactionHash });
}

/** The frame gets the height of its content, so that it needs no scroll bars. */
export function reportHeight(): void {
  if (!page.shopOrigin || !isFramed) return;
  new ResizeObserver(() => send({ height: document.documentElement.scrollHeight })).observe(document.body);
}
