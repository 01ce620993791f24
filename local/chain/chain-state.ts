/** Saves a local chain's state between starts: an always complete file, and the previous one. */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { callRpc, callRpcBatch, callRpcText } from "./rpc.ts";

/** After a write, waits this multiple of its duration, so that a long chain costs little. */
const REST_FACTOR = 20;
/** But not longer than this: the maximum loss after a kill -9. */
const REST_MAX_MS = 1_000;
/** Blocks without transactions are written this often: losing some of them is harmless. */
const IDLE_WRITE_MS = 30_000;

const STATE = "state.json";
const PREVIOUS = "state.previous.json";
/** Far more than any indexer lags behind. */
const EMPTY_BLOCKS_KEPT = 10_000;

type StateBlock = { header: { number: string }; transactions: unknown[] };
/** The fields of anvil's dump that are read. */
type ChainState = { best_block_number: number; accounts: object; blocks: StateBlock[] };

export type StateKeeper = { stop: () => Promise<void> };

/** `hasGenesis`: the state of a chain that is not a fork. A fork's genesis block is served by empty-chain.ts. */
export type FoundState = { file: string; hasGenesis: boolean };

/**
 * The newest complete file; undefined on the first start. Throws when files exist and none can be read.
 * Drops empty blocks far behind the head, so that a chain that ran for days still starts in a second.
 */
export function findChainState(folder: string): FoundState | undefined {
  const files = [join(folder, STATE), join(folder, PREVIOUS)].filter((file) => existsSync(file));
  for (const file of files) {
    const state = readState(file);
    if (state === undefined) continue;
    const blocks = state.blocks.filter((block) => isKept(block, state.best_block_number));
    if (blocks.length < state.blocks.length) replaceState(folder, JSON.stringify({ ...state, blocks }));
    return {
      file: blocks.length < state.blocks.length ? join(folder, STATE) : file,
      hasGenesis: blocks.some(({ header }) => Number(header.number) === 0),
    };
  }
  if (files.length > 0) {
    throw new Error(
      `The local chain's state in ${folder} is damaged. Remove the folder to start a new chain.`,
    );
  }
  return undefined;
}

function readState(file: string): ChainState | undefined {
  try {
    const state = JSON.parse(readFileSync(file, "utf8")) as Partial<ChainState>;
    const isWhole =
      typeof state.best_block_number === "number" && state.accounts && Array.isArray(state.blocks);
    return isWhole ? (state as ChainState) : undefined;
  } catch {
    return undefined;
  }
}

function isKept(block: StateBlock, head: number): boolean {
  const number = Number(block.header.number);
  return number === 0 || block.transactions.length > 0 || number > head - EMPTY_BLOCKS_KEPT;
}

/**
 * Writes the state soon after a block with transactions, and once more at `stop`; not if the folder was removed meanwhile (`isInPlace`),
 * since another chain may have started there.
 */
export function keepChainState(
  node: { rpcUrl: string; wsUrl: string },
  { folder, isInPlace }: { folder: string; isInPlace: () => boolean },
): StateKeeper {
  const { rpcUrl } = node;
  const write = async () => {
    const dump = await callRpcText(rpcUrl, "anvil_dumpState");
    // the node's full state, compressed in transit
    if (isInPlace()) replaceState(folder, gunzipSync(Buffer.from(dump.slice(2), "hex")));
  };
  const blocks = watchBlocks(node.wsUrl);
  const run = async () => {
    let seen = await headOf(rpcUrl);
    let writtenAt = 0;
    while (await blocks.nextBlock()) {
      const head = await headOf(rpcUrl);
      const isDue = Date.now() - writtenAt > IDLE_WRITE_MS;
      if (head === seen || !(isDue || head < seen || (await hasTransactions(rpcUrl, seen + 1, head))))
        continue;
      const startedAt = Date.now();
      await write();
      writtenAt = Date.now();
      seen = head;
      const restMs = Math.min(REST_FACTOR * (writtenAt - startedAt), REST_MAX_MS);
      await Promise.race([Bun.sleep(restMs), blocks.closed]);
    }
  };
  // A dead node ends this loop; the node's supervisor notices that, not this.
  const running = run().catch(() => {});
  return {
    stop: async () => {
      blocks.close();
      await running;
      await write();
    },
  };
}

/** Resolves true at every new block, false when there will be none. A block that arrived while nobody waited counts for the next wait. */
function watchBlocks(wsUrl: string) {
  const socket = new WebSocket(wsUrl);
  const end = Promise.withResolvers<void>();
  let next = Promise.withResolvers<void>();
  socket.onopen = () => {
    socket.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "eth_subscribe", params: ["newHeads"] }));
  };
  socket.onmessage = () => next.resolve();
  socket.onclose = () => {
    end.resolve();
    next.resolve();
  };
  const nextBlock = async () => {
    await Promise.race([next.promise, end.promise]);
    next = Promise.withResolvers<void>();
    return socket.readyState <= WebSocket.OPEN;
  };
  return { nextBlock, closed: end.promise, close: () => socket.close() };
}

/** Atomic: written beside it and synced, then two renames that keep the previous file. */
function replaceState(folder: string, content: string | Uint8Array): void {
  const [file, fresh] = [join(folder, STATE), join(folder, "state.new.json")];
  writeFileSync(fresh, content, { flush: true });
  if (existsSync(file)) renameSync(file, join(folder, PREVIOUS));
  renameSync(fresh, file);
}

async function headOf(rpcUrl: string): Promise<number> {
  return Number(await callRpc(rpcUrl, "eth_blockNumber"));
}

async function hasTransactions(rpcUrl: string, from: number, to: number): Promise<boolean> {
  const numbers = Array.from({ length: to - from + 1 }, (_, index) => `0x${(from + index).toString(16)}`);
  const counts = await callRpcBatch(
    rpcUrl,
    numbers.map((number) => ({ method: "eth_getBlockTransactionCountByNumber", params: [number] })),
  );
  return counts.some((count) => Number(count) > 0);
}
