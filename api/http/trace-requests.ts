/** A span for each request, in the caller's trace when it names one (`traceparent`, W3C Trace Context). */
import type { AnyElysia } from "elysia";
import { isTracing, runInSpan, type Span, type SpanAttributes, startSpan } from "../../core/tracing/spans.ts";

const spans = new WeakMap<Request, Span>();

/** Wraps every route added afterwards; without an exporter it does nothing. */
export function traceRequests(app: AnyElysia): AnyElysia {
  if (!isTracing()) return app;
  return app.wrap((handle) => (request: Request) => {
    const parent = request.headers.get("traceparent") ?? undefined;
    const span = startSpan(request.method, { kind: "server", parent });
    if (span) spans.set(request, span);
    return runInSpan(span, () => handle(request));
  });
}

/** Only ids and patterns: a path contains link ids, and a query may contain a person's search. */
export function endRequestSpan(
  request: Request,
  { method, route, status, ids }: { method: string; route: string; status: number; ids: SpanAttributes },
): void {
  const span = spans.get(request);
  if (!span) return;
  span.setName(`${method} ${route}`);
  span.setAttributes({
    "http.request.method": method,
    "http.route": route,
    "http.response.status_code": status,
    ...ids,
  });
  span.end(status >= 500 ? `${status}` : undefined);
}
