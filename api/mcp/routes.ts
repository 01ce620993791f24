/**
 * MCP over streamable HTTP, without sessions: each request gets its own server, so any API process can handle it. Its tools call
 * the routes of this app with the caller's API key, so the routes' scopes, limits and checks apply.
 */
import { type AnyElysia, Elysia } from "elysia";
import { z } from "zod";
import { ServiceError } from "../../core/domain/errors.ts";
import { type AuthRule, access } from "../http/access.ts";
import { requestOnBehalfOf } from "../http/client-address.ts";
import { refuseForeignOrigin } from "../http/csrf.ts";
import type { ApiDeps } from "../http/deps.ts";
import { documentedResponses } from "../http/documented-responses.ts";
import { errorResponses } from "../http/envelope.ts";
import { openStreamSlots } from "../http/event-stream.ts";
import { MCP_KEEP_ALIVE_MS, serveMcp } from "./serve.ts";

const mayUse = { allow: ["apiKey"], needs: "self", scope: "any" } as const satisfies AuthRule;
const slots = openStreamSlots("mcp");
const MESSAGES_MAX = 20;

const message = z.looseObject({ jsonrpc: z.literal("2.0") }).meta({ id: "JsonRpcMessage" });
const body = z
  .union([message, z.array(message).min(1).max(MESSAGES_MAX)])
  .describe("One or more JSON-RPC messages of the Model Context Protocol");

/** `app` is resolved per request: by then every feature is mounted. */
export const mcpRoutes = (deps: ApiDeps, app: () => AnyElysia) =>
  new Elysia({ name: "mcp-routes" }).use(access(deps)).post(
    "/mcp",
    async ({ request, body, set, caller, clientAddress, requestId }) => {
      refuseForeignOrigin(request, deps.config);
      const release = slots.reserve(caller.actorId);
      if (!release)
        throw new ServiceError("RATE_LIMITED", "Too many concurrent MCP calls", {
          headers: { "retry-after": "5" },
        });
      const authorization = request.headers.get("authorization") ?? "";
      const inner = (url: string | URL, init?: RequestInit) => {
        const headers = new Headers(init?.headers);
        headers.set("authorization", authorization);
        headers.set("x-request-id", requestId);
        return app().handle(requestOnBehalfOf(new Request(String(url), { ...init, headers }), clientAddress));
      };
      const answer = await serveMcp(request, {
        body,
        baseUrl: deps.config.baseUrl,
        fetch: inner as typeof fetch,
        closing: deps.drain.closing,
        onEnd: release,
      });
      const headers = new Headers(set.headers as Record<string, string>);
      for (const [name, value] of answer.headers) if (name !== "connection") headers.set(name, value);
      return new Response(answer.body, { status: answer.status, headers });
    },
    {
      auth: mayUse,
      body,
      detail: {
        operationId: "callMcp",
        summary: "The tools of this service for agents (Model Context Protocol, streamable HTTP)",
        description: `Responds with an event stream; a waiting call sends a comment at least every ${MCP_KEEP_ALIVE_MS / 1_000} seconds. Stateless. The tools need the scopes of the routes that they call.`,
        tags: ["Agents"],
        responses: documentedResponses({
          200: {
            mediaTypes: ["text/event-stream", "application/json"],
            description: "JSON-RPC responses and progress notifications",
          },
          202: { mediaTypes: ["text/plain"], description: "Notifications accepted; no response body" },
          400: {
            mediaTypes: ["application/json"],
            description: "Not JSON-RPC: a JSON-RPC error or an `ApiError`",
          },
          ...errorResponses(401, 403, 413, 429),
          406: { mediaTypes: ["application/json"], description: "`Accept` lacks JSON or the event stream" },
        }),
      },
    },
  );
