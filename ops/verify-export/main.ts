/**
 * `bun run verify-export FILE --rpc URL [--rpc URL] [--wallet ADDRESS] [--json]`: checks an export with proofs against the chain. Exit code
 * 0: everything is proven; 1: something is not; 2: nothing could be checked.
 */
import { readFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import type { Hex } from "../../core/domain/networks.ts";
import { type Verification, verifyFile } from "./verify-file.ts";

const USAGE = "usage: bun run verify-export FILE --rpc URL [--rpc URL] [--wallet ADDRESS] [--json]";
const PROBLEMS_SHOWN = 50;

try {
  process.exitCode = await run();
} catch (error) {
  console.error(`not verified: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 2;
}

async function run(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rpc: { type: "string", multiple: true },
      wallet: { type: "string" },
      json: { type: "boolean", default: false },
    },
  });
  const [path] = positionals;
  const { rpc: rpcUrls, wallet } = values;
  if (path === undefined || positionals.length > 1 || !rpcUrls) throw new Error(USAGE);
  if (wallet !== undefined && !/^0x[0-9a-f]{40}$/i.test(wallet))
    throw new Error("--wallet is not an address");
  const trust = { rpcUrls, wallet: wallet?.toLowerCase() as Hex | undefined };
  const verification = await verifyFile(await readFile(path, "utf8"), trust);
  if (values.json) console.log(JSON.stringify(verification, undefined, 2));
  else for (const line of describe(verification)) console.log(line);
  return verification.ok ? 0 : 1;
}

function describe({ ok, rows, proven, unconfirmed, ...rest }: Verification): string[] {
  const { moneyIn, moneyOut, byNetwork, wallets, problems } = rest;
  return [
    ...wallets.map(({ network, address }) => `wallet on ${network}: ${address}`),
    `${rows} ${rows === 1 ? "transaction" : "transactions"}: ${proven} proven, ${unconfirmed} not confirmed, ${rows - proven - unconfirmed} without a valid proof`,
    ...(byNetwork.length > 1
      ? byNetwork.map((one) => `on ${one.network} in ${one.moneyIn} USDC, out ${one.moneyOut} USDC`)
      : [`in ${moneyIn} USDC, out ${moneyOut} USDC`]),
    ...problems
      .slice(0, PROBLEMS_SHOWN)
      .map(({ row, problem }) => `✗ ${row === null ? "" : `${row}: `}${problem}`),
    ...(problems.length > PROBLEMS_SHOWN ? [`… and ${problems.length - PROBLEMS_SHOWN} more`] : []),
    ok
      ? "✓ every confirmed transfer in the file is on the chain; its other contents (texts, links, kinds) are the service's statements"
      : "✗ the file does not match the chain",
  ];
}
