/**
 * Spans of a process's work, and the trace that each belongs to (W3C Trace Context). Without an exporter every function here only calls
 * its callback.
 */
import { AsyncLocalStorage } from "node:async_hooks";

export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

export type Span = {
  /** `00-<trace id>-<span id>-<flags>`: names the parent of a span in another process. */
  readonly traceparent: string;
  setName(name: string): void;
  setAttributes(attributes: SpanAttributes): void;
  /** With an error the span counts as failed. `endMs`: Unix time, if it ended in the past. */
  end(error?: unknown, endMs?: number): void;
};

export type SpanOptions = {
  kind?: "server" | "consumer" | "client" | "internal";
  attributes?: SpanAttributes;
  /** A traceparent; absent: the current span. Anything malformed starts a new trace. */
  parent?: string | undefined;
  startMs?: number;
};

export type Tracer = { start(name: string, options: SpanOptions): Span };

let tracer: Tracer | undefined;
const current = new AsyncLocalStorage<Span>();

/** Called once when a process that exports its traces starts, and with undefined when it stops. */
export function useTracer(opened: Tracer | undefined): void {
  tracer = opened;
}

export function isTracing(): boolean {
  return tracer !== undefined;
}

export function startSpan(name: string, options: SpanOptions = {}): Span | undefined {
  return tracer?.start(name, { ...options, parent: options.parent ?? currentTraceparent() });
}

/** Runs `work` inside the span; the caller ends it. */
export function runInSpan<T>(span: Span | undefined, work: () => T): T {
  return span ? current.run(span, work) : work();
}

/** Runs `work` in a span of its own, which fails when `work` throws. */
export async function traced<T>(name: string, options: SpanOptions, work: () => Promise<T>): Promise<T> {
  const span = startSpan(name, options);
  if (!span) return work();
  try {
    const result = await current.run(span, work);
    span.end();
    return result;
  } catch (error) {
    span.end(error);
    throw error;
  }
}

/** Of the current span; undefined without one. */
export function currentTraceparent(): string | undefined {
  return tracer && current.getStore()?.traceparent;
}

/** Ids only, no personal data. */
export function annotateSpan(attributes: SpanAttributes): void {
  if (tracer) current.getStore()?.setAttributes(attributes);
}
