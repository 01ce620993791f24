/**
 * Serves the operator's page `GET /ops` on the metrics port, to everyone who can reach METRICS_HOST (by default this machine alone).
 * Without the database the page says so.
 */
import { renderStatusPage } from "./page.ts";
import type { ServiceStatus } from "./status.ts";

const READ_TIMEOUT_MS = 3_000;
const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-store",
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/** `read`: the figures. `servedBy`: the process that answers. */
export function statusPage(servedBy: string, read: () => Promise<ServiceStatus>): () => Promise<Response> {
  return async () => {
    const status = await Promise.race([
      read().catch(() => undefined),
      Bun.sleep(READ_TIMEOUT_MS).then(() => undefined),
    ]);
    return new Response(renderStatusPage(status, servedBy, new Date()), { headers: HEADERS });
  };
}
