/** The Postgres a test run talks to: TEST_DATABASE_URL, else a container when a Docker engine answers, else the embedded one. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPostgres } from "../../local/postgres/postgres.ts";
import {
  CLUSTER_VARIABLE,
  makeMigratedCluster,
  openEventEpoch,
  takeMigratedCluster,
} from "./migrated-cluster.ts";
import { prepareTemplate, withDatabase } from "./template-database.ts";

export type TestServer = {
  /** A superuser's URL of the maintenance database. */
  adminUrl: string;
  /** One line for the reader of the run. */
  description: string;
  stop: () => Promise<void>;
};

const CONTAINER_IMAGE = "postgres:18-alpine";
const MAX_CONNECTIONS = 400;
/** Linux's folder in memory: a database is a thousand files, made there at a fifth of the CPU time. */
const MEMORY_FOLDER = "/dev/shm";
/** Containers often have 64 MB of it. */
const MEMORY_FREE_MIN_BYTES = 3 * 2 ** 30;

export async function startTestServer(): Promise<TestServer> {
  const given = process.env.TEST_DATABASE_URL;
  if (given) return { adminUrl: given, description: "Postgres of TEST_DATABASE_URL", stop: async () => {} };
  return (await startContainer()) ?? startEmbeddedRun();
}

/** The embedded one, and the files that further servers of the run start with. */
async function startEmbeddedRun(): Promise<TestServer> {
  const cluster = makeDatabaseFolder("test-cluster-");
  await makeMigratedCluster(cluster);
  process.env[CLUSTER_VARIABLE] = cluster;
  const server = await startEmbeddedServer();
  const stop = async () => {
    await server.stop();
    rmSync(cluster, { recursive: true, force: true });
  };
  return { ...server, stop };
}

/**
 * Fresh, in a temporary folder, gone at `stop` and also when this process is killed. It does not wait for the disk,
 * unless TEST_POSTGRES_DURABLE=1 says so: benchmarks want to know what a real commit costs.
 */
export async function startEmbeddedServer(): Promise<TestServer> {
  const durable = process.env.TEST_POSTGRES_DURABLE === "1";
  const dataDir = mkdtempSync(join(durable ? tmpdir() : fastestFolder(), "test-postgres-"));
  const janitor = startJanitor(dataDir);
  const isCopied = takeMigratedCluster(dataDir);
  const server = await startPostgres({ dataDir, durable, maxConnections: MAX_CONNECTIONS });
  if (isCopied) await openEventEpoch(withDatabase(server.url, await prepareTemplate(server.url)));
  const stop = async () => {
    await server.stop();
    janitor.stdin.end();
    await once(janitor, "exit");
  };
  return { adminUrl: server.url, description: "embedded Postgres", stop };
}

/** For a test's own server that is crashed, cut off or copied: in memory where there is room, and gone with this process at the latest. */
export function makeDatabaseFolder(prefix: string): string {
  const folder = mkdtempSync(join(fastestFolder(), prefix));
  startJanitor(folder);
  return folder;
}

function fastestFolder(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY_FOLDER);
    return bavail * bsize >= MEMORY_FREE_MIN_BYTES ? MEMORY_FOLDER : tmpdir();
  } catch {
    return tmpdir();
  }
}

/** A shell that waits for the end of our pipe, which our death brings too, then for the server's, and removes the folder. */
function startJanitor(dataDir: string) {
  const script = `read _; n=0
while [ -e "$1/cluster/data/postmaster.pid" ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done
rm -rf "$1"`;
  const janitor = spawn("sh", ["-c", script, "sh", dataDir], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  janitor.unref();
  return janitor;
}

async function startContainer(): Promise<TestServer | undefined> {
  // The reaper container keeps this process alive; the run stops its own container.
  process.env.TESTCONTAINERS_RYUK_DISABLED ??= "true";
  const { getContainerRuntimeClient } = await import("testcontainers");
  try {
    await getContainerRuntimeClient();
  } catch {
    return undefined;
  }
  try {
    const { PostgreSqlContainer } = await import("@testcontainers/postgresql");
    const container = await new PostgreSqlContainer(CONTAINER_IMAGE)
      .withCommand(["postgres", "-c", `max_connections=${MAX_CONNECTIONS}`, "-c", "fsync=off"])
      .start();
    const stop = async () => {
      await container.stop();
    };
    return { adminUrl: container.getConnectionUri(), description: `container ${CONTAINER_IMAGE}`, stop };
  } catch (error) {
    console.error(`A Docker engine answers but ${CONTAINER_IMAGE} did not start: ${String(error)}`);
    return undefined;
  }
}
