/**
 * What a node's failure means. A transport error is no verdict: nothing was learnt about the call, ask again or elsewhere.
 * A response error is the chain's own answer: the call was run, or its form refused, and another node would say the same.
 */
import type { Hex } from "../domain/networks.ts";

export type TransportKind =
  | "unreachable"
  | "timeout"
  | "node-error"
  | "rate-limit"
  | "not-ready"
  | "malformed"
  | "wrong-chain"
  | "closed";

/** No verdict. `retryAfterMs` is set when the node said how long to stay away. */
export class RpcTransportError extends Error {
  readonly kind: TransportKind;
  readonly retryAfterMs: number | undefined;

  constructor(kind: TransportKind, message: string, retryAfterMs?: number) {
    super(message);
    this.name = "RpcTransportError";
    this.kind = kind;
    this.retryAfterMs = retryAfterMs;
  }
}

/** A node's JSON-RPC error about this very call. `data` is the revert data of an execution that ran and failed. */
export class RpcResponseError extends Error {
  readonly rpcCode: number;
  readonly data: Hex | undefined;

  constructor(rpcCode: number, message: string, data?: Hex) {
    super(message);
    this.name = "RpcResponseError";
    this.rpcCode = rpcCode;
    this.data = data;
  }
}

export type RpcError = RpcTransportError | RpcResponseError;

/** The `error` member of a JSON-RPC answer, as far as it can be trusted. */
export type RpcErrorBody = { readonly code: number; readonly message: string; readonly data: unknown };

const RANGE_TOO_LARGE =
  /query returned more than|exceeds? max results|max(imum)? (block )?range|block range|range \d+ exceeds|limit the query|too many (logs|results|blocks)|response size|logs? limit/i;
const EXECUTED =
  /revert|out of gas|invalid opcode|stack (under|over)flow|EVM error|gas required exceeds|intrinsic gas/i;
const RATE_LIMITED = /rate limit|too many requests|request limit|compute units|quota|throttl/i;
const NOT_READY =
  /BlockOutOfRange|header not found|unknown block|block not found|missing trie node|state .*(not available|unavailable)|pruned|not (yet )?synced|still syncing|timed? ?out|temporar|unavailable|connection|try again|overload/i;

/** Codes that say "not now" at the providers that use them (EIP-1474 -32005 and -32002, common gateway codes). */
const RATE_LIMIT_CODES = new Set([-32005, -32007, -32029, 429]);
const NODE_ERROR_CODES = new Set([-32002, -32603]);
/** Codes under which nodes also say "I do not know that block (yet)"; anvil uses -32602 while it reorganises. */
const NOT_READY_CODES = new Set([-32000, -32001, -32002, -32602, -32603]);

/** Sorts a JSON-RPC error body into "no verdict" and "the chain's answer". `where` names method and node, without credentials. */
export function classifyRpcError(body: RpcErrorBody, where: string): RpcError {
  const message = `${where} answered ${body.code}: ${body.message}`;
  const data = revertDataOf(body.data);
  const answer = () => new RpcResponseError(body.code, message, data);
  if (data !== undefined || body.code === 3) return answer();
  if (RANGE_TOO_LARGE.test(body.message)) return answer();
  if (RATE_LIMIT_CODES.has(body.code) || RATE_LIMITED.test(body.message)) {
    return new RpcTransportError("rate-limit", message);
  }
  if (EXECUTED.test(body.message)) return answer();
  if (NOT_READY_CODES.has(body.code) && NOT_READY.test(body.message)) {
    return new RpcTransportError("not-ready", message);
  }
  return NODE_ERROR_CODES.has(body.code) ? new RpcTransportError("node-error", message) : answer();
}

/** True when a node refuses a log query for its size, so that the asker halves the range. */
export function isRangeTooLarge(error: unknown): boolean {
  return error instanceof RpcResponseError && RANGE_TOO_LARGE.test(error.message);
}

/** Revert data as nodes wrap it: a hex string, `{data}`, or Nethermind's "Reverted 0x…". */
function revertDataOf(value: unknown): Hex | undefined {
  if (typeof value === "object" && value !== null && "data" in value) return revertDataOf(value.data);
  if (typeof value !== "string") return undefined;
  const match = /^(?:Reverted )?(0x(?:[0-9a-f]{2})*)$/i.exec(value);
  return match ? (match[1]?.toLowerCase() as Hex) : undefined;
}
