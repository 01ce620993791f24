/** A span for each request, in the caller's trace when it names one (`traceparent`, W3C Trace Context). */
import type { AnyElysia } from "elysia";
import { isTracing, runInSpan, type Span, type SpanAttributes, startSpan } from "../../core/tracing/spans.ts";

const spans = new WeakMap<Request, Span>();

/** Around every route that is added afterwards; without an exporter the app stays as it is. */
export function traceRequests(app: AnyElysia): AnyElysia {
  if (!isTracing()) return app;
  return app.wrap((handle) => (request: Request) => {
    const parent = request.headers.get("traceparent") ?? undefined;
    const span = startSpan(request.method, { kind: "server", parent });
    if (span) spans.set(request, span);
    return runInSpan(span, () => handle(request));
  });
}

/** Ids and patterns only: a path holds ids of links, a query may hold a person's search. */
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
