/** Multicall3's `aggregate3`: many calls in one transaction, each allowed to fail alone. Encoded by hand for speed: every batch uses it. */

import { multicall3Abi } from "viem-modules/constants/abis.js";
import { decodeFunctionResult } from "viem-modules/utils/abi/decodeFunctionResult.js";
import type { Hex } from "../domain/networks.ts";
import { RpcTransportError } from "../rpc/errors.ts";
import { bytesTail, hexWord, uintWord } from "./abi-words.ts";

export type InnerCall = { readonly to: Hex; readonly data: Hex };
export type InnerResult = { readonly success: boolean; readonly data: Hex };

const AGGREGATE3_SELECTOR = "0x82ad56cb";
const WORD_BYTES = 32;

/** `aggregate3((address target, bool allowFailure, bytes callData)[])` with allowFailure set for every call. */
export function encodeAggregate3(calls: readonly InnerCall[]): Hex {
  let offset = calls.length * WORD_BYTES;
  let offsets = "";
  let elements = "";
  for (const { to, data } of calls) {
    const element = hexWord(to) + uintWord(1) + uintWord(3 * WORD_BYTES) + bytesTail(data);
    offsets += uintWord(offset);
    elements += element;
    offset += element.length / 2;
  }
  return `${AGGREGATE3_SELECTOR}${uintWord(WORD_BYTES)}${uintWord(calls.length)}${offsets}${elements}`;
}

/** The result of an `eth_call` of the above, in the order of the calls. Throws when it is not one. */
export function decodeAggregate3(answer: unknown, calls: number): InnerResult[] {
  let results: readonly { readonly success: boolean; readonly returnData: Hex }[];
  try {
    const data = answer as Hex;
    results = decodeFunctionResult({ abi: multicall3Abi, functionName: "aggregate3", data });
  } catch {
    // viem throws many decoding errors; all of them mean that this is not a result of Multicall3
    throw new RpcTransportError("malformed", "aggregate3 answered something that is not its result");
  }
  if (results.length !== calls) {
    throw new RpcTransportError("malformed", `aggregate3 answered ${results.length} of ${calls} calls`);
  }
  return results.map(({ success, returnData }) => ({ success, data: returnData }));
}
