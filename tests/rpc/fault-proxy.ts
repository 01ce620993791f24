/** A node's URL that misbehaves on order: everything it does not spoil is answered by the real node behind it. */
import { passAnnouncements } from "../support/announcements.ts";

export type ProxiedCall = { readonly id: number; readonly method: string; readonly params: unknown[] };
export type Fault =
  | {
      readonly kind: "status";
      readonly status: number;
      readonly headers?: Record<string, string>;
      readonly body?: string;
    }
  | { readonly kind: "hang" }
  | { readonly kind: "error"; readonly code: number; readonly message: string; readonly data?: unknown }
  /** Answered without asking the node. */
  | { readonly kind: "reply"; readonly reply: (call: ProxiedCall) => unknown }
  /** `ask`: what the node is asked in place of a call. */
  | {
      readonly kind: "edit";
      readonly ask?: (call: ProxiedCall) => ProxiedCall;
      readonly edit: (answer: unknown) => unknown;
    };

export type FaultProxy = {
  readonly url: string;
  /** Methods asked for, in order, and the HTTP requests they came in. */
  readonly methods: string[];
  requests: number;
  lastHeaders: Headers;
  /** Called for every HTTP request; undefined lets it through. */
  fault: (calls: readonly ProxiedCall[]) => Fault | undefined;
  /** Called with every HTTP request that is let through: its answer waits for this. */
  delay: (calls: readonly ProxiedCall[]) => Promise<void> | undefined;
  stop: () => Promise<void>;
};

/**
 * Listens on 127.0.0.1, on any free port unless one is given. With `hasWebSocket` blocks are announced, whatever the faults of requests;
 * without it, an indexer reads them at its next poll.
 */
export function startFaultProxy(
  nodeUrl: string,
  { port = 0, hasWebSocket = false }: { port?: number; hasWebSocket?: boolean } = {},
): FaultProxy {
  const server = Bun.serve({
    port,
    hostname: "127.0.0.1",
    idleTimeout: 60,
    websocket: passAnnouncements(nodeUrl),
    async fetch(request, running) {
      if (hasWebSocket && running.upgrade(request)) return undefined;
      if (request.method !== "POST") return new Response("this node speaks HTTP POST only", { status: 404 });
      const body = await request.text();
      const parsed: unknown = JSON.parse(body);
      const calls = (Array.isArray(parsed) ? parsed : [parsed]) as ProxiedCall[];
      proxy.requests += 1;
      proxy.lastHeaders = request.headers;
      proxy.methods.push(...calls.map(({ method }) => method));
      const fault = proxy.fault(calls);
      if (fault?.kind === "hang") return new Promise<Response>(() => {});
      if (fault?.kind === "status") {
        return new Response(fault.body ?? "", { status: fault.status, headers: fault.headers ?? {} });
      }
      if (fault?.kind === "error") {
        const { kind: _, ...error } = fault;
        const answers = calls.map(({ id }) => ({ jsonrpc: "2.0", id, error }));
        return Response.json(Array.isArray(parsed) ? answers : answers[0]);
      }
      if (fault?.kind === "reply") {
        const answers = calls.map((call) => ({ jsonrpc: "2.0", id: call.id, result: fault.reply(call) }));
        return Response.json(Array.isArray(parsed) ? answers : answers[0]);
      }
      await proxy.delay(calls);
      try {
        const headers = { "content-type": "application/json" };
        const asked = fault?.ask ? calls.map(fault.ask) : calls;
        const sent = fault?.ask ? JSON.stringify(Array.isArray(parsed) ? asked : asked[0]) : body;
        const response = await fetch(nodeUrl, { method: "POST", headers, body: sent });
        if (!response.ok) return response;
        const answer: unknown = await response.json();
        return Response.json(fault ? fault.edit(answer) : answer);
      } catch {
        // the node behind it fails on order, too
        return new Response("", { status: 502 });
      }
    },
  });
  const proxy: FaultProxy = {
    url: `http://127.0.0.1:${server.port}`,
    methods: [],
    requests: 0,
    lastHeaders: new Headers(),
    fault: () => undefined,
    delay: () => undefined,
    stop: () => server.stop(true),
  };
  return proxy;
}
