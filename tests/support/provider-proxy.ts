/**
 * A node behind a JSON-RPC provider's limits: caps on batches, log ranges and results, refused in the provider's own words; methods and
 * tags it does not have; request limits; websockets that never announce a block.
 */
import { fieldOf } from "../../core/rpc/parse-answers.ts";

/** `form`: how the refusal comes: a JSON-RPC error instead of the answers, one for each call, or an HTTP status with a text. */
export type Refusal = {
  readonly code?: number;
  readonly message: string;
  readonly status?: number;
  readonly form?: "object" | "each" | "text";
};

export type ProviderLimits = {
  readonly batchMax?: number;
  readonly refuseBatch?: Refusal;
  /** Blocks in one log query; 0 takes no range at all. */
  readonly rangeMax?: number;
  readonly refuseRange?: Refusal;
  readonly resultsMax?: number;
  readonly refuseResults?: Refusal;
  /** State of older blocks is gone. */
  readonly stateBlocks?: number;
  readonly finalized?: "missing" | "null";
  readonly missingMethods?: readonly string[];
  /** Of so many HTTP requests the last gets a 429 with this Retry-After. */
  readonly limitedEvery?: number;
  readonly retryAfterS?: number;
  readonly socket?: "silent";
};

export type ProviderProxy = {
  readonly url: string;
  readonly requests: () => number;
  readonly refusals: () => number;
  readonly stop: () => Promise<void>;
};

type Call = { readonly id: unknown; readonly method: string; readonly params: readonly unknown[] };

export function startProviderProxy(nodeUrl: string, limits: ProviderLimits): ProviderProxy {
  let requests = 0;
  let refusals = 0;

  async function answer(call: Call): Promise<object> {
    const refuse = ({ code = -32000, message }: Refusal) => {
      refusals += 1;
      return { jsonrpc: "2.0", id: call.id, error: { code, message } };
    };
    const { finalized, missingMethods = [], rangeMax, refuseRange, resultsMax, refuseResults } = limits;
    if (missingMethods.includes(call.method))
      return refuse({ code: -32601, message: `the method ${call.method} does not exist/is not available` });
    if (call.params[0] === "finalized" && finalized === "missing")
      return refuse({ code: -32602, message: "invalid block tag: finalized" });
    if (call.params[0] === "finalized" && finalized === "null")
      return { jsonrpc: "2.0", id: call.id, result: null };
    const blocks = blocksOf(call);
    if (rangeMax !== undefined && refuseRange && blocks !== undefined && blocks > rangeMax)
      return refuse(refuseRange);
    if (
      call.method === "eth_call" &&
      limits.stateBlocks !== undefined &&
      (await isOld(call, limits.stateBlocks))
    )
      return refuse({ message: "missing trie node 0xab (path ) state 0xab is not available" });
    const passed = (await post(nodeUrl, call)) as object;
    const count = call.method === "eth_getLogs" ? fieldOf(fieldOf(passed, "result"), "length") : 0;
    if (resultsMax !== undefined && refuseResults && Number(count) > resultsMax) return refuse(refuseResults);
    return passed;
  }

  async function isOld({ params }: Call, stateBlocks: number): Promise<boolean> {
    const [, block] = params;
    const head = Number(fieldOf(await post(nodeUrl, callOf("eth_blockNumber")), "result"));
    const hash = fieldOf(block, "blockHash");
    const header =
      hash === undefined ? undefined : await post(nodeUrl, callOf("eth_getBlockByHash", hash, false));
    const number = header ? fieldOf(fieldOf(header, "result"), "number") : block;
    return typeof number === "string" && number.startsWith("0x") && Number(number) < head - stateBlocks;
  }

  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 60,
    websocket: {
      message(socket, text) {
        const { id } = JSON.parse(String(text)) as { id: unknown };
        socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: "0x1" }));
      },
    },
    async fetch(request, running) {
      if (request.method !== "POST") {
        if (limits.socket === "silent" && running.upgrade(request)) return undefined;
        return new Response("POST only", { status: 405 });
      }
      requests += 1;
      if (limits.limitedEvery !== undefined && requests % limits.limitedEvery === 0) {
        refusals += 1;
        return new Response("slow down", {
          status: 429,
          headers: { "retry-after": String(limits.retryAfterS ?? 1) },
        });
      }
      const given = (await request.json()) as Call | Call[];
      const { batchMax, refuseBatch } = limits;
      if (Array.isArray(given) && batchMax !== undefined && refuseBatch && given.length > batchMax) {
        refusals += 1;
        return refusedBatch(given, refuseBatch);
      }
      return Response.json(Array.isArray(given) ? await Promise.all(given.map(answer)) : await answer(given));
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    requests: () => requests,
    refusals: () => refusals,
    stop: () => server.stop(true),
  };
}

function refusedBatch(calls: readonly Call[], { code, message, status = 200, form }: Refusal): Response {
  if (form === "text") return new Response(message, { status });
  const error = { code: code ?? -32600, message };
  if (form === "each")
    return Response.json(
      calls.map(({ id }) => ({ jsonrpc: "2.0", id, error })),
      { status },
    );
  return Response.json({ jsonrpc: "2.0", id: null, error }, { status });
}

/** Of a log query by range; undefined for everything else. */
function blocksOf({ method, params }: Call): number | undefined {
  if (method !== "eth_getLogs") return undefined;
  const [from, to] = [fieldOf(params[0], "fromBlock"), fieldOf(params[0], "toBlock")];
  return from === undefined ? undefined : Number(to) - Number(from) + 1;
}

function callOf(method: string, ...params: readonly unknown[]): object {
  return { jsonrpc: "2.0", id: 1, method, params };
}

async function post(url: string, body: unknown): Promise<unknown> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return response.json();
}
