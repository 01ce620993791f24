/** One MCP request. The protocol's library is loaded with the first one, because most processes never need it. */
import { createClient } from "../../sdk/client.ts";
import { onBodyEnd } from "./on-body-end.ts";

export const MCP_KEEP_ALIVE_MS = 15_000;

/** The server sends headers with the first bytes, and only after that notices that a reader has disconnected. */
const OPENING = new TextEncoder().encode(": open\n\n");

type Served = {
  body: unknown;
  baseUrl: string;
  /** Calls this app, as the caller. */
  fetch: typeof fetch;
  /** Aborted when the process stops listening. */
  closing: AbortSignal;
  /** Called once, when the response has been sent or its reader has disconnected. */
  onEnd: () => void;
};

export async function serveMcp(request: Request, served: Served): Promise<Response> {
  const { body, baseUrl, closing, onEnd } = served;
  const gone = new AbortController();
  const signal = AbortSignal.any([request.signal, closing, gone.signal]);
  const end = once(onEnd);
  try {
    const [{ WebStandardStreamableHTTPServerTransport }, { createMcpServer }] = await Promise.all([
      import("@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js"),
      import("../../mcp/server.ts"),
    ]);
    // a refusal by a limit is passed on to the model, without a retry
    const service = createClient({ baseUrl, fetch: served.fetch, retries: 0 });
    const server = createMcpServer({ service, baseUrl, signal });
    const transport = new WebStandardStreamableHTTPServerTransport({ keepAliveMs: MCP_KEEP_ALIVE_MS });
    await server.connect(transport);
    const finish = once(() => {
      gone.abort();
      end();
      void server.close();
    });
    // the server does not always cancel a stream whose reader has disconnected
    request.signal.addEventListener("abort", finish, { once: true });
    const answer = await transport.handleRequest(request, { parsedBody: body });
    if (!answer.body) {
      finish();
      return answer;
    }
    const isStream = answer.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
    return new Response(
      onBodyEnd(answer.body, { onEnd: finish, opening: isStream ? OPENING : undefined }),
      answer,
    );
  } catch (error) {
    end();
    throw error;
  }
}

function once(work: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    work();
  };
}
