/** The environment of the service on a developer's machine: database, chains, mailbox. Services named in the settings are used instead. */
import { join } from "node:path";
import { NETWORKS, type NetworkId } from "../core/domain/networks.ts";
import { startChain } from "./chain/chain.ts";
import { isPortFree, preferPort } from "./free-port.ts";
import type { LocalSettings } from "./local-settings.ts";
import { type Mailbox, startMailbox } from "./mailbox/mailbox.ts";
import { chooseDatabaseFolder } from "./postgres/database-folder.ts";
import { startPostgres } from "./postgres/postgres.ts";
import { restartOnExit } from "./processes/restart-policy.ts";
import { forgetProcess, recordProcess } from "./processes/stale-processes.ts";

export type DevEnvironment = {
  databaseUrl: string;
  rpcUrls: Partial<Record<NetworkId, string>>;
  smtpUrl: string;
  /** Undefined when SMTP_URL names another server. */
  mailbox: Mailbox | undefined;
  /** Networks with a local chain. */
  localNetworks: NetworkId[];
};

type Closers = { add: (close: () => Promise<void>) => void };

const MAILBOX_PORT = 8025;
const DATABASE_NAME = "payments";

/** Starts what is missing. Every started part is registered in `closers` immediately, even if a later one fails. */
export async function startDevEnvironment(
  settings: LocalSettings,
  closers: Closers,
  report: (sentence: string) => void,
): Promise<DevEnvironment> {
  // The database stops last, so it is registered first.
  const database = settings.databaseUrl
    ? { url: settings.databaseUrl }
    : await startDatabase(settings, closers, report);
  const localNetworks = settings.networks.filter((id) => settings.rpcUrls[id] === undefined);
  const rpcUrls = { ...settings.rpcUrls };
  for (const [index, id] of localNetworks.entries()) {
    rpcUrls[id] = await startLocalChain(id, settings.chainPort + index, settings, closers, report);
  }
  const mailbox = settings.smtpUrl
    ? undefined
    : await startMailbox({ httpPort: await preferPort(MAILBOX_PORT) });
  if (mailbox) closers.add(mailbox.stop);
  return {
    databaseUrl: database.url,
    rpcUrls,
    smtpUrl: settings.smtpUrl ?? mailbox?.smtpUrl ?? "",
    mailbox,
    localNetworks,
  };
}

async function startDatabase(settings: LocalSettings, closers: Closers, report: (sentence: string) => void) {
  const { folder, notice } = chooseDatabaseFolder(settings.dataDir);
  if (notice) report(notice);
  const start = () => startPostgres({ dataDir: folder, database: DATABASE_NAME });
  const { part, stop } = await restartOnExit("Postgres", start, report);
  closers.add(stop);
  return part;
}

async function startLocalChain(
  id: NetworkId,
  port: number,
  settings: LocalSettings,
  closers: Closers,
  report: (sentence: string) => void,
): Promise<string> {
  await requireFreePort(port, "CHAIN_PORT");
  const { dataDir, blockTimeS, walletCodeUrl } = settings;
  const start = async () => {
    const chain = await startChain({
      dataDir: join(dataDir, "chain"),
      port,
      blockTimeS,
      walletCodeUrl,
      chainId: NETWORKS[id].chainId,
      skipsStateRoots: true,
    });
    recordProcess(dataDir, `chain-${id}`, chain.pid);
    return chain;
  };
  const { part, stop } = await restartOnExit(`The local chain of ${id}`, start, report);
  closers.add(async () => {
    await stop();
    forgetProcess(dataDir, `chain-${id}`);
  });
  return part.rpcUrl;
}

/** Throws a message that names the variable for another port. */
export async function requireFreePort(port: number, variable: string): Promise<void> {
  if (await isPortFree(port)) return;
  throw new Error(
    `Port ${port} is in use by another program. Stop it, or choose another port: ${variable}=${port + 10} npm start`,
  );
}
