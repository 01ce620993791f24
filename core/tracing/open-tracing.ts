/** Opens the OpenTelemetry exporter (OTLP over HTTP, protobuf) when an endpoint is set. Its packages are loaded only then. */
import { useTracer } from "./spans.ts";

export type TracesPlace = {
  /** Base URL of a collector, as OTEL_EXPORTER_OTLP_ENDPOINT; undefined: no traces. */
  readonly endpoint: string | undefined;
  /** Of traces that start here; one that started elsewhere is exported if its caller sampled it. */
  readonly sampledShare: number;
};

export type Tracing = { close(): Promise<void> };

export async function openTracing(
  processName: string,
  { endpoint, sampledShare }: TracesPlace,
): Promise<Tracing> {
  if (endpoint === undefined) return { close: async () => {} };
  const { openExporter } = await import("./otlp-exporter.ts");
  const { tracer, close } = openExporter(processName, { endpoint, sampledShare });
  useTracer(tracer);
  return {
    async close() {
      useTracer(undefined);
      await close();
    },
  };
}
