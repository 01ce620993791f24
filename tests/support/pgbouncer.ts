/** PgBouncer in front of a test database, where it is installed. */
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import postgres from "postgres";
import { findFreePort } from "../../local/free-port.ts";
import { spawnBound } from "../../local/processes/bound-process.ts";

const PATHS = [
  "/usr/sbin/pgbouncer",
  "/usr/bin/pgbouncer",
  "/usr/local/bin/pgbouncer",
  "/opt/homebrew/bin/pgbouncer",
];
const NOBODY = 65_534;
const START_TIMEOUT_MS = 30_000;

export const PGBOUNCER: string | undefined = PATHS.find((path) => existsSync(path));

export type Pooler = { url: string; stop: () => Promise<void> };

/** `ignores`: parameters of a connection's start that are dropped instead of refused. */
export async function startPgbouncer(
  databaseUrl: string,
  options: { mode: "session" | "transaction" | "statement"; poolSize: number; ignores?: readonly string[] },
): Promise<Pooler> {
  if (!PGBOUNCER) throw new Error("pgbouncer is not installed");
  const target = new URL(databaseUrl);
  const port = await findFreePort();
  const name = target.pathname.slice(1);
  const folder = mkdtempSync(join(tmpdir(), "test-pgbouncer-"));
  const file = join(folder, "pgbouncer.ini");
  const server = `host=${target.hostname} port=${target.port} user=${target.username} password=${target.password}`;
  const settings = [
    "[databases]",
    `${name} = ${server}`,
    "[pgbouncer]",
    `listen_addr = 127.0.0.1`,
    `listen_port = ${port}`,
    "unix_socket_dir =",
    "auth_type = any",
    `pool_mode = ${options.mode}`,
    `default_pool_size = ${options.poolSize}`,
    `ignore_startup_parameters = ${(options.ignores ?? ["extra_float_digits"]).join(",")}`,
  ];
  writeFileSync(file, `${settings.join("\n")}\n`, { mode: 0o644 });
  chmodSync(folder, 0o755);
  const isRoot = process.getuid?.() === 0;
  const pooler = await spawnBound({
    ...{ command: PGBOUNCER, args: ["-q", file], stopSignal: "SIGINT", cwd: "/" },
    ...(isRoot ? { uid: NOBODY, gid: NOBODY } : {}),
  });
  const url = new URL(databaseUrl);
  url.port = String(port);
  url.hostname = "127.0.0.1";
  const stop = async () => {
    await pooler.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await waitUntilAnswers(url.href);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url: url.href, stop };
}

async function waitUntilAnswers(url: string): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS;
  for (;;) {
    const sql = postgres(url, { max: 1, prepare: false, connect_timeout: 5, onnotice: () => {} });
    try {
      return void (await sql`select 1`);
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await Bun.sleep(50);
    } finally {
      await sql.end({ timeout: 1 });
    }
  }
}
