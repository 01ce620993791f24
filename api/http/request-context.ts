/**
 * What every request has before its route is known. `.use(requestContext(deps))` gives handlers
 *   requestId      from a sane `x-request-id`, else new
 *   log            a child logger that carries it
 *   clientAddress  the caller's address, TRUSTED_PROXIES honoured
 *   admission      who is signed in, filled by the `auth` macro (access.ts), which gives handlers `user`
 *   unreadBody     what is wrong with a body that cannot be read (json-body.ts), thrown once the caller is admitted and counted
 * and gives every response its headers and every request a log line when it ends.
 */
import { Elysia } from "elysia";
import type { ServiceError } from "../../core/domain/errors.ts";
import { newRequestId } from "../../core/domain/ids.ts";
import type { Caller } from "./caller.ts";
import { behalfOf, clientAddressOf, untrustedProxyOf } from "./client-address.ts";
import type { ApiDeps } from "./deps.ts";
import { oncePer } from "./memoize-per-key.ts";
import { openRequestMetrics } from "./request-metrics.ts";
import { apiHeaders } from "./security-headers.ts";
import { endRequestSpan } from "./trace-requests.ts";

export type Admission = { caller?: Caller };

const SANE_REQUEST_ID = /^[A-Za-z0-9._:-]{8,100}$/;

export const requestContext = oncePer(({ config, log, metrics, drain }: ApiDeps) => {
  const headers = Object.entries(apiHeaders(config.nodeEnv === "production"));
  const observe = openRequestMetrics(metrics.registry);
  // The request line has fixed fields without secrets; redaction costs ten times the line.
  const requestLines = log.child({}, { redact: [] });
  let isProxyReported = !config.rateLimits;
  const reportUntrustedProxy = (peer: string | undefined, forwardedFor: string | null) => {
    const proxy = untrustedProxyOf(peer, forwardedFor, config.trustedProxies);
    if (proxy === undefined) return;
    isProxyReported = true;
    log.warn(
      { proxy },
      "X-Forwarded-For is ignored: TRUSTED_PROXIES does not name its sender, whose callers all share one rate limit",
    );
  };
  return new Elysia({ name: "request-context" })
    .decorate({
      requestId: "",
      startedMs: 0,
      clientAddress: "unknown",
      log,
      admission: {} as Admission,
      unreadBody: undefined as ServiceError | undefined,
    })
    .onRequest((context) => {
      const { request, set, server } = context;
      const given = request.headers.get("x-request-id");
      const requestId = given && SANE_REQUEST_ID.test(given) ? given : newRequestId();
      context.requestId = requestId;
      context.startedMs = performance.now();
      context.admission = {};
      // Created on first use: most requests log nothing else.
      Object.defineProperty(context, "log", { get: () => log.child({ requestId }) });
      const peer = server?.requestIP(request)?.address;
      const forwardedFor = request.headers.get("x-forwarded-for");
      if (!isProxyReported) reportUntrustedProxy(peer, forwardedFor);
      context.clientAddress = behalfOf(request) ?? clientAddressOf(peer, forwardedFor, config.trustedProxies);
      set.headers["x-request-id"] = requestId;
      for (const [name, value] of headers) set.headers[name] = value;
      if (drain.isDraining) set.headers.connection = "close";
    })
    .onAfterResponse(
      { as: "global" },
      ({ request, route, set, responseValue, requestId, admission, startedMs }) => {
        const status = responseValue instanceof Response ? responseValue.status : Number(set.status ?? 200);
        const ms = performance.now() - startedMs;
        const pattern = route ?? "unmatched";
        observe(request.method, pattern, status, ms);
        endRequestSpan(request, {
          method: request.method,
          route: pattern,
          status,
          ids: { "request.id": requestId },
        });
        requestLines.info(
          {
            requestId,
            method: request.method,
            route: pattern,
            status,
            ms: Math.round(ms * 10) / 10,
            ...(admission.caller ? { userId: admission.caller.user.id } : {}),
          },
          "request",
        );
      },
    );
});
