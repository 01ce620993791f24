/**
 * A node of a chain with only a genesis block, for anvil to fork. anvil computes the root of its whole state for every block, which takes
 * longer the more payments the chain has; on a fork it computes none. Reorganisations are not possible on a fork.
 */
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { hashHeader } from "../../core/chain/encode-header.ts";

const ZERO = `0x${"0".repeat(64)}`;
const EMPTY_TRIE = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421";
const GENESIS = {
  number: "0x0",
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
/** Fields of the genesis block that distinguish chains, stored in the chain's folder. */
const IDENTITY_FILE = "genesis.json";
type Identity = { timestamp: string; extraData: string };
/** Block tags, and the only height. */
const KNOWN = new Set(["latest", "safe", "finalized", "earliest", "pending", "0x0"]);
/** anvil reads an account both in one request and in three concurrent ones, and then uses whichever answered first: one is cheaper. */
const THREE_REQUESTS = new Set(["eth_getBalance", "eth_getCode", "eth_getTransactionCount"]);
const THREE_REQUESTS_DELAY_MS = 20;

type RpcRequest = { id: unknown; method: string; params: readonly unknown[] };

export type EmptyChain = { url: string; stop: () => Promise<void> };

/** `folder`: where the genesis block is stored between starts. */
export function serveEmptyChain(chainId: number, folder: string | undefined): EmptyChain {
  const fields = { ...GENESIS, ...(folder === undefined ? newIdentity() : readOrMakeIdentity(folder)) };
  const genesis = { ...fields, hash: hashHeader(fields) };
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    development: false,
    async fetch(request) {
      const asked = (await request.json().catch(() => undefined)) as Partial<RpcRequest> | undefined;
      if (typeof asked?.method !== "string")
        return new Response("a JSON-RPC request is expected", { status: 400 });
      const { id, method, params = [] } = asked;
      if (THREE_REQUESTS.has(method)) await Bun.sleep(THREE_REQUESTS_DELAY_MS);
      return Response.json({ jsonrpc: "2.0", id, result: answer({ method, params }, { chainId, genesis }) });
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) };
}

/** So that no two chains have a block in common: the indexer would take the second for a reorganisation of the first. */
function newIdentity(): Identity {
  const nowS = Math.floor(Date.now() / 1000);
  return { timestamp: `0x${nowS.toString(16)}`, extraData: `0x${randomBytes(32).toString("hex")}` };
}

function readOrMakeIdentity(folder: string): Identity {
  const file = join(folder, IDENTITY_FILE);
  if (existsSync(file)) return JSON.parse(readFileSync(file, "utf8")) as Identity;
  const fields = newIdentity();
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${file}.new`, JSON.stringify(fields), { flush: true });
  renameSync(`${file}.new`, file);
  return fields;
}

function answer(
  { method, params }: Omit<RpcRequest, "id">,
  { chainId, genesis }: { chainId: number; genesis: { hash: string; baseFeePerGas: string } },
): unknown {
  switch (method) {
    case "eth_chainId":
      return `0x${chainId.toString(16)}`;
    case "net_version":
      return String(chainId);
    case "eth_gasPrice":
      return genesis.baseFeePerGas;
    case "eth_getBlockByNumber":
      return KNOWN.has(String(params[0])) ? genesis : null;
    case "eth_getBlockByHash":
      return params[0] === genesis.hash ? genesis : null;
    case "eth_getBlockReceipts":
      return KNOWN.has(String(params[0])) || params[0] === genesis.hash ? [] : null;
    case "eth_feeHistory":
      return {
        oldestBlock: "0x0",
        baseFeePerGas: [genesis.baseFeePerGas, genesis.baseFeePerGas],
        gasUsedRatio: [0],
      };
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
