/** The JSON-RPC calls health makes, in the form a batch takes. */
import type { RpcCall } from "../../core/rpc/node.ts";

export const codeCall = (address: string): RpcCall => ({
  method: "eth_getCode",
  params: [address, "latest"],
});
export const balanceCall = (address: string): RpcCall => ({
  method: "eth_getBalance",
  params: [address, "latest"],
});
