/** The whole service for end-to-end and chaos tests: real processes on a database, a chain and a mailbox of their own. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { NetworkId } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { findFreePort } from "../../local/free-port.ts";
import {
  type ServiceProcess,
  type ServiceProgram,
  startServiceProcess,
} from "../../local/processes/service-process.ts";
import {
  SERVICE_KINDS,
  type ServiceKind,
  type ServiceSettings,
  serviceEnv,
} from "../../local/service-env.ts";
import { waitUntilReady } from "../../local/wait-until-ready.ts";
import { type FaultProxy, startFaultProxy } from "../rpc/fault-proxy.ts";
import { startTestChain, type TestChain } from "./chain.ts";
import { serviceProgram, settingsOfRun } from "./compiled-services.ts";
import { startTestMailbox, type TestMailbox } from "./mailbox.ts";
import { createTestDatabase, TEST_POOL, type TestDatabase } from "./postgres.ts";

/** "api", "worker", "indexer", and further ones of a kind: "api-2", "worker-2". */
export type ProcessName = ServiceKind | `${ServiceKind}-${number}`;

export type ServiceParts = {
  db: { url: string };
  chain: { rpcUrl: string; chainId: number };
  /** A chain of another id: then both networks are enabled. */
  otherChain?: { rpcUrl: string; chainId: number };
  smtp: { smtpUrl: string };
  /** Laid over the local defaults for every process (NODE_ENV=development, TEST_MODE=1, one confirmation). */
  env?: Record<string, string>;
  /** Default: one of each kind. */
  processes?: readonly ProcessName[];
  /** Each process serves its metrics on a port of its own. */
  hasMetrics?: boolean;
  /** Default: all. The others wait for their `start`. */
  isStarted?: (name: ProcessName) => boolean;
  /** Asked at each start of a process. Undefined: this version's. */
  programOf?: (name: ProcessName) => ServiceProgram | undefined;
};

export type Service = {
  /** Origin of the first API process, without a slash at the end. */
  baseUrl: string;
  baseUrlOf: (name: ProcessName) => string;
  /** Host and port of a process's metrics, with `hasMetrics`. */
  metricsOf: (name: ProcessName) => string;
  pidOf: (name: ProcessName) => number;
  /** What a process has written so far, over all its lives. */
  logOf: (name: ProcessName) => string;
  /** Sends a signal (default SIGKILL) and waits until the process is gone. */
  kill: (name: ProcessName, signal?: "SIGKILL" | "SIGTERM" | "SIGINT") => Promise<void>;
  /** Starts a process that is gone, on the same port. An API is waited for until it is ready. */
  start: (name: ProcessName) => Promise<void>;
  restart: (name: ProcessName) => Promise<void>;
  /** Starts what a test that failed half-way has killed, so that the next one finds a whole service. */
  startMissing: () => Promise<void>;
  stop: () => Promise<void>;
};

export type World = Service & {
  db: TestDatabase;
  /** A direct connection to the service's database. */
  sql: Sql;
  chain: TestChain;
  /** Of base, where both networks are wanted. */
  otherChain: TestChain | undefined;
  mailbox: TestMailbox;
};

/** A world whose service reaches the node only through `proxy` and `spare`, which fail on order. `chain` is the node itself. */
export type FaultyWorld = World & { proxy: FaultProxy; spare: FaultProxy | undefined };

export type WorldOptions = Pick<ServiceParts, "env" | "processes" | "hasMetrics" | "programOf"> & {
  blockTimeS?: number;
  /** Of the chain: see LocalChainOptions. */
  skipsStateRoots?: boolean;
  /** A second chain, so that base is enabled too. */
  bothNetworks?: boolean;
  /** The service has two URLs of the chain: `proxy`, then `spare`. */
  hasSpare?: boolean;
  /** The service's way to its database, when it is not the direct one. */
  databaseWay?: (databaseUrl: string) => string;
};

/** Of a service whose tests expect outcomes of payments: a busy machine may need longer than the default for one. */
export const PATIENT_ENV = { PAY_WAIT_MS: "30000" };
/** Shorter than a test may take, so that the reason is what is read. */
const READY_TIMEOUT_MS = 60_000;
const BASE_CHAIN_ID = 8453;
const LOG_KEPT_CHARS = 2_000_000;
/** Of a test's own connection pool. */
const CONNECTIONS = 4;

/** Starts the processes and waits until every API answers /health/ready. */
export async function startService(parts: ServiceParts): Promise<Service> {
  const names = parts.processes ?? SERVICE_KINDS;
  const dataDir = mkdtempSync(join(tmpdir(), "test-service-"));
  const settings = settingsOf(parts, dataDir);
  const ports = new Map<ProcessName, number>();
  for (const name of names) if (kindOf(name) === "api") ports.set(name, await findFreePort());
  const metricsPorts = new Map<ProcessName, number>();
  if (parts.hasMetrics) for (const name of names) metricsPorts.set(name, await findFreePort());
  const logs = new Map<ProcessName, string>(names.map((name) => [name, ""]));
  const running = new Map<ProcessName, ServiceProcess>();
  const died = new Set<ProcessName>();
  const started = new Set<ProcessName>();

  const baseUrlOf = (name: ProcessName) => `http://localhost:${need(ports, name)}`;
  // All APIs speak for one public origin, as behind a load balancer.
  const baseUrl = baseUrlOf(names.find((name) => ports.has(name)) ?? "api");
  const logOf = (name: ProcessName) => need(logs, name);
  const start = async (name: ProcessName) => {
    if (running.has(name)) throw new Error(`${name} is running already`);
    const given = {
      ...quietEnv(),
      BASE_URL: baseUrl,
      ...settingsOfRun(),
      ...parts.env,
      PORT: String(ports.get(name) ?? ""),
      ...(metricsPorts.has(name) ? { METRICS_PORT: String(metricsPorts.get(name)) } : {}),
    };
    const kind = kindOf(name);
    const child = await startServiceProcess(
      kind,
      serviceEnv(kind, settings, given),
      (line) => logs.set(name, `${logOf(name)}${line}\n`.slice(-LOG_KEPT_CHARS)),
      parts.programOf?.(name) ?? serviceProgram(kind),
    );
    running.set(name, child);
    started.add(name);
    died.delete(name);
    child.exited.then((code) => {
      running.delete(name);
      logs.set(name, `${logOf(name)}${name} ended: ${code}\n`);
      if (typeof code === "number" && code !== 0) died.add(name);
    });
    if (ports.has(name)) {
      await waitUntilReady(baseUrlOf(name), { check: checkStarted, timeoutMs: READY_TIMEOUT_MS });
    }
  };
  /** A process that died of its own is a fault of the start, whichever it is; its log says why. */
  const checkStarted = () => {
    const [name] = died;
    if (name) throw new Error(`${name} ended at start:\n${logOf(name)}`);
  };
  const kill = async (name: ProcessName, signal: "SIGKILL" | "SIGTERM" | "SIGINT" = "SIGKILL") => {
    const child = need(running, name);
    child.kill(signal);
    await child.exited;
  };
  const stop = async () => {
    await Promise.all([...running.values()].map((child) => child.stop()));
    rmSync(dataDir, { recursive: true, force: true });
  };
  try {
    await Promise.all(names.filter((name) => parts.isStarted?.(name) ?? true).map(start));
  } catch (error) {
    await stop();
    throw error;
  }
  const restart = async (name: ProcessName) => {
    if (running.has(name)) await kill(name, "SIGTERM");
    await start(name);
  };
  const startMissing = async () => {
    await Promise.all([...started].filter((name) => !running.has(name)).map(start));
  };
  const pidOf = (name: ProcessName) => need(running, name).pid;
  const metricsOf = (name: ProcessName) => `127.0.0.1:${need(metricsPorts, name)}`;
  return { baseUrl, baseUrlOf, metricsOf, pidOf, logOf, kill, start, restart, startMissing, stop };
}

/** A service with a database, a chain and a mailbox of its own; `stop` takes all of them down. */
export async function startWorld(options: WorldOptions = {}): Promise<World> {
  const { proxy, spare, ...world } = await openWorld(options, undefined);
  return world;
}

/** With `hasWebSocket` the indexer reads blocks as they are announced; without it, at its next poll. */
export async function startFaultyWorld({
  hasWebSocket = false,
  ...options
}: WorldOptions & { hasWebSocket?: boolean } = {}): Promise<FaultyWorld> {
  const { proxy, ...world } = await openWorld(options, (url) => startFaultProxy(url, { hasWebSocket }));
  if (!proxy) throw new Error("the proxy was not started");
  return { ...world, proxy };
}

async function openWorld(
  {
    blockTimeS = 0,
    bothNetworks = false,
    hasSpare = false,
    skipsStateRoots = false,
    databaseWay = (url) => url,
    ...options
  }: WorldOptions,
  startProxy: ((nodeUrl: string) => FaultProxy) | undefined,
): Promise<World & { proxy: FaultProxy | undefined; spare: FaultProxy | undefined }> {
  const [db, chain, mailbox, otherChain] = await Promise.all([
    createTestDatabase(),
    startTestChain({ blockTimeS, skipsStateRoots }),
    startTestMailbox(),
    bothNetworks ? startTestChain({ blockTimeS, chainId: BASE_CHAIN_ID }) : undefined,
  ]);
  const sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: CONNECTIONS });
  const proxy = startProxy?.(chain.rpcUrl);
  const spare = hasSpare ? startProxy?.(chain.rpcUrl) : undefined;
  const rpcUrl = [proxy?.url ?? chain.rpcUrl, ...(spare ? [spare.url] : [])].join(",");
  const end = async () => {
    await sql.end({ timeout: 5 });
    await Promise.all([proxy?.stop(), spare?.stop()]);
    await Promise.all([db.drop(), chain.stop(), mailbox.stop(), otherChain?.stop()]);
  };
  try {
    const service = await startService({
      ...{ db: { url: databaseWay(db.url) }, chain: { ...chain, rpcUrl } },
      ...{ smtp: mailbox, ...options, ...(otherChain ? { otherChain } : {}) },
    });
    const stop = async () => {
      await service.stop();
      await end();
    };
    return { ...service, db, sql, chain, otherChain, mailbox, proxy, spare, stop };
  } catch (error) {
    await end();
    throw error;
  }
}

function settingsOf({ db, chain, otherChain, smtp }: ServiceParts, dataDir: string): ServiceSettings {
  const chains = otherChain ? [chain, otherChain] : [chain];
  const idOf = (chainId: number): NetworkId => (chainId === 8453 ? "base" : "base-sepolia");
  return {
    databaseUrl: db.url,
    rpcUrls: Object.fromEntries(chains.map(({ chainId, rpcUrl }) => [idOf(chainId), rpcUrl])),
    smtpUrl: smtp.smtpUrl,
    jwtSecret: "4f3c2b1a09f8e7d6c5b4a3928170615243342516078899aabbccddeeff001122",
    offerSigningKey: "c3d1a5e7f90b28466d8e4f2a71b5c093e8d7a6b5c4f3029118273645546372aa",
    otpPepper: "99aa88bb77cc66dd55ee44ff33002211fedcba98765432100123456789abcdef",
    relayerKeys: localRelayerKeys().join(","),
    dataDir,
  };
}

/** Of the environment of the test process only what finds programs: a developer's own settings must not change a test. */
function quietEnv(): Record<string, string | undefined> {
  const { PATH, HOME, TMPDIR } = process.env;
  return { PATH, HOME, TMPDIR, LOG_LEVEL: "info" };
}

function kindOf(name: ProcessName): ServiceKind {
  const kind = SERVICE_KINDS.find((candidate) => name === candidate || name.startsWith(`${candidate}-`));
  if (!kind) throw new Error(`${name} is no process of the service`);
  return kind;
}

function need<Value>(map: ReadonlyMap<ProcessName, Value>, name: ProcessName): Value {
  const value = map.get(name);
  if (value === undefined) throw new Error(`${name} is not running`);
  return value;
}
