/** Prometheus metrics of one process, served as text on a separate port. */
import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { listenAt } from "./listen.ts";
import { type DiskSpace, readDiskSpace } from "./machine-limits.ts";

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

/** Of the folder the process runs in, read at each scrape. Omitted where the system gives none: 0 would mean a full disk. */
export function openDiskMetrics(registry: Registry, folder = process.cwd()): void {
  const open = (name: string, help: string, read: (space: DiskSpace) => number) =>
    new Gauge({
      ...{ name, help },
      registers: [registry],
      collect() {
        const space = readDiskSpace(folder);
        // without labels the library begins with 0, which would be a value
        if (space) this.set(read(space));
        else this.remove({});
      },
    });
  open("machine_disk_total_bytes", "Size of the process's disk", ({ totalBytes }) => totalBytes);
  open("machine_disk_free_bytes", "Free space on the process's disk", ({ freeBytes }) => freeBytes);
}
