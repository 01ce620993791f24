/**
 * What a node's failure means. After a transport error nothing is known about the call: it is repeated, or another node is tried.
 * A response error is the chain's own answer: the call was executed, or its format was refused, and another node would respond the same.
 */
import type { Hex } from "../domain/networks.ts";

export type TransportKind =
  | "unreachable"
  | "timeout"
  | "node-error"
  | "rate-limit"
  | "not-ready"
  | "malformed"
  | "too-large"
  | "wrong-chain"
  | "closed";

type TransportDetails = { readonly retryAfterMs?: number | undefined; readonly isRefusal?: boolean };

/**
 * No verdict. `retryAfterMs` is set when the node said how long to stay away, `isRefusal` when it read the request and refused it:
 * a smaller request may succeed.
 */
export class RpcTransportError extends Error {
  readonly kind: TransportKind;
  readonly retryAfterMs: number | undefined;
  readonly isRefusal: boolean;

  constructor(
    kind: TransportKind,
    message: string,
    { retryAfterMs, isRefusal = false }: TransportDetails = {},
  ) {
    super(message);
    this.name = "RpcTransportError";
    this.kind = kind;
    this.retryAfterMs = retryAfterMs;
    this.isRefusal = isRefusal;
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

const EXECUTED =
  /revert|out of gas|invalid (opcode|jump)|stack (under|over)flow|stack limit|EVM error|gas required exceeds|intrinsic gas|write protection|return data out of bounds|(code|initcode) size exceeded|address collision|gas uint64 overflow/i;
const RATE_LIMITED = /rate limit|too many requests|request limit|compute units|quota|throttl/i;
const NOT_READY =
  /BlockOutOfRange|header not found|unknown block|block not found|missing trie node|state .*(not available|unavailable)|pruned|not (yet )?synced|still syncing|timed? ?out|temporar|unavailable|connection|try again|overload/i;

/** Codes that say "not now" at the providers that use them (EIP-1474 -32005 and -32002, common gateway codes). */
const RATE_LIMIT_CODES = new Set([-32005, -32007, -32029, 429]);
const NODE_ERROR_CODES = new Set([-32002, -32603]);
/** Codes under which nodes also say "I do not know that block (yet)"; anvil uses -32602 while it reorganises. */
const NOT_READY_CODES = new Set([-32000, -32001, -32002, -32602, -32603]);
/** Methods that every node must be able to serve: an error about these, however worded, is the node's own problem, such as a revoked key. */
const OF_ANY_NODE: ReadonlySet<string> = new Set([
  ...["eth_chainId", "eth_blockNumber", "eth_getTransactionByHash", "eth_getTransactionReceipt"],
]);
/** The same, asked at the latest block. */
const OF_ANY_HEAD: ReadonlySet<string> = new Set([
  ...["eth_getBlockByNumber", "eth_getBalance", "eth_getTransactionCount", "eth_getCode", "eth_getStorageAt"],
]);

/** The call that an error is about. */
type FailedCall = { readonly method: string; readonly params: readonly unknown[] };

/**
 * Sorts a JSON-RPC error body into "no verdict" and "the chain's answer". `where` names method and node, without credentials; `call`
 * where the error is about one.
 */
export function classifyRpcError(body: RpcErrorBody, where: string, call?: FailedCall): RpcError {
  const message = `${where} answered ${body.code}: ${body.message}`;
  const data = revertDataOf(body.data);
  const answer = () => new RpcResponseError(body.code, message, data);
  const noVerdict = (kind: TransportKind) => new RpcTransportError(kind, message, { isRefusal: true });
  if (data !== undefined || body.code === 3) return answer();
  if (RATE_LIMITED.test(body.message) && !/batch/i.test(body.message))
    return new RpcTransportError("rate-limit", message);
  if (RATE_LIMIT_CODES.has(body.code)) return noVerdict("rate-limit");
  if (EXECUTED.test(body.message)) return answer();
  if (NOT_READY_CODES.has(body.code) && NOT_READY.test(body.message)) {
    return noVerdict("not-ready");
  }
  const isOfNode = NODE_ERROR_CODES.has(body.code) || (call !== undefined && isKnownToAll(call));
  return isOfNode ? noVerdict("node-error") : answer();
}

function isKnownToAll({ method, params }: FailedCall): boolean {
  return OF_ANY_NODE.has(method) || (OF_ANY_HEAD.has(method) && params.includes("latest"));
}

/**
 * True when a node that read a request refused it, however worded. Of a request for many things at a time (a batch, the logs of a
 * range: nothing in them can revert) that means: for fewer. A request limit in so many words, and HTTP 429, are no refusal.
 */
export function isRefusal(error: unknown): boolean {
  return error instanceof RpcResponseError || (error instanceof RpcTransportError && error.isRefusal);
}

/** True when the call was run and failed: the same in any batch. */
export function isExecutionFailure(error: RpcError): boolean {
  if (!(error instanceof RpcResponseError)) return false;
  return error.data !== undefined || error.rpcCode === 3 || EXECUTED.test(error.message);
}

/** Revert data as nodes wrap it: a hex string, `{data}`, or Nethermind's "Reverted 0x…". */
function revertDataOf(value: unknown): Hex | undefined {
  if (typeof value === "object" && value !== null && "data" in value) return revertDataOf(value.data);
  if (typeof value !== "string") return undefined;
  const match = /^(?:Reverted )?(0x(?:[0-9a-f]{2})*)$/i.exec(value);
  return match ? (match[1]?.toLowerCase() as Hex) : undefined;
}
