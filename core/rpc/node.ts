/** One JSON-RPC endpoint: how it is called, how its responses are interpreted, and its health. Its URL's credentials never leave this file. */

import type { Network } from "../domain/networks.ts";
import { parseJson } from "../domain/parse-json.ts";
import {
  classifyRpcError,
  type RpcError,
  type RpcErrorBody,
  RpcTransportError,
  type TransportKind,
} from "./errors.ts";
import { type NodeHealth, newHealth } from "./node-health.ts";

export type RpcCall = {
  readonly method: string;
  readonly params: readonly unknown[];
  /** What is kept of the result, read as soon as its HTTP answer has come: of many large ones, one at a time is in memory. Does not throw. */
  readonly read?: (result: unknown) => unknown;
};
export type RpcOutcome =
  | { readonly ok: true; readonly result: unknown }
  | { readonly ok: false; readonly error: RpcError };

/** One endpoint of a pool. */
export type ChainNode = {
  /** Network, place in the list and host; safe to print. */
  readonly label: string;
  readonly send: (calls: readonly RpcCall[], timeoutMs: number) => Promise<RpcOutcome[]>;
  readonly connect: () => WebSocket;
  readonly health: NodeHealth;
};

/**
 * Read, an answer takes five times that, and a process has less than a gigabyte. Whoever fills a block with logs chooses the size of its receipts,
 * some 300 MB; those of one transaction have no more than 27 MB (EIP-7825: 16.8 million gas, a log costs 375).
 */
const RESPONSE_MAX_BYTES = 48 * 1024 * 1024;
/** Every node's response would be as large; for other methods it is the node's fault. */
const OF_BLOCK_SIZE: ReadonlySet<string> = new Set([
  ...["eth_getBlockReceipts", "eth_getTransactionReceipt", "eth_getLogs"],
]);
/** What still comes at this pace is no node that hangs: the receipt of one transaction may be larger than a slow line carries within a timeout. */
const BYTES_A_MS = 1_000;
/** Larger responses are read one at a time per process: ten concurrently would use up its memory. */
const LARGE_BYTES = 4 * 1024 * 1024;
const RETRY_AFTER_MAX_MS = 60_000;
/** Bad Request, Content Too Large, URI Too Long, Unprocessable Content: said about the request, not about the node's state. */
const TOO_LARGE_STATUSES = [400, 413, 414, 422];
const SECRET_MIN_CHARS = 6;

/** Reads a URL into a node. Throws RangeError on anything but http(s), without repeating the text. */
export function openNode(urlText: string, network: Network, index: number): ChainNode {
  const url = URL.canParse(urlText) ? new URL(urlText) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw new RangeError(`RPC URL number ${index + 1} of ${network.id} is not an http(s) URL`);
  }
  const secrets = secretsOf(url);
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (url.username) {
    const pair = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
    headers.authorization = `Basic ${Buffer.from(pair).toString("base64")}`;
    url.username = "";
    url.password = "";
  }
  const label = `${network.id}#${index + 1} (${publicHost(url)})`;
  const redact = (text: string) => secrets.reduce((shown, secret) => shown.replaceAll(secret, "***"), text);
  const { "content-type": _, ...webSocketHeaders } = headers;
  return {
    label,
    send: (calls, timeoutMs) => post({ href: url.href, headers, label, redact }, calls, timeoutMs),
    connect: () => new WebSocket(url.href.replace(/^http/, "ws"), { headers: webSocketHeaders }),
    health: newHealth(),
  };
}

type Endpoint = {
  readonly href: string;
  readonly headers: Record<string, string>;
  readonly label: string;
  readonly redact: (text: string) => string;
};

/** One HTTP request: a single call as an object, several as a batch. Throws RpcTransportError when there is no answer to read. */
async function post(endpoint: Endpoint, calls: readonly RpcCall[], timeoutMs: number): Promise<RpcOutcome[]> {
  const where = `${calls.length === 1 ? calls[0]?.method : `batch of ${calls.length}`} on ${endpoint.label}`;
  const messages = calls.map((call, id) => ({
    jsonrpc: "2.0",
    id,
    method: call.method,
    params: call.params,
  }));
  const body = JSON.stringify(messages.length === 1 ? messages[0] : messages);
  const deadline = openDeadline(timeoutMs);
  const turn = openTurn();
  const onBytes = async (bytes: number) => {
    deadline.noteBytes(bytes);
    if (bytes > LARGE_BYTES) await deadline.pauseFor(turn.take());
  };
  try {
    const { headers, href } = endpoint;
    const isOfBlock = calls.some(({ method }) => OF_BLOCK_SIZE.has(method));
    const tooLarge = isOfBlock ? "too-large" : "malformed";
    const { response, text } = await fetch(href, { method: "POST", headers, body, signal: deadline.signal })
      .then(async (response) => ({ response, text: await readText(response, { where, tooLarge, onBytes }) }))
      .catch((error) => {
        throw toTransportError(error, where, timeoutMs);
      });
    const answer = parseJson(text);
    if (!response.ok) throw httpError(response, answer, { where, calls, redact: endpoint.redact });
    return readAnswers(answer, calls, endpoint);
  } finally {
    deadline.clear();
    turn.end();
  }
}

/** After `timeoutMs`, and later by a millisecond for each BYTES_A_MS that have come. */
function openDeadline(timeoutMs: number) {
  const abort = new AbortController();
  let endMs = performance.now() + timeoutMs;
  let extraMs = 0;
  const check = () => {
    const leftMs = endMs + extraMs - performance.now();
    if (leftMs > 0) timer = setTimeout(check, leftMs);
    else abort.abort(new DOMException("too slow", "TimeoutError"));
  };
  let timer = setTimeout(check, timeoutMs);
  return {
    signal: abort.signal,
    noteBytes(bytes: number) {
      extraMs = bytes / BYTES_A_MS;
    },
    async pauseFor(wait: Promise<void>) {
      const pausedMs = performance.now();
      clearTimeout(timer);
      await wait;
      endMs += performance.now() - pausedMs;
      check();
    },
    clear: () => clearTimeout(timer),
  };
}

/** Ends when the large answer that was let in last has been read, and all before it. */
let lastTurn: Promise<void> = Promise.resolve();

/** The queue of this process's large responses, bounded by their deadlines. */
function openTurn() {
  const { promise, resolve } = Promise.withResolvers<void>();
  let before: Promise<void> | undefined;
  return {
    take() {
      if (!before) {
        before = lastTurn;
        lastTurn = promise;
      }
      return before;
    },
    end: resolve,
  };
}

/** Counted as it comes: a compressed answer announces less than it has. */
async function readText(
  response: Response,
  {
    where,
    tooLarge,
    onBytes,
  }: { where: string; tooLarge: TransportKind; onBytes: (bytes: number) => Promise<void> },
): Promise<string> {
  const decoder = new TextDecoder();
  const pieces: string[] = [];
  let bytes = 0;
  for await (const piece of response.body ?? []) {
    bytes += piece.byteLength;
    await onBytes(bytes);
    if (bytes > RESPONSE_MAX_BYTES) {
      const message = `${where} answered more than ${RESPONSE_MAX_BYTES} bytes`;
      throw new RpcTransportError(tooLarge, message, { isRefusal: true });
    }
    pieces.push(decoder.decode(piece, { stream: true }));
  }
  return pieces.join("") + decoder.decode();
}

/** Foreign fetch errors carry the URL; only their name is kept, never the error itself as `cause`. */
function toTransportError(error: unknown, where: string, timeoutMs: number): RpcTransportError {
  if (error instanceof RpcTransportError) return error;
  const name = error instanceof Error ? error.name : "";
  if (name === "TimeoutError" || name === "AbortError") {
    return new RpcTransportError("timeout", `${where} gave no answer within ${timeoutMs} ms`);
  }
  const code = error instanceof Error && "code" in error ? String(error.code) : name;
  return new RpcTransportError("unreachable", `${where} could not be reached (${code})`);
}

/** Some nodes put a JSON-RPC error into a 4xx; it counts as an answer unless the status itself says "not now". */
function httpError(
  response: Response,
  answer: unknown,
  { where, calls, redact }: { where: string; calls: readonly RpcCall[]; redact: (text: string) => string },
): RpcError {
  if (response.status === 429) {
    const message = `${where} answered HTTP 429 (too many requests)`;
    return new RpcTransportError("rate-limit", message, { retryAfterMs: retryAfterMs(response) });
  }
  const body = errorBodyOf(answer, redact);
  const isDenied = response.status === 401 || response.status === 403;
  if (body && response.status < 500 && !isDenied)
    return classifyRpcError(body, where, calls.length === 1 ? calls[0] : undefined);
  const isRefusal = (body !== undefined && !isDenied) || TOO_LARGE_STATUSES.includes(response.status);
  const message = `${where} answered HTTP ${response.status}${body ? `, ${body.code}: ${body.message}` : ""}`;
  return new RpcTransportError("node-error", message, { retryAfterMs: retryAfterMs(response), isRefusal });
}

/** Retry-After in seconds or as a date (RFC 9110 10.2.3), bounded. */
function retryAfterMs(response: Response): number | undefined {
  const text = response.headers.get("retry-after");
  if (!text) return undefined;
  const waitMs = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return Number.isFinite(waitMs) ? Math.min(Math.max(waitMs, 0), RETRY_AFTER_MAX_MS) : undefined;
}

/** Puts answers back into the order of the calls; batches may be answered in any order (JSON-RPC 2.0 section 6). */
function readAnswers(answer: unknown, calls: readonly RpcCall[], endpoint: Endpoint): RpcOutcome[] {
  const malformed = () =>
    new RpcTransportError("malformed", `${endpoint.label} answered something that is not JSON-RPC`);
  if (calls.length > 1 && !Array.isArray(answer)) {
    const body = errorBodyOf(answer, endpoint.redact);
    throw body ? classifyRpcError(body, `batch of ${calls.length} on ${endpoint.label}`) : malformed();
  }
  const byId = new Map<unknown, unknown>();
  for (const item of Array.isArray(answer) ? answer : [answer]) {
    if (typeof item !== "object" || item === null || !("id" in item)) throw malformed();
    byId.set(item.id, item);
  }
  return calls.map((call, id): RpcOutcome => {
    const item = byId.get(id) ?? (calls.length === 1 ? byId.get(null) : undefined);
    const body = errorBodyOf(item, endpoint.redact);
    if (body)
      return { ok: false, error: classifyRpcError(body, `${call.method} on ${endpoint.label}`, call) };
    if (typeof item === "object" && item !== null && "result" in item)
      return { ok: true, result: call.read ? call.read(item.result) : item.result };
    return { ok: false, error: malformed() };
  });
}

function errorBodyOf(item: unknown, redact: (text: string) => string): RpcErrorBody | undefined {
  if (typeof item !== "object" || item === null || !("error" in item)) return undefined;
  const error = item.error;
  if (typeof error !== "object" || error === null) return undefined;
  const code = "code" in error ? Number(error.code) : 0;
  const message = "message" in error ? redact(String(error.message)) : "no message";
  return { code, message, data: "data" in error ? error.data : undefined };
}

/** Everything in a provider URL that may be a key: user, password, long path segments, query values. */
function secretsOf(url: URL): string[] {
  const parts = [url.username, url.password, ...url.pathname.split("/"), ...url.searchParams.values()];
  return parts
    .flatMap((part) => [part, decodeURIComponent(part)])
    .filter((p) => p.length >= SECRET_MIN_CHARS);
}

/** Host without its leading labels, which some providers make unguessable on purpose. IP addresses stay whole. */
function publicHost(url: URL): string {
  if (/^[\d.]+$|^\[/.test(url.hostname) || url.hostname === "localhost") return url.host;
  return url.hostname.split(".").slice(-2).join(".");
}
