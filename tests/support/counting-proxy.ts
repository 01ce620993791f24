/** A node with a counter in front: which methods were called, and how many bytes its websocket announced. */

export type CountingProxy = {
  readonly url: string;
  /** Calls by method since the last `reset`; polls of the head apart, as `head`. */
  readonly calls: () => Readonly<Record<string, number>>;
  readonly socketBytes: () => number;
  /** What the newest websocket has subscribed to, in order: `newHeads`, `logs`. */
  readonly subscriptions: () => string;
  readonly reset: () => void;
  readonly stop: () => Promise<void>;
};

type Call = { readonly method: string; readonly params: readonly unknown[] };

export type CountingProxyOptions = {
  readonly hasWebSocket: boolean;
  /** Changes what the node answers to a call. */
  readonly edit?: (call: Call, answer: unknown) => unknown;
};

export function startCountingProxy(
  nodeUrl: string,
  { hasWebSocket, edit = (_, answer) => answer }: CountingProxyOptions,
): CountingProxy {
  let calls: Record<string, number> = {};
  let socketBytes = 0;
  let subscribed: string[] = [];
  const upstreams = new Map<unknown, WebSocket>();
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 60,
    websocket: {
      open(socket) {
        subscribed = [];
        const upstream = new WebSocket(nodeUrl.replace(/^http/, "ws"));
        upstreams.set(socket, upstream);
        upstream.onmessage = ({ data }) => {
          const message = JSON.parse(String(data)) as { params?: { result: unknown } };
          const isHead = JSON.stringify(message.params?.result ?? null).includes("parentHash");
          const method = isHead ? "newHeads" : "logs";
          const result = message.params && edit({ method, params: [] }, message.params.result);
          const text = JSON.stringify(
            result ? { ...message, params: { ...message.params, result } } : message,
          );
          if (result) socketBytes += text.length;
          socket.send(text);
        };
        upstream.onclose = () => socket.close();
      },
      message(socket, text) {
        const { method, params } = JSON.parse(String(text)) as Call;
        if (method === "eth_subscribe") subscribed.push(String(params[0]));
        const upstream = upstreams.get(socket);
        if (upstream?.readyState === WebSocket.OPEN) upstream.send(text);
        else upstream?.addEventListener("open", () => upstream.send(text), { once: true });
      },
      close(socket) {
        upstreams.get(socket)?.close();
        upstreams.delete(socket);
      },
    },
    async fetch(request, running) {
      if (request.method !== "POST") {
        if (hasWebSocket && running.upgrade(request)) return undefined;
        return new Response("POST only", { status: 405 });
      }
      const body = await request.text();
      const given = JSON.parse(body) as (Call & { id: unknown }) | (Call & { id: unknown })[];
      for (const { method, params } of [given].flat()) {
        const name = params[0] === "latest" ? "head" : method;
        calls[name] = (calls[name] ?? 0) + 1;
      }
      const headers = { "content-type": "application/json" };
      const response = await fetch(nodeUrl, { method: "POST", headers, body });
      const answers = (await response.json()) as
        | { id: unknown; result?: unknown }
        | { id: unknown; result?: unknown }[];
      const edited = [answers].flat().map((answer) => {
        const call = [given].flat().find(({ id }) => id === answer.id);
        return call && "result" in answer ? { ...answer, result: edit(call, answer.result) } : answer;
      });
      return Response.json(Array.isArray(answers) ? edited : edited[0]);
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    calls: () => ({ ...calls }),
    socketBytes: () => socketBytes,
    subscriptions: () => subscribed.join(),
    reset() {
      calls = {};
      socketBytes = 0;
    },
    stop: () => server.stop(true),
  };
}
