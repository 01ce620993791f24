import { Gauge, type Registry } from "prom-client";

export type Reading = { labels: Record<string, string>; value: number };

/** A gauge read from the database at each scrape. It is omitted when the read fails: other metrics matter most while the database is unavailable. */
export function openGauge(
  registry: Registry,
  {
    read,
    ...described
  }: { name: string; help: string; labelNames: string[]; read: () => Promise<Reading[]> },
): void {
  new Gauge({
    ...described,
    registers: [registry],
    async collect() {
      const readings = await read().catch(() => []);
      this.reset();
      // without labels the library resets to 0, which would be a value
      if (described.labelNames.length === 0) this.remove({});
      for (const { labels, value } of readings) this.set(labels, value);
    },
  });
}
