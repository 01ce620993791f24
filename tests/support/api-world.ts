/** API processes on a database and chains of their own, without worker and indexer: mails are read from the outbox route. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { NetworkId } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { localAccount } from "../../local/chain/accounts.ts";
import { findFreePort } from "../../local/free-port.ts";
import { type ServiceProcess, startServiceProcess } from "../../local/processes/service-process.ts";
import { serviceEnv } from "../../local/service-env.ts";
import { startTestChain, type TestChain } from "./chain.ts";
import { serviceProgram, settingsOfRun } from "./compiled-services.ts";
import { createTestDatabase, TEST_POOL } from "./postgres.ts";

export const JWT_SECRET = "4f3c2b1a09f8e7d6c5b4a3928170615243342516078899aabbccddeeff001122";

export type ApiWorld = {
  /** Public origin; also the first process's address. */
  baseUrl: string;
  /** Every process's own address. */
  urls: string[];
  sql: Sql;
  databaseUrl: string;
  chainOf: (network: NetworkId) => TestChain;
  /** What all processes have written. */
  log: () => string;
  processes: ServiceProcess[];
  stop: () => Promise<void>;
};

const CHAIN_IDS: Record<NetworkId, number> = { base: 8453, "base-sepolia": 84532 };
const READY_TIMEOUT_MS = 60_000;

/** Limits are off unless `env` says RATE_LIMITS=1. */
export async function startApiWorld(
  options: { env?: Record<string, string>; processes?: number; networks?: readonly NetworkId[] } = {},
): Promise<ApiWorld> {
  const networks = options.networks ?? ["base-sepolia"];
  const db = await createTestDatabase();
  const sql = openDatabase(db.url, { ...TEST_POOL, maxConnections: 4 });
  const chains = new Map<NetworkId, TestChain>();
  const processes: ServiceProcess[] = [];
  const dataDir = mkdtempSync(join(tmpdir(), "test-api-"));
  let log = "";
  const stop = async () => {
    await Promise.all(processes.map((child) => child.stop()));
    await sql.end({ timeout: 1 });
    await Promise.all([db.drop(), ...[...chains.values()].map((chain) => chain.stop())]);
    rmSync(dataDir, { recursive: true, force: true });
  };
  try {
    for (const network of networks) {
      chains.set(network, await startTestChain({ chainId: CHAIN_IDS[network] }));
      const relayer = localAccount(0).address.toLowerCase();
      await sql`insert into relayers (network, address, next_nonce) values (${network}, ${relayer}, 0)`;
    }
    const ports = await Promise.all(Array.from({ length: options.processes ?? 1 }, findFreePort));
    const urls = ports.map((port) => `http://localhost:${port}`);
    const [baseUrl = ""] = urls;
    const settings = {
      databaseUrl: db.url,
      rpcUrls: Object.fromEntries([...chains].map(([network, { rpcUrl }]) => [network, rpcUrl])),
      smtpUrl: "smtp://127.0.0.1:1",
      jwtSecret: JWT_SECRET,
      offerSigningKey: "c3d1a5e7f90b28466d8e4f2a71b5c093e8d7a6b5c4f3029118273645546372aa",
      otpPepper: "99aa88bb77cc66dd55ee44ff33002211fedcba98765432100123456789abcdef",
      relayerKeys: "",
      dataDir,
    };
    const { PATH, HOME } = process.env;
    const common = {
      PATH,
      HOME,
      NODE_ENV: "test",
      RATE_LIMITS: "0",
      BASE_URL: baseUrl,
      ...settingsOfRun(),
      ...options.env,
    };
    for (const port of ports) {
      const env = serviceEnv("api", settings, { ...common, PORT: String(port) });
      processes.push(
        await startServiceProcess(
          "api",
          env,
          (line) => {
            log += `${line}\n`;
          },
          serviceProgram("api"),
        ),
      );
    }
    await Promise.all(urls.map((url) => waitUntilReady(url, () => log)));
    const chainOf = (network: NetworkId) => {
      const chain = chains.get(network);
      if (!chain) throw new Error(`this world has no ${network}`);
      return chain;
    };
    return { baseUrl, urls, sql, databaseUrl: db.url, chainOf, log: () => log, processes, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function waitUntilReady(url: string, log: () => string): Promise<void> {
  const deadline = Date.now() + READY_TIMEOUT_MS;
  while (Date.now() < deadline) {
    const answer = await fetch(`${url}/health/ready`).catch(() => undefined);
    if (answer?.ok) return;
    await Bun.sleep(20);
  }
  throw new Error(`${url} is not ready after ${READY_TIMEOUT_MS} ms:\n${log()}`);
}
