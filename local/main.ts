/** `npm start`: runs and supervises the whole service on this machine until Ctrl-C. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { localRelayerKeys } from "./chain/accounts.ts";
import { runDemo } from "./demo.ts";
import { type DevEnvironment, requireFreePort, startDevEnvironment } from "./dev-environment.ts";
import { type LocalSettings, readLocalSettings } from "./local-settings.ts";
import { lockFolder } from "./processes/folder-lock.ts";
import { buildPages, runMigrations } from "./processes/service-process.ts";
import { endLeftovers } from "./processes/stale-processes.ts";
import { supervise } from "./processes/supervise.ts";
import { keepSecret } from "./secrets.ts";
import { SERVICE_KINDS, serviceEnv } from "./service-env.ts";
import { orderlyShutdown } from "./shutdown.ts";
import { printAddresses, printStep, report, startTimer } from "./terminal-output.ts";
import { waitUntilReady } from "./wait-until-ready.ts";

const shutdown = orderlyShutdown();

try {
  await start(readLocalSettings(process.env));
} catch (error) {
  if (!shutdown.isStopping()) {
    report(error instanceof Error ? error.message : String(error));
    await shutdown.stop(1);
  }
}

async function start(settings: LocalSettings): Promise<void> {
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
  await runMigrations(environment.databaseUrl);
  timer.lap("the schema is up to date");
  shutdown.check();
  await startService(settings, environment);
  await waitUntilReady(apiUrlOf(settings), { check: shutdown.check });
  timer.lap(`${SERVICE_KINDS.join(", ")} are ready`);
  await demonstrateOnce(settings, environment);
  printAddresses(settings, environment, apiUrlOf(settings));
}

async function startService(settings: LocalSettings, environment: DevEnvironment): Promise<void> {
  const { dataDir } = settings;
  const common = {
    ...environment,
    dataDir,
    jwtSecret: keepSecret(dataDir, "jwt-secret"),
    otpPepper: keepSecret(dataDir, "otp-pepper"),
    relayerKeys: localRelayerKeys().join(","),
  };
  const given = {
    ...process.env,
    PORT: String(settings.port),
    HOST: settings.host,
    BASE_URL: settings.baseUrl,
  };
  const processes = SERVICE_KINDS.map((kind) => ({ kind, env: serviceEnv(kind, common, given) }));
  const supervisor = await supervise({ dataDir, processes, report });
  shutdown.add(supervisor.stop);
}

/** The first start of a data folder runs the demo: one payment from registration to the accountant's file. */
async function demonstrateOnce(settings: LocalSettings, environment: DevEnvironment): Promise<void> {
  const marker = join(settings.dataDir, "demo-shown");
  const [network] = environment.localNetworks;
  const rpcUrl = network && environment.rpcUrls[network];
  if (existsSync(marker)) return;
  if (!environment.mailbox || !network || !rpcUrl) {
    report("No demo payment: it needs the local chain and the local mailbox.");
    return;
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
    await runDemo(world, printStep);
    writeFileSync(marker, new Date().toISOString());
  } catch (error) {
    shutdown.check();
    report(`The demo stopped: ${error instanceof Error ? error.message : String(error)}`);
    report(`The processes' logs are in ${join(settings.dataDir, "logs")}. The service keeps running.`);
  }
}

function apiUrlOf({ host, port }: LocalSettings): string {
  return `http://${host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host}:${port}`;
}
