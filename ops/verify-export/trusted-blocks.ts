/** The only data taken from the user's own nodes: which chain they serve, and each block's hash and transaction hashes. */
import { type Hex, NETWORK_IDS, NETWORKS, type NetworkId } from "../../core/domain/networks.ts";
import { fieldOf, parseData, parseQuantity, toQuantity } from "../../core/rpc/parse-answers.ts";

export type TrustedBlock = { hash: Hex; transactions: readonly string[] };
type Wanted = { network: NetworkId; proof: { blockNumber: number } | null };

const TIMEOUT_MS = 30_000;
/** Concurrent requests, which public nodes limit. */
const AT_ONCE = 4;

/** The node of each network, by its chain id. Throws for a node that is unavailable or of another chain. */
export async function readNetworks(urls: readonly string[]): Promise<Map<NetworkId, string>> {
  const networks = new Map<NetworkId, string>();
  for (const url of urls) {
    const chainId = Number(parseQuantity(await call(url, "eth_chainId", []), "chain id"));
    const network = NETWORK_IDS.find((id) => NETWORKS[id].chainId === chainId);
    if (!network) throw new Error(`the node serves chain ${chainId}, which exports do not cover`);
    networks.set(network, url);
  }
  return networks;
}

/** By "network:number"; blocks that the node does not have are left out. */
export async function readBlocks(
  networks: ReadonlyMap<NetworkId, string>,
  rows: readonly Wanted[],
): Promise<Map<string, TrustedBlock>> {
  const wanted = new Map<string, { url: string; number: number }>();
  for (const { network, proof } of rows) {
    const url = networks.get(network);
    if (url && proof) wanted.set(`${network}:${proof.blockNumber}`, { url, number: proof.blockNumber });
  }
  const blocks = new Map<string, TrustedBlock>();
  const waiting = [...wanted];
  const work = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const [key, { url, number }] = next;
      const answer = await call(url, "eth_getBlockByNumber", [toQuantity(number), false]);
      const transactions = fieldOf(answer, "transactions");
      if (answer === null || !Array.isArray(transactions)) continue;
      blocks.set(key, {
        hash: parseData(fieldOf(answer, "hash"), "block hash", 32),
        transactions: transactions.map(String),
      });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return blocks;
}

async function call(url: string, method: string, params: readonly unknown[]): Promise<unknown> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  }).catch((error: unknown) => {
    throw new Error(`your node does not answer: ${error instanceof Error ? error.message : String(error)}`);
  });
  const answer: unknown = await response.json().catch(() => undefined);
  const result = fieldOf(answer, "result");
  if (result === undefined)
    throw new Error(`your node responded to ${method} with status ${response.status} and no result`);
  return result;
}
