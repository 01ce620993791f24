/**
 * A chain whose node takes as long for a block however many payments it holds, as a public network's does. anvil computes the root of its
 * whole state for every block, which costs more the longer the chain, and most where each payment has a block of its own. As a fork it
 * computes none. So it forks the chain served here, which holds nothing but its first block. Reorganisations are not possible on it.
 */
import { startChain } from "../local/chain/chain.ts";
import type { TestChain } from "../tests/support/chain.ts";

const ZERO = `0x${"0".repeat(64)}`;
const EMPTY_TRIE = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421";
const FIRST_BLOCK = {
  number: "0x0",
  hash: "0x83304f41d6bcbe476c6dfa24e0021103a8a5742efdc40d572a585bd2efc43b8e",
  parentHash: ZERO,
  sha3Uncles: "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347",
  miner: `0x${"0".repeat(40)}`,
  stateRoot: EMPTY_TRIE,
  transactionsRoot: EMPTY_TRIE,
  receiptsRoot: EMPTY_TRIE,
  logsBloom: `0x${"0".repeat(512)}`,
  difficulty: "0x0",
  gasLimit: "0x5f5e100",
  gasUsed: "0x0",
  timestamp: "0x65920080",
  extraData: "0x",
  mixHash: ZERO,
  nonce: "0x0000000000000000",
  baseFeePerGas: "0x3b9aca00",
  withdrawalsRoot: EMPTY_TRIE,
  blobGasUsed: "0x0",
  excessBlobGas: "0x0",
  parentBeaconBlockRoot: ZERO,
  requestsHash: "0xe3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  size: "0x200",
  transactions: [],
  uncles: [],
  withdrawals: [],
};
/** Block tags, and the only height. */
const KNOWN = new Set(["latest", "safe", "finalized", "earliest", "pending", "0x0"]);
/** anvil asks for an account in one request and in three at once, and keeps to what answers first: one is cheaper. */
const THREE_REQUESTS = new Set(["eth_getBalance", "eth_getCode", "eth_getTransactionCount"]);
const THREE_REQUESTS_DELAY_MS = 20;

type RpcRequest = { id: number; method: string; params: readonly unknown[] };

export async function startFlatChain({ blockTimeS }: { blockTimeS: number }): Promise<TestChain> {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const asked = (await request.json()) as RpcRequest;
      if (THREE_REQUESTS.has(asked.method)) await Bun.sleep(THREE_REQUESTS_DELAY_MS);
      return Response.json({ jsonrpc: "2.0", id: asked.id, result: answer(asked) });
    },
  });
  const stopServer = () => server.stop(true);
  try {
    const chain = await startChain({ blockTimeS, forkUrl: `http://127.0.0.1:${server.port}` });
    return { ...chain, stop: () => chain.stop().finally(stopServer) };
  } catch (error) {
    await stopServer();
    throw error;
  }
}

function answer({ method, params }: RpcRequest): unknown {
  switch (method) {
    case "eth_chainId":
      return "0x14a34";
    case "net_version":
      return "84532";
    case "eth_gasPrice":
      return FIRST_BLOCK.baseFeePerGas;
    case "eth_getBlockByNumber":
      return KNOWN.has(String(params[0])) ? FIRST_BLOCK : null;
    case "eth_getBlockByHash":
      return params[0] === FIRST_BLOCK.hash ? FIRST_BLOCK : null;
    case "eth_blockNumber":
    case "eth_getBalance":
    case "eth_getTransactionCount":
      return "0x0";
    case "eth_getCode":
      return "0x";
    case "eth_getAccountInfo":
      return { balance: "0x0", nonce: "0x0", code: "0x" };
    case "eth_getStorageAt":
      return ZERO;
    case "eth_getLogs":
      return [];
    default:
      return null;
  }
}
