/** The Postgres a test run talks to: TEST_DATABASE_URL, else a container when a Docker engine answers, else the embedded one. */
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { lockFolder } from "../../local/folder-lock.ts";
import { startPostgres } from "../../local/postgres.ts";

export type TestServer = {
  /** A superuser's URL of the maintenance database. */
  adminUrl: string;
  /** One line for the reader of the run. */
  description: string;
  stop: () => Promise<void>;
};

const CONTAINER_IMAGE = "postgres:18-alpine";
const MAX_CONNECTIONS = 400;
const FOLDER_PREFIX = "test-postgres-";
/** A folder younger than this may belong to a run that has not locked it yet. */
const LEFTOVER_AGE_MS = 60_000;

export async function startTestServer(): Promise<TestServer> {
  const given = process.env.TEST_DATABASE_URL;
  if (given) return { adminUrl: given, description: "Postgres of TEST_DATABASE_URL", stop: async () => {} };
  return (await startContainer()) ?? startEmbeddedServer();
}

/**
 * Fresh, in a temporary folder, gone at `stop` and also when this process is killed. It does not wait for the disk,
 * unless TEST_POSTGRES_DURABLE=1 says so: benchmarks want to know what a real commit costs.
 */
export async function startEmbeddedServer(): Promise<TestServer> {
  sweepLeftovers();
  const dataDir = mkdtempSync(join(tmpdir(), FOLDER_PREFIX));
  const server = await startPostgres({
    dataDir,
    durable: process.env.TEST_POSTGRES_DURABLE === "1",
    maxConnections: MAX_CONNECTIONS,
  });
  const remove = () => rmSync(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  // A test file started by itself has no end of run: nothing can be awaited here, and nothing needs to be kept.
  const endNow = () => {
    process.kill(server.pid, "SIGKILL");
    remove();
  };
  process.once("exit", endNow);
  const stop = async () => {
    process.off("exit", endNow);
    await server.stop();
    remove();
  };
  return { adminUrl: server.url, description: "embedded Postgres", stop };
}

/** Folders of runs that were killed: theirs is the lock nobody holds any more. */
function sweepLeftovers(): void {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(FOLDER_PREFIX))) {
    const folder = join(tmpdir(), name);
    try {
      if (Date.now() - statSync(folder).mtimeMs < LEFTOVER_AGE_MS) continue;
      lockFolder(folder).release();
      rmSync(folder, { recursive: true, force: true });
    } catch {
      // In use, another account's, or swept by somebody else meanwhile.
    }
  }
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
