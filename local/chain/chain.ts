/** A local EVM chain with Base's rules, USDC and account contracts, persisted between starts. */
import { join } from "node:path";
import { fieldOf } from "../../core/rpc/parse-answers.ts";
import { lockFolder } from "../processes/folder-lock.ts";
import { startAnvil } from "./anvil.ts";
import { findChainState, keepChainState } from "./chain-state.ts";
import { type EmptyChain, serveEmptyChain } from "./empty-chain.ts";
import { placeContracts } from "./place-contracts.ts";
import { callRpc, callRpcBatch } from "./rpc.ts";

export type LocalChain = {
  rpcUrl: string;
  wsUrl: string;
  port: number;
  chainId: number;
  pid: number;
  /** Resolves when the node has ended, for whatever reason. */
  exited: Promise<number | string>;
  /** Writes the state, then ends the node. */
  stop: () => Promise<void>;
};

export type LocalChainOptions = {
  /** Folder for the state between starts; without it the state is lost. */
  dataDir?: string;
  /** Default: a free one. */
  port?: number;
  /** Seconds between blocks; 0 mines a block for every transaction. */
  blockTimeS: number;
  /** 84532 (default) or 8453. */
  chainId?: number;
  /** A node of a public network: its audited wallet contracts are placed instead of the stand-in. */
  walletCodeUrl?: string | undefined;
  /**
   * A block takes the same time however many payments the chain has, and the chain cannot be reorganised (empty-chain.ts). A chain that was
   * started with state roots keeps them.
   */
  skipsStateRoots?: boolean;
};

const BASE_SEPOLIA = 84_532;
const STOP_TIMEOUT_MS = 10_000;

/** Resolves when the contracts are in place and blocks are mined at the requested rate. */
export async function startChain(options: LocalChainOptions): Promise<LocalChain> {
  const chainId = options.chainId ?? BASE_SEPOLIA;
  const folder = options.dataDir === undefined ? undefined : join(options.dataDir, String(chainId));
  const lock = folder === undefined ? undefined : lockFolder(folder);
  let empty: EmptyChain | undefined;
  try {
    const state = folder === undefined ? undefined : findChainState(folder);
    empty =
      options.skipsStateRoots && state?.hasGenesis !== true ? serveEmptyChain(chainId, folder) : undefined;
    const anvil = await startAnvil({
      chainId,
      port: options.port ?? 0,
      ...(empty ? { forkUrl: empty.url } : {}),
      ...(state ? { loadStateFile: state.file } : {}),
    });
    const rpcUrl = `http://127.0.0.1:${anvil.port}`;
    const wsUrl = `ws://127.0.0.1:${anvil.port}`;
    try {
      if (empty && state) await refuseForeignState(rpcUrl, state.file);
      await placeContracts(rpcUrl, { walletCodeUrl: options.walletCodeUrl });
    } catch (error) {
      await anvil.process.stop(STOP_TIMEOUT_MS);
      throw error;
    }
    await setClock(rpcUrl);
    if (options.blockTimeS > 0) await callRpc(rpcUrl, "evm_setIntervalMining", [options.blockTimeS]);
    const isInPlace = () => lock?.isInPlace() === true;
    const keeper =
      folder === undefined ? undefined : keepChainState({ rpcUrl, wsUrl }, { folder, isInPlace });
    const stop = async () => {
      await keeper?.stop().catch(() => {});
      await anvil.process.stop(STOP_TIMEOUT_MS);
      lock?.release();
    };
    const { pid, exited } = anvil.process;
    exited.then(() => empty?.stop());
    return { rpcUrl, wsUrl, port: anvil.port, chainId, pid, exited, stop };
  } catch (error) {
    await empty?.stop();
    lock?.release();
    throw error;
  }
}

/** Throws for the state of a chain with another genesis block: an indexer can only follow a chain from its own genesis block. */
async function refuseForeignState(rpcUrl: string, file: string): Promise<void> {
  const [genesis, first] = await callRpcBatch(
    rpcUrl,
    ["0x0", "0x1"].map((number) => ({ method: "eth_getBlockByNumber", params: [number, false] })),
  );
  const [parent, hash] = [fieldOf(first, "parentHash"), fieldOf(genesis, "hash")];
  if (parent !== undefined && parent !== hash)
    throw new Error(`${file} is the state of another local chain. Remove its folder to start a new chain.`);
}

/**
 * Sets block times to this machine's clock. Otherwise the node can permanently be a second behind, depending on when it was started; a
 * transfer to a link created just before would then count as older than the link.
 */
async function setClock(rpcUrl: string): Promise<void> {
  for (;;) {
    const nowS = Math.floor(Date.now() / 1000);
    await callRpc(rpcUrl, "anvil_setTime", [nowS]);
    if (Math.floor(Date.now() / 1000) === nowS) return;
  }
}
