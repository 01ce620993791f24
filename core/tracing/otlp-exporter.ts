/** Spans by the OpenTelemetry SDK. Imported dynamically, by open-tracing.ts alone. */
import {
  isSpanContextValid,
  type Span as OtelSpan,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { defaultResource, resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Span, SpanOptions, Tracer } from "./spans.ts";

/** A collector that does not respond must not delay a process's shutdown any longer. */
const EXPORT_TIMEOUT_MS = 3_000;
const EXPORT_DELAY_MS = 1_000;
/** Further spans are dropped while the collector is unavailable, so that traces use bounded memory. */
const SPANS_WAITING_MAX = 4_096;

const KINDS = {
  server: SpanKind.SERVER,
  consumer: SpanKind.CONSUMER,
  client: SpanKind.CLIENT,
  internal: SpanKind.INTERNAL,
};

export function openExporter(
  processName: string,
  { endpoint, sampledShare }: { endpoint: string; sampledShare: number },
): { tracer: Tracer; close(): Promise<void> } {
  const exporter = new OTLPTraceExporter({
    url: `${endpoint.replace(/\/+$/, "")}/v1/traces`,
    timeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const provider = new TracerProvider({
    resource: defaultResource().merge(
      resourceFromAttributes({ "service.name": `usdc-payments-${processName}`, "process.pid": process.pid }),
    ),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(sampledShare) }),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter,
        scheduledDelayMillis: EXPORT_DELAY_MS,
        exportTimeoutMillis: EXPORT_TIMEOUT_MS,
        maxQueueSize: SPANS_WAITING_MAX,
      }),
    ],
  });
  const sdk = provider.getTracer("usdc-payment-service");
  const start = (
    name: string,
    { kind = "internal", attributes = {}, parent, startMs }: SpanOptions,
  ): Span => {
    const context = parseTraceparent(parent);
    return wrap(
      sdk.startSpan(
        name,
        { kind: KINDS[kind], attributes, ...(startMs === undefined ? {} : { startTime: startMs }) },
        context ? trace.setSpanContext(ROOT_CONTEXT, context) : ROOT_CONTEXT,
      ),
    );
  };
  return { tracer: { start }, close: () => provider.shutdown() };
}

function wrap(span: OtelSpan): Span {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`,
    setName: (name) => void span.updateName(name),
    setAttributes: (attributes) => void span.setAttributes(attributes),
    end(error, endMs) {
      if (error !== undefined) {
        span.setStatus({ code: SpanStatusCode.ERROR, message: nameOf(error) });
        span.setAttribute("error.type", nameOf(error));
      }
      span.end(endMs);
    },
  };
}

/** Never the message, which may quote a caller's input. */
function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/;

/** W3C Trace Context, level 1; undefined for anything malformed and for all-zero ids. */
function parseTraceparent(text: string | undefined): SpanContext | undefined {
  const [, traceId = "", spanId = "", flags = ""] = TRACEPARENT.exec(text ?? "") ?? [];
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
  return isSpanContextValid(context) ? context : undefined;
}
