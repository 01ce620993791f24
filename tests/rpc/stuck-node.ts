/** A node that has stopped following the chain: it answers as of one block, and forwards what it is sent. */
import type { Fault, ProxiedCall } from "./fault-proxy.ts";

/** The fault of one request to a node that knows no block after `number`. */
export function stuckAt(number: bigint, calls: readonly ProxiedCall[]): Fault {
  const head = `0x${number.toString(16)}`;
  const methods = new Map(calls.map(({ id, method }) => [id, method]));
  const editOne = (answer: Answer) =>
    methods.get(answer.id) === "eth_blockNumber"
      ? { ...answer, result: head }
      : isLater(answer.result, number)
        ? { ...answer, result: null }
        : answer;
  return {
    kind: "edit",
    ask: (call) => ({ ...call, params: call.params.map((param) => pinned(param, head)) }),
    edit: (answer) => (Array.isArray(answer) ? answer.map(editOne) : editOne(answer as Answer)),
  };
}

type Answer = { id: number; result?: unknown };

/** "latest" and "pending" are its newest block, also within a filter of logs. */
function pinned(param: unknown, head: string): unknown {
  if (param === "latest" || param === "pending") return head;
  if (typeof param !== "object" || param === null || !("toBlock" in param)) return param;
  return { ...param, toBlock: pinned(param.toBlock, head) };
}

/** A block, a transaction or a receipt of which it cannot know. */
function isLater(result: unknown, number: bigint): boolean {
  if (typeof result !== "object" || result === null) return false;
  const own = "blockNumber" in result ? result.blockNumber : "number" in result ? result.number : undefined;
  return typeof own === "string" && BigInt(own) > number;
}
