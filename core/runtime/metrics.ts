/** Prometheus metrics of one process, served as text on a separate port. */
import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { listenAt } from "./listen.ts";
import { readDiskSpace } from "./machine-limits.ts";

export type Metrics = {
  registry: Registry;
  /** Serves an additional page on the same port. */
  addPage(path: string, answer: () => Promise<Response>): void;
  close(): void;
};

/** Where metrics are served; not at all without a port; port 0 picks a free one. */
export type MetricsPlace = { readonly port: number | undefined; readonly host: string };

/** Sampling interval of the event loop's delay. Each sample wakes the process: at the default of 10 ms an idle one took 0.5 % of a core. */
const DELAY_SAMPLE_MS = 100;

/** Opens the registry; with a port it also serves `GET /metrics`. */
export function openMetrics(processName: string, { port, host }: MetricsPlace): Metrics {
  const registry = new Registry();
  registry.setDefaultLabels({ process: processName });
  if (port === undefined) return { registry, addPage: () => {}, close: () => {} };
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: DELAY_SAMPLE_MS });
  openDiskMetrics(registry);
  const pages = new Map<string, () => Promise<Response>>();
  const server = listenAt({ names: "METRICS_HOST, METRICS_PORT", host, port }, () =>
    Bun.serve({
      port,
      hostname: host,
      routes: {
        "/metrics": async () =>
          new Response(await registry.metrics(), { headers: { "content-type": registry.contentType } }),
      },
      fetch: async (request) =>
        (await pages.get(new URL(request.url).pathname)?.()) ?? new Response("Not found", { status: 404 }),
    }),
  );
  return {
    registry,
    addPage: (path, answer) => void pages.set(path, answer),
    close: () => void server.stop(true),
  };
}

/** Counts reads of lists and exports by who served them: `replica`, or why the primary did. */
export function openReadMetrics(registry: Registry): (source: string) => void {
  const reads = new Counter({
    name: "database_reads_total",
    help: "Reads of lists and exports that a replica may serve: by the replica, or the reason why by the primary",
    labelNames: ["source"],
    registers: [registry],
  });
  return (source) => reads.inc({ source });
}

/** Of the folder the process runs in, each read by itself: in which order they are collected is not known. None where the system gives none. */
function openDiskMetrics(registry: Registry): void {
  const registers = [registry];
  new Gauge({
    name: "machine_disk_total_bytes",
    help: "Size of the process's disk",
    registers,
    collect() {
      const space = readDiskSpace(process.cwd());
      if (space) this.set(space.totalBytes);
    },
  });
  new Gauge({
    name: "machine_disk_free_bytes",
    help: "Free space on the process's disk",
    registers,
    collect() {
      const space = readDiskSpace(process.cwd());
      if (space) this.set(space.freeBytes);
    },
  });
}
