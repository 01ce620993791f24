/** Prometheus metrics of one process, served as text on a port of their own. */
import { collectDefaultMetrics, Registry } from "prom-client";

export type Metrics = { registry: Registry; close(): void };

/** Where metrics are served; not at all without a port; port 0 picks a free one. */
export type MetricsPlace = { readonly port: number | undefined; readonly host: string };

/** Opens the registry; with a port it also serves `GET /metrics`. */
export function openMetrics(processName: string, { port, host }: MetricsPlace): Metrics {
  const registry = new Registry();
  registry.setDefaultLabels({ process: processName });
  collectDefaultMetrics({ register: registry });
  if (port === undefined) return { registry, close: () => {} };
  const server = Bun.serve({
    port,
    hostname: host,
    routes: {
      "/metrics": async () =>
        new Response(await registry.metrics(), { headers: { "content-type": registry.contentType } }),
    },
    fetch: () => new Response("Not found", { status: 404 }),
  });
  return { registry, close: () => void server.stop(true) };
}
