/** Prometheus metrics of one process, served as text on its own port on loopback unless METRICS_HOST says otherwise. */
import { collectDefaultMetrics, Registry } from "prom-client";

export type Metrics = { registry: Registry; close(): void };

/** Opens the registry; with a port it also serves `GET /metrics`. Port 0 picks a free one. */
export function openMetrics(processName: string, port: number | undefined, hostname = "127.0.0.1"): Metrics {
  const registry = new Registry();
  registry.setDefaultLabels({ process: processName });
  collectDefaultMetrics({ register: registry });
  if (port === undefined) return { registry, close: () => {} };
  const server = Bun.serve({
    port,
    hostname,
    routes: {
      "/metrics": async () =>
        new Response(await registry.metrics(), { headers: { "content-type": registry.contentType } }),
    },
    fetch: () => new Response("Not found", { status: 404 }),
  });
  return { registry, close: () => void server.stop(true) };
}
