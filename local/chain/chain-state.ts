/** A local chain's memory between starts: a file that is always whole, and the one before it. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { callRpc, callRpcBatch, callRpcText } from "./rpc.ts";

/** A write costs its duration; this many times it is waited before the next, so that a long chain costs little. */
const REST_FACTOR = 20;
/** But no longer: what a kill -9 may lose. */
const REST_MAX_MS = 1_000;
/** Empty blocks alone are written this often: losing some of them loses nothing. */
const IDLE_WRITE_MS = 30_000;

const STATE = "state.json";
const PREVIOUS = "state.previous.json";
/** Far more than an indexer is ever behind. */
const EMPTY_BLOCKS_KEPT = 10_000;

type StateBlock = { header: { number: string }; transactions: unknown[] };
/** What is looked at of anvil's dump. */
type ChainState = { best_block_number: number; accounts: object; blocks: StateBlock[] };

export type StateKeeper = { stop: () => Promise<void> };

/**
 * The newest file that is whole; undefined on the first start. Throws when files exist and none can be read.
 * Empty blocks far behind the head are left out of it here, so that a chain which ran for days still starts in a second.
 */
export function findChainState(folder: string): string | undefined {
  const files = [join(folder, STATE), join(folder, PREVIOUS)].filter((file) => existsSync(file));
  for (const file of files) {
    const state = readState(file);
    if (state === undefined) continue;
    const blocks = state.blocks.filter((block) => isKept(block, state.best_block_number));
    if (blocks.length < state.blocks.length) replaceState(folder, JSON.stringify({ ...state, blocks }));
    return blocks.length < state.blocks.length ? join(folder, STATE) : file;
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

/** Writes the state as soon as a block with transactions is there, and once more at `stop`. */
export function keepChainState(node: { rpcUrl: string; wsUrl: string }, folder: string): StateKeeper {
  const { rpcUrl } = node;
  const bell = openBell(node.wsUrl);
  const run = async () => {
    let seen = await headOf(rpcUrl);
    let writtenAt = 0;
    while (await bell.rung()) {
      const head = await headOf(rpcUrl);
      const isDue = Date.now() - writtenAt > IDLE_WRITE_MS;
      if (head === seen || !(isDue || head < seen || (await hasTransactions(rpcUrl, seen + 1, head))))
        continue;
      const startedAt = Date.now();
      await writeChainState(rpcUrl, folder);
      writtenAt = Date.now();
      seen = head;
      const restMs = Math.min(REST_FACTOR * (writtenAt - startedAt), REST_MAX_MS);
      await Promise.race([Bun.sleep(restMs), bell.closed]);
    }
  };
  // A node that went away ends the keeping; whoever supervises it notices the node, not this.
  const running = run().catch(() => {});
  return {
    stop: async () => {
      bell.close();
      await running;
      await writeChainState(rpcUrl, folder);
    },
  };
}

/** Rings at every new block; false when it never will again. A ring that nobody waited for is kept for who waits next. */
function openBell(wsUrl: string) {
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
  const rung = async () => {
    await Promise.race([next.promise, end.promise]);
    next = Promise.withResolvers<void>();
    return socket.readyState <= WebSocket.OPEN;
  };
  return { rung, closed: end.promise, close: () => socket.close() };
}

/** The node's whole state, compressed on the wire. */
async function writeChainState(rpcUrl: string, folder: string): Promise<void> {
  const dump = await callRpcText(rpcUrl, "anvil_dumpState");
  replaceState(folder, gunzipSync(Buffer.from(dump.slice(2), "hex")));
}

/** Atomic: a file beside it, synced, then two renames that keep the file before. */
function replaceState(folder: string, content: string | Uint8Array): void {
  mkdirSync(folder, { recursive: true });
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
