/**
 * A JSON-RPC node that lies and fails the way real ones do, in front of a real one. Faults are drawn from a seeded source for each
 * request or call; `heal()` ends them all.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { fieldOf, toQuantity } from "../../core/rpc/parse-answers.ts";

/** Shares of requests or calls, 0 to 1, unless said otherwise. */
export type Faults = {
  /** The node is this many blocks behind: later blocks and their logs are unknown to it. */
  lagBlocks?: number;
  /** Share of requests that meet the lagging node of a balanced pair; 1 when left out. */
  lagging?: number;
  /** The node calls its newest block final. */
  headIsFinal?: boolean;
  /** How the lagging node answers logs of a block it does not have: [] instead of an error. */
  laggingIsSilent?: boolean;
  emptiedLogs?: number;
  truncatedLogs?: number;
  duplicatedLogs?: number;
  /** The logs are marked as removed by a reorganisation. */
  removedLogs?: number;
  /** The logs name a block that does not exist. */
  foreignLogs?: number;
  /** The receipts of a block are those of the newest one. */
  foreignReceipts?: number;
  /** A block's bloom filter rules out that it has any log. */
  blankBlooms?: number;
  /** HTTP 429 with a short Retry-After. */
  rateLimited?: number;
  /** HTTP 500. */
  failing?: number;
  /** HTTP 503. */
  unavailable?: number;
  /** No answer for `hangMs` (default 3,000). */
  hanging?: number;
  hangMs?: number;
  /** The connection is cut, before or in the middle of the answer. */
  reset?: number;
  /** Half of the JSON. */
  brokenJson?: number;
  /** eth_chainId names another chain. */
  wrongChain?: number;
  /** The node does not know eth_getBlockReceipts. */
  noReceipts?: boolean;
  /** Nor eth_getTransactionReceipt. */
  noTransactionReceipts?: boolean;
};

/** A few of the ways in which nodes fail, each mildly: a node that always fails is merely unavailable. */
export function drawFaults(random: () => number): Faults {
  const some = (share: number) => (random() < 0.4 ? share : 0);
  return {
    lagBlocks: Math.floor(random() * 4),
    lagging: 0.5,
    laggingIsSilent: random() < 0.5,
    emptiedLogs: some(0.2),
    truncatedLogs: some(0.2),
    duplicatedLogs: some(0.2),
    rateLimited: some(0.05),
    failing: some(0.1),
    hanging: some(0.01),
    reset: some(0.1),
    brokenJson: some(0.05),
  };
}

export type FaultProxy = {
  url: string;
  set: (faults: Faults) => void;
  heal: () => void;
  /** How often each fault struck. */
  counts: () => Record<string, number>;
  stop: () => Promise<void>;
};

/** As a node receives and answers it. */
export type Call = { id: unknown; method: string; params: unknown[] };
export type Answer = { id: unknown; result?: unknown; error?: { code: number; message: string } };

const HANG_MS = 3_000;
const BLANK_BLOOM = `0x${"00".repeat(256)}`;
const UNKNOWN_HASH = `0x${"ab".repeat(32)}`;

export async function startFaultProxy(
  upstreamUrl: string,
  options: { random: () => number; faults?: Faults },
): Promise<FaultProxy> {
  let faults: Faults = options.faults ?? {};
  const counts: Record<string, number> = {};
  const strikes = (name: string, share: number | undefined): boolean => {
    if (share === undefined || options.random() >= share) return false;
    counts[name] = (counts[name] ?? 0) + 1;
    return true;
  };
  const server = createServer((request, response) => {
    handle(request, response).catch(() => response.destroy());
  });

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request);
    const given = JSON.parse(body) as Call | Call[];
    if (strikes("reset", faults.reset)) return void request.socket.destroy();
    if (strikes("hanging", faults.hanging)) await Bun.sleep(faults.hangMs ?? HANG_MS);
    if (strikes("rateLimited", faults.rateLimited))
      return void response.writeHead(429, { "retry-after": "0" }).end("slow down");
    if (strikes("failing", faults.failing)) return void response.writeHead(500).end("oops");
    if (strikes("unavailable", faults.unavailable)) return void response.writeHead(503).end("unavailable");
    const calls = Array.isArray(given) ? given : [given];
    const answers = await answerAll(calls);
    const text = JSON.stringify(Array.isArray(given) ? answers : answers[0]);
    response.writeHead(200, { "content-type": "application/json" });
    if (strikes("brokenJson", faults.brokenJson)) return void response.end(text.slice(0, text.length >> 1));
    response.end(text);
  }

  async function answerAll(given: readonly Call[]): Promise<Answer[]> {
    const calls = faults.headIsFinal ? given.map(askForLatest) : given;
    const headCall = { jsonrpc: "2.0", id: "head", method: "eth_blockNumber", params: [] };
    const isLagging = (faults.lagBlocks ?? 0) > 0 && strikes("lagging", faults.lagging ?? 1);
    const passed = (await postJson(upstreamUrl, [...calls, headCall])) as Answer[];
    const byId = new Map(passed.map((answer) => [answer.id, answer]));
    const head = Number(byId.get("head")?.result ?? 0);
    const seen = isLagging ? Math.max(0, head - (faults.lagBlocks ?? 0)) : head;
    return Promise.all(
      calls.map(async (call) => {
        const answer = byId.get(call.id) ?? { id: call.id };
        const late = isLagging ? await asSeenAt(call, answer, seen) : answer;
        return lie(call, distort(call, late), seen);
      }),
    );
  }

  /** What a node that has only blocks up to `seen` answers. */
  async function asSeenAt(call: Call, answer: Answer, seen: number): Promise<Answer> {
    const { id, method, params } = call;
    const seenHex = `0x${seen.toString(16)}`;
    switch (method) {
      case "eth_blockNumber":
        return { id, result: seenHex };
      case "eth_getBlockByNumber": {
        if (params[0] !== "latest") return hideBlock(answer, seen);
        const [latest] = (await postJson(upstreamUrl, [
          { jsonrpc: "2.0", id, method, params: [seenHex, params[1]] },
        ])) as Answer[];
        return latest ?? { id, result: null };
      }
      case "eth_getBlockByHash":
        return hideBlock(answer, seen);
      case "eth_getBlockReceipts":
      case "eth_getLogs": {
        const items = Array.isArray(answer.result) ? answer.result : [];
        const isUnknown = items.some((item) => Number(fieldOf(item, "blockNumber")) > seen);
        if (!isUnknown) return answer;
        if (fieldOf(params[0], "fromBlock") !== undefined)
          return { id, result: items.filter((item) => Number(fieldOf(item, "blockNumber")) <= seen) };
        return faults.laggingIsSilent
          ? { id, result: [] }
          : { id, error: { code: -32000, message: "unknown block" } };
      }
      default:
        return answer;
    }
  }

  function distort(call: Call, answer: Answer): Answer {
    if (call.method === "eth_chainId" && strikes("wrongChain", faults.wrongChain))
      return { id: call.id, result: "0x1" };
    const isMissing =
      (call.method === "eth_getBlockReceipts" && faults.noReceipts) ||
      (call.method === "eth_getTransactionReceipt" && faults.noTransactionReceipts);
    if (isMissing)
      return { id: call.id, error: { code: -32601, message: `the method ${call.method} does not exist` } };
    if (call.method !== "eth_getLogs" || !Array.isArray(answer.result) || answer.result.length === 0)
      return answer;
    const logs: unknown[] = answer.result;
    const index = Math.floor(options.random() * logs.length);
    if (strikes("emptiedLogs", faults.emptiedLogs)) return { ...answer, result: [] };
    if (strikes("truncatedLogs", faults.truncatedLogs))
      return { ...answer, result: logs.toSpliced(index, 1) };
    if (strikes("duplicatedLogs", faults.duplicatedLogs))
      return { ...answer, result: [...logs, logs[index]] };
    return answer;
  }

  /** Answers that are well formed but not of the chain. */
  async function lie(call: Call, answer: Answer, head: number): Promise<Answer> {
    const { result } = answer;
    if (typeof result !== "object" || result === null) return answer;
    if (call.method.startsWith("eth_getBlockBy") && strikes("blankBlooms", faults.blankBlooms))
      return { ...answer, result: { ...result, logsBloom: BLANK_BLOOM } };
    if (call.method === "eth_getBlockReceipts" && strikes("foreignReceipts", faults.foreignReceipts)) {
      const [other] = (await postJson(upstreamUrl, [{ ...call, params: [toQuantity(head)] }])) as Answer[];
      return other ?? answer;
    }
    if (call.method !== "eth_getLogs" || !Array.isArray(result) || result.length === 0) return answer;
    if (strikes("removedLogs", faults.removedLogs))
      return { ...answer, result: result.map((log) => ({ ...log, removed: true })) };
    if (strikes("foreignLogs", faults.foreignLogs))
      return { ...answer, result: result.map((log) => ({ ...log, blockHash: UNKNOWN_HASH })) };
    return answer;
  }

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    set: (next) => {
      faults = next;
    },
    heal: () => {
      faults = {};
    },
    counts: () => ({ ...counts }),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function askForLatest(call: Call): Call {
  return { ...call, params: call.params.map((param) => (param === "finalized" ? "latest" : param)) };
}

function hideBlock(answer: Answer, seen: number): Answer {
  return Number(fieldOf(answer.result, "number") ?? 0) > seen ? { id: answer.id, result: null } : answer;
}

export async function postJson(url: string, body: unknown): Promise<unknown> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return response.json();
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
