/** `npm start`: runs and supervises the whole service on this machine until Ctrl-C. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { localRelayerKeys, testWalletAddress } from "./chain/accounts.ts";
import { fundUsdc } from "./chain/usdc.ts";
import { runDemo } from "./demo.ts";
import { type DevEnvironment, requireFreePort, startDevEnvironment } from "./dev-environment.ts";
import { type LocalSettings, readLocalSettings } from "./local-settings.ts";
import { setAsideDatabase } from "./postgres/set-aside-database.ts";
import { lockFolder } from "./processes/folder-lock.ts";
import { buildPages, runMigrations } from "./processes/service-process.ts";
import { endLeftovers } from "./processes/stale-processes.ts";
import { supervise } from "./processes/supervise.ts";
import { ensureSecret } from "./secrets.ts";
import {
  type Environment,
  localDefaults,
  metricsPortOf,
  SERVICE_KINDS,
  serviceEnv,
  withFileContents,
} from "./service-env.ts";
import { orderlyShutdown } from "./shutdown.ts";
import { printAddresses, printOpenLink, printStep, report, startTimer } from "./terminal-output.ts";
import { waitUntilReady } from "./wait-until-ready.ts";

/** Balance of the wallet on payment pages at each start, in micro-USDC. */
const TEST_WALLET_UNITS = 10_000_000_000n;

const shutdown = orderlyShutdown();

try {
  const env = withFileContents(process.env);
  await start(readLocalSettings(env), env);
} catch (error) {
  if (!shutdown.isStopping()) {
    report(error instanceof Error ? error.message : String(error));
    await shutdown.stop(1);
  }
}

async function start(settings: LocalSettings, env: Environment): Promise<void> {
  const timer = startTimer();
  const { dataDir } = settings;
  mkdirSync(dataDir, { recursive: true });
  const lock = lockFolder(dataDir);
  shutdown.add(async () => lock.release());
  for (const name of await endLeftovers(dataDir))
    report(`${name} of an earlier start was still running; ended.`);
  await requireFreePort(settings.port, "PORT");

  const [environment] = await Promise.all([startDevEnvironment(settings, shutdown, report), buildPages()]);
  timer.lap(settings.databaseUrl ? "your Postgres" : "Postgres, chain and mailbox are up");
  shutdown.check();
  const notice = settings.databaseUrl ? undefined : await setAsideDatabase(environment.databaseUrl);
  if (notice) report(notice);
  await runMigrations(environment.databaseUrl);
  timer.lap("the schema is up to date");
  shutdown.check();
  await startService(settings, environment, env);
  await waitUntilReady(apiUrlOf(settings), { check: shutdown.check });
  timer.lap(`${SERVICE_KINDS.join(", ")} are ready`);
  const openLink = await demonstrateOnce(settings, environment);
  printAddresses(settings, environment, apiUrlOf(settings));
  if (openLink) printOpenLink(openLink);
}

async function startService(
  settings: LocalSettings,
  environment: DevEnvironment,
  env: Environment,
): Promise<void> {
  const { dataDir } = settings;
  const common = {
    ...environment,
    dataDir,
    jwtSecret: ensureSecret(dataDir, "jwt-secret"),
    otpPepper: ensureSecret(dataDir, "otp-pepper"),
    offerSigningKey: ensureSecret(dataDir, "offer-signing"),
    relayerKeys: localRelayerKeys().join(","),
  };
  const given = {
    ...(await provideTestWallet(environment)),
    ...localDefaults(env),
    ...env,
    PORT: String(settings.port),
    HOST: settings.host,
    BASE_URL: settings.baseUrl,
  };
  const processes = SERVICE_KINDS.map((kind) => ({
    kind,
    env: serviceEnv(kind, common, { ...given, ...metricsPortOf(kind, settings.metricsPort) }),
  }));
  const supervisor = await supervise({
    ...{ dataDir, processes, report },
    onMisconfigured: () => void shutdown.stop(1),
  });
  shutdown.add(supervisor.stop);
}

/** Payment pages offer a wallet that the local node signs for; with another node there is none. */
async function provideTestWallet({
  rpcUrls,
  localNetworks,
}: DevEnvironment): Promise<{ TEST_WALLET?: string }> {
  const isLocal = Object.keys(rpcUrls).every((id) => localNetworks.some((local) => local === id));
  if (!isLocal || process.env.NODE_ENV === "production") return {};
  const address = testWalletAddress();
  for (const url of Object.values(rpcUrls)) await fundUsdc(url, address, TEST_WALLET_UNITS);
  return { TEST_WALLET: address };
}

/**
 * The first start with a data folder runs the demo: one payment from registration to the accountant's file, and a link that is still to be
 * paid. Returns that link's page, also at later starts.
 */
async function demonstrateOnce(
  settings: LocalSettings,
  environment: DevEnvironment,
): Promise<string | undefined> {
  const marker = join(settings.dataDir, "demo-shown");
  const [network] = environment.localNetworks;
  const rpcUrl = network && environment.rpcUrls[network];
  if (existsSync(marker)) return findOpenLink(settings, readFileSync(marker, "utf8"));
  if (!environment.mailbox || !network || !rpcUrl) {
    report("No demo payment: it needs the local chain and the local mailbox.");
    return undefined;
  }
  console.log("\n  One payment over HTTP, from sign-up to the CSV export:\n");
  const world = {
    apiUrl: apiUrlOf(settings),
    origin: new URL(settings.baseUrl).origin,
    rpId: process.env.RP_ID || new URL(settings.baseUrl).hostname,
    mailboxUrl: environment.mailbox.httpUrl,
    rpcUrl,
    network,
  };
  try {
    const openLink = await runDemo(world, printStep);
    writeFileSync(marker, openLink);
    return openLink;
  } catch (error) {
    shutdown.check();
    report(`The demo stopped: ${error instanceof Error ? error.message : String(error)}`);
    report(`The processes' logs are in ${join(settings.dataDir, "logs")}. The service keeps running.`);
    return undefined;
  }
}

/** The page that an earlier start printed, while its link can still be paid. */
async function findOpenLink(settings: LocalSettings, url: string): Promise<string | undefined> {
  const linkId = /\/pay\/(link_[\w-]+)$/.exec(url)?.[1];
  if (!linkId) return undefined;
  const answer = await fetch(`${apiUrlOf(settings)}/api/v1/public/payment-links/${linkId}/data`).catch(
    () => undefined,
  );
  const link = answer?.ok ? ((await answer.json()) as { payable: boolean }) : undefined;
  return link?.payable ? `${settings.baseUrl}/pay/${linkId}` : undefined;
}

function apiUrlOf({ host, port }: LocalSettings): string {
  return `http://${host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host}:${port}`;
}
