/** A local chain's memory between starts: a file that is always whole, and the one before it. */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { callRpc, callRpcBatch, callRpcText } from "./rpc.ts";

const POLL_MS = 250;
/** A write costs its duration; this many times it is waited before the next, so a long chain costs at most 5 % of a core. */
const REST_FACTOR = 20;
/** Empty blocks alone are written this often: losing some of them loses nothing. */
const IDLE_WRITE_MS = 30_000;

export type StateKeeper = { stop: () => Promise<void> };

/** The newest file that is whole; undefined on the first start. Throws when files exist and none can be read. */
export function findChainState(folder: string): string | undefined {
  const files = [join(folder, "state.json"), join(folder, "state.previous.json")].filter((file) =>
    existsSync(file),
  );
  const whole = files.find(isWhole);
  if (files.length > 0 && whole === undefined) {
    throw new Error(
      `The local chain's state in ${folder} is damaged. Remove the folder to start a new chain.`,
    );
  }
  return whole;
}

function isWhole(file: string): boolean {
  try {
    const state = JSON.parse(readFileSync(file, "utf8")) as { best_block_number?: number; accounts?: object };
    return typeof state.best_block_number === "number" && typeof state.accounts === "object";
  } catch {
    return false;
  }
}

/** Writes the state soon after every block that holds transactions, and once more at `stop`. */
export function keepChainState(rpcUrl: string, folder: string): StateKeeper {
  let stopped = false;
  const run = async () => {
    let seen = await headOf(rpcUrl);
    let writtenAt = 0;
    let restUntil = 0;
    while (!stopped) {
      await Bun.sleep(POLL_MS);
      if (Date.now() < restUntil) continue;
      const head = await headOf(rpcUrl);
      const isDue = Date.now() - writtenAt > IDLE_WRITE_MS;
      if (head === seen || !(isDue || head < seen || (await hasTransactions(rpcUrl, seen + 1, head))))
        continue;
      const startedAt = Date.now();
      await writeChainState(rpcUrl, folder);
      seen = head;
      writtenAt = Date.now();
      restUntil = writtenAt + REST_FACTOR * (writtenAt - startedAt);
    }
  };
  // A node that went away ends the keeping; whoever supervises it notices the node, not this.
  const running = run().catch(() => {});
  return {
    stop: async () => {
      stopped = true;
      await running;
      await writeChainState(rpcUrl, folder);
    },
  };
}

/** Atomic: a file beside it, synced, then two renames that keep the file before. */
export async function writeChainState(rpcUrl: string, folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const dump = await callRpcText(rpcUrl, "anvil_dumpState");
  const [file, fresh] = [join(folder, "state.json"), join(folder, "state.new.json")];
  const descriptor = openSync(fresh, "w");
  writeFileSync(descriptor, gunzipSync(Buffer.from(dump.slice(2), "hex")));
  fsyncSync(descriptor);
  closeSync(descriptor);
  if (existsSync(file)) renameSync(file, join(folder, "state.previous.json"));
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
