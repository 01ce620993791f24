/** JSON-RPC to a node on this machine only: these calls can rewrite a chain's state. */

export type RpcCall = { method: string; params: readonly unknown[] };

const TIMEOUT_MS = 30_000;
const LOOPBACK_HOSTS = new Set(["127.0.0.1", "localhost", "[::1]"]);

/** Throws unless the URL names this machine's loopback interface. */
export function assertLoopback(rpcUrl: string): void {
  const { hostname } = new URL(rpcUrl);
  if (!LOOPBACK_HOSTS.has(hostname)) {
    throw new Error(
      `Local contracts and balances are only for a chain on this machine, not for ${hostname}.`,
    );
  }
}

/** The result of one call. Throws the node's own message. */
export async function callRpc(
  rpcUrl: string,
  method: string,
  params: readonly unknown[] = [],
): Promise<unknown> {
  const [result] = await callRpcBatch(rpcUrl, [{ method, params }]);
  return result;
}

/** Results in the order of the calls, one HTTP request. Throws at the first error. */
export async function callRpcBatch(rpcUrl: string, calls: readonly RpcCall[]): Promise<unknown[]> {
  assertLoopback(rpcUrl);
  const response = await fetch(rpcUrl, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(calls.map(({ method, params }, id) => ({ jsonrpc: "2.0", id, method, params }))),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  const answers = (await response.json()) as { id: number; result?: unknown; error?: { message: string } }[];
  const byId = new Map(answers.map((answer) => [answer.id, answer]));
  return calls.map(({ method }, id) => {
    const answer = byId.get(id);
    if (!answer || answer.error) throw new Error(`${method}: ${answer?.error?.message ?? "no answer"}`);
    return answer.result;
  });
}

/** The result of one call as text (hex data, hashes). */
export async function callRpcText(
  rpcUrl: string,
  method: string,
  params: readonly unknown[] = [],
): Promise<string> {
  const result = await callRpc(rpcUrl, method, params);
  if (typeof result !== "string") throw new Error(`${method}: expected text, got ${typeof result}`);
  return result;
}
