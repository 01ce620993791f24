/** One machine of the cluster: Patroni and its Postgres as the postgres user, reached by others only through relays that can be cut. */
import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findFreePort } from "../../local/free-port.ts";
import { type BoundProcess, spawnBound } from "../../local/processes/bound-process.ts";
import { startTcpRelay, type TcpRelay } from "../support/tcp-relay.ts";

/** The sections of patroni.yml: etcd's protocol v2 or v3. */
export type EtcdApi = "etcd" | "etcd3";
export type Account = { uid: number; gid: number };
export type NodePlan = {
  name: string;
  folder: string;
  account: Account | undefined;
  etcdPort: number;
  etcdApi: EtcdApi;
  isSynchronous: boolean;
  /** How far its standbys stay behind. */
  lagMs: number;
  passwords: { superuser: string; replication: string; rewind: string };
};

export type Node = {
  name: string;
  /** Where clients and the balancer reach it. */
  clientPort: number;
  restPort: number;
  /** The memory disk of its log; undefined where this user may not mount one. */
  walVolume: string | undefined;
  start: () => Promise<void>;
  stop: () => Promise<void>;
  postmasterPid: () => number | undefined;
  /** Stops, continues or kills Postgres, and with it Patroni when `isMachine`. */
  signal: (signal: "SIGSTOP" | "SIGCONT" | "SIGKILL", isMachine?: boolean) => void;
  /** No packet passes to or from it, as when its switch fails. */
  cutOff: () => void;
  reconnect: () => void;
  log: () => string;
  remove: () => Promise<void>;
};

const TEMPLATE = join(import.meta.dir, "../../deploy/ha/patroni.yml");
export const PATRONI = "/usr/bin/patroni";
export const BIN_DIR = "/usr/lib/postgresql/15/bin";
const WAL_VOLUME_MB = 160;
const LOG_KEPT_CHARS = 200_000;

export async function prepareNode(plan: NodePlan): Promise<Node> {
  const { name, account, passwords } = plan;
  const folder = join(plan.folder, name);
  const walFolder = join(folder, "wal");
  const dataDir = join(folder, "data");
  mkdirSync(walFolder, { recursive: true });
  const hasVolume = account !== undefined && mountVolume(walFolder, account);
  const [postgresPort, restPort] = [await findFreePort(), await findFreePort()];
  const relays = {
    clients: await startTcpRelay({ targetPort: postgresPort }),
    replication: await startTcpRelay({ targetPort: postgresPort, delayMs: plan.lagMs }),
    rest: await startTcpRelay({ targetPort: restPort }),
    etcd: await startTcpRelay({ targetPort: plan.etcdPort }),
  };
  const targets: [TcpRelay, number][] = [
    [relays.clients, postgresPort],
    [relays.replication, postgresPort],
    [relays.rest, restPort],
    [relays.etcd, plan.etcdPort],
  ];
  const file = join(folder, "patroni.yml");
  const values: Record<string, string | number> = {
    NAME: name,
    REST_LISTEN: `127.0.0.1:${restPort}`,
    REST_ADDRESS: `127.0.0.1:${relays.rest.port}`,
    ETCD_API: plan.etcdApi,
    ETCD_PROXIES: "true",
    ETCD_HOSTS: `127.0.0.1:${relays.etcd.port}`,
    SYNCHRONOUS: String(plan.isSynchronous),
    POSTGRES_LISTEN: `127.0.0.1:${postgresPort}`,
    POSTGRES_ADDRESS: `127.0.0.1:${relays.replication.port}`,
    DATA_DIR: dataDir,
    WAL_DIR: join(walFolder, "pg_wal"),
    WAL_SEGMENT_MB: 1,
    BIN_DIR,
    PASS_FILE: join(folder, "pgpass"),
    SUPERUSER_PASSWORD: passwords.superuser,
    REPLICATION_PASSWORD: passwords.replication,
    REWIND_PASSWORD: passwords.rewind,
    NETWORK: "127.0.0.1/32",
  };
  writeFileSync(file, fillIn(readFileSync(TEMPLATE, "utf8"), values), { mode: 0o600 });
  for (const path of [folder, walFolder, file]) own(path, account);
  chmodSync(folder, 0o700);

  let log = "";
  let patroni: BoundProcess | undefined;
  const postmasterPid = () => {
    const pidFile = join(dataDir, "postmaster.pid");
    return existsSync(pidFile) ? Number(readFileSync(pidFile, "utf8").split("\n")[0]) : undefined;
  };
  const start = async () => {
    // /dev/null, as systemd does: a backend that waits for a standby when its server is killed goes on to read its standard input
    const args = ["-c", 'exec "$0" "$1" </dev/null', PATRONI, file];
    patroni = await spawnBound({
      ...{ command: "/bin/sh", args, stopSignal: "SIGTERM", cwd: "/", ...account },
      env: { PATH: `${BIN_DIR}:/usr/bin:/bin`, HOME: folder, LANG: "C.UTF-8" },
      onOutput: (chunk) => {
        log = (log + chunk.toString()).slice(-LOG_KEPT_CHARS);
      },
    });
  };
  const stop = async () => {
    await patroni?.stop(30_000);
    const left = postmasterPid();
    if (left !== undefined && isAlive(left)) process.kill(left, "SIGQUIT");
    patroni = undefined;
  };
  return {
    ...{ name, clientPort: relays.clients.port, restPort: relays.rest.port, start, stop, postmasterPid },
    walVolume: hasVolume ? walFolder : undefined,
    log: () => log,
    signal(signal, isMachine = false) {
      const pid = postmasterPid();
      const pids = pid === undefined ? [] : signal === "SIGKILL" ? [pid] : [pid, ...childrenOf(pid)];
      for (const one of [...pids, ...(isMachine && patroni ? [patroni.pid] : [])])
        if (isAlive(one)) process.kill(one, signal);
    },
    cutOff() {
      for (const [relay] of targets) relay.cut();
    },
    reconnect() {
      for (const [relay, port] of targets) relay.open(port);
    },
    async remove() {
      await Promise.all(targets.map(([relay]) => relay.stop()));
      if (hasVolume) spawnSync("umount", ["-l", walFolder]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** `${NAME}` by its value, as envsubst does. Throws for a name without one. */
export function fillIn(template: string, values: Readonly<Record<string, string | number>>): string {
  return template
    .split("\n")
    .map((line) =>
      line.trimStart().startsWith("#")
        ? line
        : line.replace(/\$\{(\w+)\}/g, (_, key: string) => {
            const value = values[key];
            if (value === undefined) throw new Error(`the template asks for ${key}`);
            return String(value);
          }),
    )
    .join("\n");
}

export function own(path: string, account: Account | undefined): void {
  if (account) chownSync(path, account.uid, account.gid);
}

function mountVolume(folder: string, account: Account): boolean {
  const options = `size=${WAL_VOLUME_MB}m,mode=0700,uid=${account.uid},gid=${account.gid}`;
  return spawnSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", folder]).status === 0;
}

function childrenOf(pid: number): number[] {
  const { stdout } = spawnSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" });
  return stdout.split("\n").map(Number).filter(Boolean);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
