/** Runs all checks of `doctor` concurrently. */
import { readAssets } from "../../api/http/assets.ts";
import { requireWalletFiles } from "../../api/pages/further-wallets.ts";
import { describeSpace, inspectMachine, readDiskSpace } from "../../core/runtime/machine-limits.ts";
import { checkChains } from "./check-chains.ts";
import { checkDatabase } from "./check-database.ts";
import { checkDomain } from "./check-domain.ts";
import { checkMail } from "./check-mail.ts";
import { checkRelayers } from "./check-relayers.ts";
import { checkReplica } from "./check-replica.ts";
import { advice, type Finding, fault, good } from "./finding.ts";
import { type Configuration, readConfiguration } from "./read-configuration.ts";

/** Connects to everything the environment names, without changing anything. `isOffline`: only checks the environment. */
export async function examine(
  env: Record<string, string | undefined>,
  { isOffline = false } = {},
): Promise<Finding[]> {
  const configuration = readConfiguration(env);
  if (isOffline) return configuration.findings;
  const { api, worker, indexer } = configuration;
  const { chains = [] } = api ?? worker ?? indexer ?? {};
  const found = await Promise.all([
    checkDatabase(configuration),
    checkReplica(configuration),
    checkChains(chains, { isProduction: env.NODE_ENV === "production" }),
    checkRelayers(configuration),
    checkMail(configuration),
    checkDomain(configuration),
  ]);
  return [...configuration.findings, ...found.flat(), ...checkMachine(), ...checkPages(configuration)];
}

function checkMachine(): Finding[] {
  const risks = inspectMachine();
  if (risks.length > 0) return risks.map((risk) => advice("machine", risk));
  const space = readDiskSpace(process.cwd());
  return [good("machine", `open files and disk are sufficient${space ? `: ${describeSpace(space)}` : ""}`)];
}

function checkPages({ api }: Configuration): Finding[] {
  if (!api) return [];
  try {
    requireWalletFiles(readAssets(), api);
    return [good("pages", "the web pages are built")];
  } catch (error) {
    return [fault("pages", error instanceof Error ? error.message : String(error))];
  }
}
