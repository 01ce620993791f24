/** Serves the page for leaving on this machine only, over HTTPS and under any host name: a passkey signs only on the host it belongs to. */
import type { HostCertificate } from "./certificate.ts";

export type LeaveServer = { url: string; stop: () => Promise<void> };

const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-store",
  // the rest of the policy is in the page itself
  "content-security-policy": "frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/** Listens on the loopback interface. `port` 0 takes a free one. */
export function serveLeavePage(options: {
  host: string;
  port: number;
  page: string;
  certificate: Pick<HostCertificate, "chain" | "key">;
}): LeaveServer {
  const { host, port, page, certificate } = options;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port,
    tls: { cert: certificate.chain, key: certificate.key },
    fetch: ({ url }) =>
      new URL(url).pathname === "/"
        ? new Response(page, { headers: HEADERS })
        : new Response(null, { status: 404 }),
  });
  return { url: `https://${host}:${server.port}/`, stop: () => server.stop(true) };
}
