/** The JSON-RPC calls of the health checks, ready to be batched. */
import type { RpcCall } from "../../core/rpc/node.ts";

export const codeCall = (address: string): RpcCall => ({
  method: "eth_getCode",
  params: [address, "latest"],
});
export const balanceCall = (address: string): RpcCall => ({
  method: "eth_getBalance",
  params: [address, "latest"],
});
