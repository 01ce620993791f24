/** An embedded Postgres from npm binaries, on loopback only, with persistent data and no orphaned processes. */
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import postgres from "postgres";
import { preferPort } from "../free-port.ts";
import { type BoundProcess, spawnBound } from "../processes/bound-process.ts";
import { lockFolder } from "../processes/folder-lock.ts";
import { identifyProcess, waitUntilGone } from "../processes/process-identity.ts";
import { findPostgresBinaries } from "./binaries.ts";
import { choosePostgresAccount, type PostgresAccount } from "./unprivileged-user.ts";

export type LocalPostgres = {
  url: string;
  port: number;
  /** Resolves when the server has ended, for whatever reason. */
  exited: Promise<number | string>;
  stop: () => Promise<void>;
};

export type LocalPostgresOptions = {
  dataDir: string;
  /** Created when missing. Default "postgres". */
  database?: string;
  /** false for throw-away data: a crash of the machine (not of Postgres) may lose it. Default true. */
  durable?: boolean;
  maxConnections?: number;
};

const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 20_000;
const ORPHAN_TIMEOUT_MS = 15_000;
/** For the init process to reap an ended server; in a container there may be none that does. */
const REAP_TIMEOUT_MS = 2_000;
const LOG_TAIL_BYTES = 4_000;
const MAX_CONNECTIONS = 200;
/** A page's first change after a checkpoint logs the whole page, mostly free space reserved for updates. `max_wal_size` still bounds recovery. */
const FEW_FULL_PAGES = { wal_compression: "on", checkpoint_timeout: "15min" };
/** Commits do not wait for the disk, and the log has only what crash recovery needs: this server has no replica. */
const THROW_AWAY = {
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
  wal_level: "minimal",
  max_wal_senders: 0,
  wal_init_zero: "off",
};

/** Starts the cluster in `dataDir`, creating it the first time. Throws when another live process holds it. */
export async function startPostgres(options: LocalPostgresOptions): Promise<LocalPostgres> {
  const lock = lockFolder(options.dataDir);
  try {
    const account = choosePostgresAccount({
      nativeDir: findPostgresBinaries(),
      clusterRoot: join(options.dataDir, "cluster"),
    });
    const password = keepPassword(options.dataDir);
    createCluster(account, password);
    await endOrphan(join(account.clusterRoot, "data"));
    const { server, port } = await startServer(account, options, password);
    const database = options.database ?? "postgres";
    if (database !== "postgres") await createDatabase(urlOf(password, port, "postgres"), database);
    const stop = async () => {
      await server.stop(STOP_TIMEOUT_MS);
      lock.release();
    };
    return { url: urlOf(password, port, database), port, exited: server.exited, stop };
  } catch (error) {
    lock.release();
    throw error;
  }
}

function urlOf(password: string, port: number, database: string): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/${database}`;
}

/** One superuser password per cluster: other accounts of this machine can reach the port too. */
function keepPassword(dataDir: string): string {
  const file = join(dataDir, "password");
  if (!existsSync(file)) {
    writeFileSync(`${file}.new`, randomBytes(16).toString("hex"), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  }
  return readFileSync(file, "utf8");
}

/**
 * Locales that know the letters of every script, which the search index (pg_trgm) needs from the operating system; the first available one is
 * used. With "C" a search for letters beyond ASCII reads all rows.
 */
const CHARACTERS = ["C.UTF-8", "en_US.UTF-8", "C"] as const;

/** initdb into a temporary folder, then one rename: an interrupted first start leaves nothing that looks complete. */
function createCluster(account: PostgresAccount, password: string): void {
  const { clusterRoot } = account;
  const data = join(clusterRoot, "data");
  if (existsSync(data)) return;
  mkdirSync(clusterRoot, { recursive: true });
  for (const name of readdirSync(clusterRoot)) rmSync(join(clusterRoot, name), { recursive: true });
  const fresh = join(clusterRoot, `init.${process.pid}`);
  const settings = [
    "-U",
    "postgres",
    "-E",
    "UTF8",
    // case mapping for letters of every script, independent of this machine's locales
    ...["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"],
    "-A",
    "scram-sha-256",
    "--pwfile=/dev/stdin",
    // the password is random: hashing it thousands of times at each connection would add nothing
    ...["--set", "scram_iterations=1"],
  ];
  const runInitdb = (characters: string) => {
    const [command = "", ...args] = [
      ...account.prefix,
      join(account.nativeDir, "bin", "initdb"),
      ...["-D", fresh, "--no-sync", ...settings, `--lc-ctype=${characters}`],
    ];
    return spawnSync(command, args, {
      input: `${password}\n`,
      encoding: "utf8",
      cwd: "/",
      ...userOf(account),
    });
  };
  let ended = runInitdb(CHARACTERS[0]);
  for (const characters of CHARACTERS.slice(1))
    if (ended.status !== 0 && /locale/.test(ended.stderr ?? "")) ended = runInitdb(characters);
  const { status, stderr, error } = ended;
  if (status !== 0) throw new Error(`initdb failed: ${stderr || error?.message}`, { cause: error });
  renameSync(fresh, data);
}

function userOf({ uid, gid }: PostgresAccount) {
  return uid === undefined || gid === undefined ? {} : { uid, gid };
}

/**
 * We hold the folder's lock, so a server still running on this data has lost its owner: it is ending already, or is stopped here.
 * If the id in postmaster.pid now belongs to another program or to a zombie, Postgres would refuse to start; the file is removed.
 */
async function endOrphan(data: string): Promise<void> {
  const pidFile = join(data, "postmaster.pid");
  if (!existsSync(pidFile)) return;
  const pid = Number(readFileSync(pidFile, "utf8").split("\n")[0]);
  const found = identifyProcess(pid);
  if (found && isPostgresOn(pid, data)) {
    if (!(await waitUntilGone(found, 500))) {
      process.kill(pid, "SIGINT");
      if (!(await waitUntilGone(found, ORPHAN_TIMEOUT_MS)))
        throw new Error(`An earlier Postgres (process ${pid}) still uses ${data} and does not stop.`);
    }
    // with this file, Postgres also waits for the shared memory of the server's children
    if (await waitUntilReaped(pid)) return;
  }
  rmSync(pidFile, { force: true });
}

async function waitUntilReaped(pid: number): Promise<boolean> {
  const deadline = Date.now() + REAP_TIMEOUT_MS;
  while (isIdTaken(pid)) {
    if (Date.now() > deadline) return false;
    await Bun.sleep(20);
  }
  return true;
}

/** True for a zombie too, as in Postgres' own check of postmaster.pid. */
function isIdTaken(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

function isPostgresOn(pid: number, data: string): boolean {
  const command = spawnSync("ps", ["-ww", "-o", "command=", "-p", String(pid)], { encoding: "utf8" }).stdout;
  const commandLine = existsSync(`/proc/${pid}/cmdline`)
    ? readFileSync(`/proc/${pid}/cmdline`, "utf8")
    : command;
  return commandLine.includes("postgres") && commandLine.includes(data);
}

async function startServer(account: PostgresAccount, options: LocalPostgresOptions, password: string) {
  const portFile = join(options.dataDir, "port");
  const wished = existsSync(portFile) ? Number(readFileSync(portFile, "utf8")) : undefined;
  const port = await preferPort(wished);
  let log = "";
  const server = await spawnBound({
    command: join(account.nativeDir, "bin", "postgres"),
    args: ["-D", join(account.clusterRoot, "data"), "-p", String(port), ...settingsOf(options)],
    prefix: account.prefix,
    stopSignal: "SIGINT",
    cwd: "/",
    onOutput: (chunk) => {
      log = (log + chunk.toString()).slice(-LOG_TAIL_BYTES);
    },
    ...userOf(account),
  });
  await waitUntilReady(server, urlOf(password, port, "postgres"), () => log);
  writeFileSync(portFile, String(port));
  return { server, port };
}

function settingsOf({ durable = true, maxConnections = MAX_CONNECTIONS }: LocalPostgresOptions): string[] {
  const settings = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    max_connections: maxConnections,
    ...(durable ? FEW_FULL_PAGES : THROW_AWAY),
  };
  return Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}

async function waitUntilReady(server: BoundProcess, url: string, log: () => string): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS;
  let ended: number | string | undefined;
  server.exited.then((code) => {
    ended = code;
  });
  while (Date.now() < deadline) {
    if (ended !== undefined) throw new Error(`Postgres ended at start (${ended}):\n${log()}`);
    if (await answers(url)) return;
    await Bun.sleep(15);
  }
  await server.stop();
  throw new Error(`Postgres did not answer within ${START_TIMEOUT_MS} ms:\n${log()}`);
}

async function answers(url: string): Promise<boolean> {
  const sql = postgres(url, { max: 1, connect_timeout: 5, fetch_types: false, onnotice: () => {} });
  try {
    await sql`select 1`;
    return true;
  } catch {
    return false;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function createDatabase(adminUrl: string, name: string): Promise<void> {
  const sql = postgres(adminUrl, { max: 1, fetch_types: false, onnotice: () => {} });
  try {
    const found = await sql`select 1 from pg_database where datname = ${name}`;
    if (found.length === 0) await sql`create database ${sql(name)}`;
  } finally {
    await sql.end({ timeout: 1 });
  }
}
