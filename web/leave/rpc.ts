/** JSON-RPC to any URL that the person enters: one request per call, which every node supports. */
import { Fault } from "./user-error.ts";

export type Rpc = {
  readonly url: string;
  readonly call: (method: string, params: unknown[]) => Promise<unknown>;
};

/** The node's refusal of a call; for `eth_call` usually a revert. */
export class RpcRefusal extends Fault {
  readonly data: string | undefined;
  constructor(message: string, data: unknown) {
    super(`The node refused: ${message}`);
    this.data = typeof data === "string" ? data : undefined;
  }
}

const TIMEOUT_MS = 20_000;

/** Throws Fault for a URL that a page cannot use. */
export function openRpc(text: string): Rpc {
  const url = readUrl(text);
  let id = 0;
  const call = async (method: string, params: unknown[]): Promise<unknown> => {
    id += 1;
    const answer = await post(url, JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    if (answer.error) throw new RpcRefusal(String(answer.error.message), revertData(answer.error.data));
    if (answer.result === undefined) throw new Fault("The node's answer is not JSON-RPC. Is the URL right?");
    return answer.result;
  };
  return { url, call };
}

function readUrl(text: string): string {
  let url: URL;
  try {
    url = new URL(text.trim());
  } catch (cause) {
    throw new Fault("The node's URL is not a URL. It begins with https://", { cause });
  }
  const isLocal = url.hostname === "localhost" || url.hostname === "127.0.0.1";
  if (url.protocol === "https:" || (url.protocol === "http:" && isLocal)) return url.href;
  throw new Fault("The node's URL must begin with https:// (or http:// for a node on this machine).");
}

type Answer = { result?: unknown; error?: { message?: unknown; data?: unknown } | null };

async function post(url: string, body: string): Promise<Answer> {
  const host = new URL(url).host;
  let response: Response;
  try {
    const headers = { "content-type": "application/json" };
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    response = await fetch(url, {
      method: "POST",
      headers,
      body,
      signal,
      credentials: "omit",
      referrerPolicy: "no-referrer",
    });
  } catch (cause) {
    throw new Fault(
      `${host} cannot be reached from this page. It may be down, or refuse requests from pages; try another node.`,
      { cause },
    );
  }
  try {
    const answer = (await response.json()) as Answer | null;
    if (typeof answer === "object" && answer !== null) return answer;
  } catch {
    // reported below, with the status
  }
  throw new Fault(`${host} did not answer as a node does (HTTP ${response.status}). Try another node.`);
}

/** Some nodes put the revert data into an object. */
function revertData(data: unknown): unknown {
  return typeof data === "object" && data !== null ? (data as { data?: unknown }).data : data;
}
