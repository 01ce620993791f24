/** Parses values in nodes' responses. A value that does not parse is not an answer of the chain: RpcTransportError("malformed"). */
import type { Hex } from "../domain/networks.ts";
import { RpcTransportError } from "./errors.ts";
import type { RpcOutcome } from "./node.ts";

const QUANTITY = /^0x[0-9a-f]{1,64}$/i;
const DATA = /^0x(?:[0-9a-f]{2})*$/i;

/** The result of a call. Throws its error, or RpcTransportError when the batch lacks it. */
export function resultOf(outcome: RpcOutcome | undefined): unknown {
  if (!outcome?.ok) throw outcome?.error ?? new RpcTransportError("malformed", "a call was not answered");
  return outcome.result;
}

/** A hex quantity as a bigint. `what` names it in the error. */
export function parseQuantity(value: unknown, what: string): bigint {
  if (typeof value === "string" && QUANTITY.test(value)) return BigInt(value);
  throw malformed(value, what, "a hex quantity");
}

/** Hex bytes, lower case; `bytes` fixes the length. */
export function parseData(value: unknown, what: string, bytes?: number): Hex {
  if (
    typeof value === "string" &&
    DATA.test(value) &&
    (bytes === undefined || value.length === 2 + 2 * bytes)
  ) {
    return value.toLowerCase() as Hex;
  }
  throw malformed(value, what, bytes === undefined ? "hex bytes" : `${bytes} hex bytes`);
}

/** A field of an object; undefined when absent. */
export function fieldOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

export function toQuantity(value: bigint | number): Hex {
  return `0x${value.toString(16)}`;
}

function malformed(value: unknown, what: string, expected: string): RpcTransportError {
  const shown = (JSON.stringify(value) ?? "undefined").slice(0, 80);
  return new RpcTransportError("malformed", `${what}: expected ${expected}, got ${shown}`);
}
