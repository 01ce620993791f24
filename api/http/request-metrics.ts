/** Request counts and durations by route pattern, for the metrics port. */
import { Histogram, type Registry } from "prom-client";

const BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];

export type ObserveRequest = (method: string, route: string, status: number, ms: number) => void;

export function openRequestMetrics(registry: Registry): ObserveRequest {
  const histogram = new Histogram({
    name: "http_request_duration_seconds",
    help: "Time from the first byte of a request to its response, by route pattern",
    labelNames: ["method", "route", "status"] as const,
    buckets: BUCKETS_S,
    registers: [registry],
  });
  return (method, route, status, ms) => histogram.observe({ method, route, status }, ms / 1_000);
}
