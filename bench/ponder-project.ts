/**
 * Ponder, the indexer we compare with: a project that stores every USDC Transfer, installed on demand under .tools. Its version and that of
 * its Node are pinned here; neither is a dependency of the service.
 */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { NETWORKS } from "../core/domain/networks.ts";

const FOLDER = join(import.meta.dir, "../.tools/ponder");
const NODE_PACKAGE = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`;
const INSTALL_TIMEOUT_MS = 180_000;
const { chainId, usdc } = NETWORKS["base-sepolia"];

/** Ponder needs Node 22; the override is the newest version on npm within Ponder's range. */
const PACKAGE = {
  name: "bench-ponder",
  private: true,
  type: "module",
  dependencies: {
    ponder: "0.17.7",
    viem: "2.57.1",
    hono: "4.13.19",
    typescript: "5.9.3",
    [NODE_PACKAGE]: "22.23.3",
  },
  overrides: { "@ponder/utils": "0.2.18" },
};

const FILES: Record<string, string> = {
  "package.json": JSON.stringify(PACKAGE, null, 2),
  "tsconfig.json": JSON.stringify({ compilerOptions: { module: "ESNext", moduleResolution: "bundler" } }),
  "ponder.config.ts": `import { createConfig } from "ponder";
import { parseAbi } from "viem";

const { DATABASE_URL, RPC_URLS, WS_URL } = process.env;
export default createConfig({
  database: { kind: "postgres", connectionString: DATABASE_URL },
  chains: { local: { id: ${chainId}, rpc: RPC_URLS.split(","), ws: WS_URL || undefined, pollingInterval: 1000 } },
  contracts: {
    USDC: {
      chain: "local",
      abi: parseAbi(["event Transfer(address indexed from, address indexed to, uint256 value)"]),
      address: "${usdc.address}",
      startBlock: 0,
    },
  },
});
`,
  "ponder.schema.ts": `import { onchainTable } from "ponder";

export const transfers = onchainTable("transfers", (t) => ({
  id: t.text().primaryKey(),
  blockNumber: t.bigint().notNull(),
  blockTime: t.bigint().notNull(),
  txHash: t.hex().notNull(),
  logIndex: t.integer().notNull(),
  fromAddress: t.hex().notNull(),
  toAddress: t.hex().notNull(),
  amountUnits: t.bigint().notNull(),
}));
`,
  "src/index.ts": `import { ponder } from "ponder:registry";
import { transfers } from "ponder:schema";

ponder.on("USDC:Transfer", async ({ event, context }) => {
  await context.db.insert(transfers).values({
    id: event.id,
    blockNumber: event.block.number,
    blockTime: event.block.timestamp,
    txHash: event.transaction.hash,
    logIndex: event.log.logIndex,
    fromAddress: event.args.from,
    toAddress: event.args.to,
    amountUnits: event.args.value,
  });
});
`,
  "src/api/index.ts": `import { Hono } from "hono";

export default new Hono();
`,
};

/** How to run Ponder; `reason` when it cannot be installed here. */
export type Ponder = { folder: string; node: string; script: string } | { reason: string };

export async function installPonder(): Promise<Ponder> {
  if (process.env.BENCH_PONDER === "0") return { reason: "BENCH_PONDER=0" };
  const node = join(FOLDER, "node_modules", NODE_PACKAGE, "bin/node");
  const script = join(FOLDER, "node_modules/ponder/dist/esm/bin/ponder.js");
  for (const [path, text] of Object.entries(FILES)) {
    mkdirSync(dirname(join(FOLDER, path)), { recursive: true });
    writeFileSync(join(FOLDER, path), text);
  }
  if (!(existsSync(node) && existsSync(script)))
    console.log(`installing Ponder ${PACKAGE.dependencies.ponder} into .tools/ponder`);
  // always runs: it completes an interrupted installation, and is quick for a complete one
  const installing = Bun.spawn([process.execPath, "install", "--ignore-scripts", "--silent"], {
    cwd: FOLDER,
    stdout: "ignore",
    stderr: "pipe",
    timeout: INSTALL_TIMEOUT_MS,
  });
  const [code, errors] = await Promise.all([installing.exited, new Response(installing.stderr).text()]);
  if (code !== 0) return { reason: `its packages could not be installed (${code}): ${errors.trim()}` };
  const { exitCode, stdout } = Bun.spawnSync([node, "--version"]);
  if (exitCode !== 0) return { reason: `its Node does not run here (${exitCode}) ${stdout}` };
  return { folder: FOLDER, node, script };
}
