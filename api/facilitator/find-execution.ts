/** Finds a third party's transaction that used an authorization, by one bounded query to a node. */

import { AUTHORIZATION_USED_TOPIC } from "../../core/chain/usdc.ts";
import type { Authorization } from "../../core/domain/authorization.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcResponseError, RpcTransportError } from "../../core/rpc/errors.ts";
import { parseQuantity, toQuantity } from "../../core/rpc/parse-answers.ts";

/** One hour on Base. An authorization submitted now was signed minutes ago, and nodes refuse much longer ranges. */
const BLOCKS_MAX = 1_800n;
const TX_HASH = /^0x[0-9a-f]{64}$/;

/** The hash of the transaction that used it within the last hour. Undefined when it was cancelled, is older, or no node answers. */
export async function findExecution(
  chain: Chain,
  { from, nonce }: Pick<Authorization, "from" | "nonce">,
): Promise<string | undefined> {
  try {
    const head = parseQuantity(await chain.request("eth_blockNumber", []), "eth_blockNumber");
    const topics = [AUTHORIZATION_USED_TOPIC, `0x${from.slice(2).padStart(64, "0")}`, nonce];
    const fromBlock = toQuantity(head > BLOCKS_MAX ? head - BLOCKS_MAX : 0n);
    const query = { fromBlock, toBlock: "latest", address: chain.network.usdc.address, topics };
    const logs = await chain.request("eth_getLogs", [query]);
    const [log] = Array.isArray(logs) ? (logs as { transactionHash?: unknown }[]) : [];
    const txHash = typeof log?.transactionHash === "string" ? log.transactionHash.toLowerCase() : "";
    return TX_HASH.test(txHash) ? txHash : undefined;
  } catch (error) {
    if (error instanceof RpcTransportError || error instanceof RpcResponseError) return undefined;
    throw error;
  }
}
