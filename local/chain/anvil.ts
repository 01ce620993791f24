/** Starts the anvil binary of the npm platform package, without its install script and Node wrapper. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { type BoundProcess, spawnBound } from "../processes/bound-process.ts";

const START_TIMEOUT_MS = 30_000;
const OUTPUT_TAIL_CHARS = 4_000;
/** Blocks whose state can be queried; deeper ones would be written to the home folder. */
const KEPT_STATES = 128;
/** Roughly Base's gas per second. */
const BLOCK_GAS_LIMIT = 100_000_000;

export type AnvilOptions = { chainId: number; port: number; loadStateFile?: string; forkUrl?: string };

/** Resolves when the node listens. Port 0 picks a free one. Blocks are mined immediately until configured otherwise. */
export async function startAnvil(options: AnvilOptions): Promise<{ port: number; process: BoundProcess }> {
  let output = "";
  const listening = Promise.withResolvers<number>();
  const anvil = await spawnBound({
    command: findAnvil(),
    args: [
      ...["--host", "127.0.0.1", "--port", String(options.port), "--chain-id", String(options.chainId)],
      // Osaka is Base's rule set since Azul: P256VERIFY at 0x100, 16,777,216 gas a transaction.
      ...["--hardfork", "osaka", "--enable-tx-gas-limit", "--gas-limit", String(BLOCK_GAS_LIMIT)],
      ...["--prune-history", String(KEPT_STATES)],
      ...(options.forkUrl === undefined ? [] : ["--fork-url", options.forkUrl, "--no-storage-caching"]),
      ...(options.loadStateFile === undefined ? [] : ["--load-state", options.loadStateFile]),
    ],
    stopSignal: "SIGTERM",
    onOutput: (chunk) => {
      output = (output + chunk.toString()).slice(-OUTPUT_TAIL_CHARS);
      const port = /Listening on 127\.0\.0\.1:(\d+)/.exec(output)?.[1];
      if (port) listening.resolve(Number(port));
    },
  });
  anvil.exited.then((code) => listening.reject(new Error(`anvil ended at start (${code}): ${output}`)));
  const timer = setTimeout(() => {
    listening.reject(new Error(`anvil did not listen within ${START_TIMEOUT_MS} ms: ${output}`));
    anvil.kill("SIGKILL");
  }, START_TIMEOUT_MS);
  try {
    return { port: await listening.promise, process: anvil };
  } finally {
    clearTimeout(timer);
  }
}

function findAnvil(): string {
  const arch = { x64: "amd64", arm64: "arm64" }[process.arch as string] ?? process.arch;
  const name = `@foundry-rs/anvil-${process.platform}-${arch}`;
  try {
    // The platform package is beside or below the package that depends on it.
    const wrapper = createRequire(import.meta.url).resolve("@foundry-rs/anvil/package.json");
    const file = join(dirname(createRequire(wrapper).resolve(`${name}/package.json`)), "bin", "anvil");
    if (existsSync(file)) return file;
  } catch (cause) {
    throw new Error(
      `No local chain for this machine (package ${name} is not installed). Set RPC_URL_BASE_SEPOLIA.`,
      {
        cause,
      },
    );
  }
  throw new Error(`Package ${name} holds no anvil binary; install the packages again.`);
}
