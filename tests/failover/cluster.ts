/** A Patroni cluster on one machine from the distribution's packages: etcd, three Postgres and HAProxy, by the files in deploy/ha. */
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import postgres from "postgres";
import { findFreePort } from "../../local/free-port.ts";
import { type BoundProcess, spawnBound } from "../../local/processes/bound-process.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { waitFor } from "../support/relay-lab.ts";
import { type Account, BIN_DIR, type EtcdApi, fillIn, type Node, own, PATRONI, prepareNode } from "./node.ts";

export type Member = { name: string; role: string; state: string; timeline?: number; lag?: number | string };
export type Cluster = {
  /** The address of whichever server is primary. */
  url: string;
  nodes: readonly Node[];
  /** What any reachable Patroni says of all members. */
  members: () => Promise<Member[]>;
  /** The primary; throws when there is none. */
  findPrimary: () => Promise<Node>;
  /** The primary's timeline; throws when there is no primary that serves. */
  readTimeline: () => Promise<number>;
  /** One primary and two standbys that stream, one of them synchronous where that was asked for. */
  waitUntilWhole: () => Promise<void>;
  /** Adds the state of the cluster and its logs to the error of what is waited for. */
  withLogs: <T>(waiting: Promise<T>) => Promise<T>;
  switchOver: (from: Node) => Promise<void>;
  stop: () => Promise<void>;
};

const HAPROXY_FILE = join(import.meta.dir, "../../deploy/ha/haproxy.cfg");
const NEEDED = [PATRONI, "/usr/bin/etcd", "/usr/sbin/haproxy", `${BIN_DIR}/postgres`];
/** `first` and `any` are words of synchronous_standby_names. */
const NAMES = ["postgres1", "postgres2", "postgres3"];
const DATABASE = "payments";
const START_TIMEOUT_MS = 60_000;
const WHOLE_TIMEOUT_MS = 90_000;
const ASK_TIMEOUT_MS = 2_000;
/** Well below maximum_lag_on_failover. */
const LAG_MAX_BYTES = 256 * 1024;
const LOG_TAIL_CHARS = 6_000;

/** Why the cluster cannot run on this machine. */
export function missingPackages(): string | undefined {
  const missing = NEEDED.filter((path) => !existsSync(path));
  if (missing.length === 0) return undefined;
  return `${missing.join(", ")} not found: apt-get install --no-install-recommends patroni etcd-server haproxy postgresql-15`;
}

export async function startCluster(options: { isSynchronous: boolean; lagMs?: number }): Promise<Cluster> {
  const folder = makeDatabaseFolder("drill-failover-");
  chmodSync(folder, 0o755);
  const account = findAccount();
  const secret = () => randomBytes(12).toString("hex");
  const passwords = { superuser: secret(), replication: secret(), rewind: secret() };
  const etcdApi = chooseEtcdApi();
  const etcd = await startEtcd(folder, account, etcdApi);
  const nodes: Node[] = [];
  for (const name of NAMES)
    nodes.push(
      await prepareNode({
        ...{ name, folder, account, etcdPort: etcd.port, etcdApi, passwords },
        ...{ isSynchronous: options.isSynchronous, lagMs: options.lagMs ?? 0 },
      }),
    );
  const haproxy = await startHaproxy(folder, nodes, account);
  const url = `postgres://postgres:${passwords.superuser}@127.0.0.1:${haproxy.port}/${DATABASE}`;
  const stop = async () => {
    await Promise.all(nodes.map((node) => node.stop()));
    await Promise.all([haproxy.process.stop(), etcd.process.stop()]);
    await Promise.all(nodes.map((node) => node.remove()));
  };
  const members = () => readMembers(nodes);
  const isWhole = async () => {
    const all = await members().catch(() => []);
    const leader = all.find(({ role }) => role === "leader");
    // "running" alone is also said of a standby that cannot reach the primary
    const standbys = all.filter(
      ({ role, state, timeline, lag }) =>
        role !== "leader" &&
        (state === "streaming" || state === "running") &&
        timeline === leader?.timeline &&
        Number(lag) <= LAG_MAX_BYTES,
    );
    const isSafe = !options.isSynchronous || all.some(({ role }) => role === "sync_standby");
    return standbys.length === 2 && leader !== undefined && isSafe;
  };
  const withLogs = async <T>(waiting: Promise<T>): Promise<T> => {
    try {
      return await waiting;
    } catch (error) {
      const logs = nodes.map((node) => `${node.name}:\n${node.log().slice(-LOG_TAIL_CHARS)}`).join("\n");
      throw new Error(`${JSON.stringify(await members().catch(String))}\n${logs}`, { cause: error });
    }
  };
  const waitUntilWhole = async () => {
    await withLogs(waitFor("the cluster to be whole", isWhole, WHOLE_TIMEOUT_MS));
  };
  try {
    await Promise.all(nodes.map((node) => node.start()));
    await waitUntilWhole();
    await createDatabase(url);
  } catch (error) {
    await stop();
    throw new Error("the cluster did not start", { cause: error });
  }
  return {
    ...{ url, nodes, members, waitUntilWhole, withLogs, stop },
    async findPrimary() {
      const leader = (await members()).find(({ role }) => role === "leader");
      const node = nodes.find(({ name }) => name === leader?.name);
      if (!node) throw new Error("the cluster has no primary");
      return node;
    },
    async readTimeline() {
      const leader = (await members()).find(({ role, state }) => role === "leader" && state === "running");
      if (leader?.timeline === undefined) throw new Error("the cluster has no primary");
      return leader.timeline;
    },
    async switchOver(from) {
      const response = await fetch(`http://127.0.0.1:${from.restPort}/switchover`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ leader: from.name }),
      });
      if (!response.ok) throw new Error(`switchover: ${response.status} ${await response.text()}`);
    },
  };
}

/** Postgres refuses to run as root. */
function findAccount(): Account | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const idOf = (flag: string) => Number(spawnSync("id", [flag, "postgres"], { encoding: "utf8" }).stdout);
  return { uid: idOf("-u"), gid: idOf("-g") };
}

/**
 * Patroni before 3.0.3 writes the leader's key without a comparison when it finds its lease expired (github.com/patroni/patroni/pull/2689): a
 * primary that wakes after a pause takes the key from the new one, whose commits are then rewound. Through etcd's protocol v2 it compares.
 */
function chooseEtcdApi(): EtcdApi {
  const { stdout } = spawnSync(PATRONI, ["--version"], { encoding: "utf8" });
  const version = stdout.match(/\d+\.\d+\.\d+/)?.[0];
  if (!version) throw new Error(`patroni --version says ${JSON.stringify(stdout)}`);
  return Bun.semver.satisfies(version, "<3.0.3") ? "etcd" : "etcd3";
}

/** One member is enough for one machine; in production there are three, beside the database servers. */
async function startEtcd(folder: string, account: Account | undefined, api: EtcdApi) {
  const [port, peerPort] = [await findFreePort(), await findFreePort()];
  const dataDir = join(folder, "etcd");
  mkdirSync(dataDir, { mode: 0o700 });
  own(dataDir, account);
  const [client, peer] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
  const started = await spawnBound({
    command: "/usr/bin/etcd",
    args: [
      ...["--name", "drill", "--data-dir", dataDir, "--log-level", "error"],
      ...["--listen-client-urls", client, "--advertise-client-urls", client],
      ...["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer],
      ...["--initial-cluster", `drill=${peer}`],
      ...(api === "etcd" ? ["--enable-v2"] : []),
    ],
    ...{ stopSignal: "SIGTERM", cwd: "/", ...account },
  });
  return { port, process: started };
}

async function startHaproxy(
  folder: string,
  nodes: readonly Node[],
  account: Account | undefined,
): Promise<{ port: number; process: BoundProcess }> {
  const [port, replicasPort] = [await findFreePort(), await findFreePort()];
  const servers = nodes
    .map(
      ({ name, clientPort, restPort }) => `  server ${name} 127.0.0.1:${clientPort} check port ${restPort}`,
    )
    .join("\n");
  const file = join(folder, "haproxy.cfg");
  const values = { PRIMARY_LISTEN: `127.0.0.1:${port}`, REPLICAS_LISTEN: `127.0.0.1:${replicasPort}` };
  const text = fillIn(readFileSync(HAPROXY_FILE, "utf8"), {
    ...{ ...values, PRIMARY_SERVERS: servers, REPLICA_SERVERS: servers },
  });
  writeFileSync(file, text, { mode: 0o644 });
  const started = await spawnBound({
    ...{
      command: "/usr/sbin/haproxy",
      args: ["-db", "-f", file],
      stopSignal: "SIGTERM",
      cwd: "/",
      ...account,
    },
  });
  return { port, process: started };
}

async function readMembers(nodes: readonly Node[]): Promise<Member[]> {
  const asked = nodes.map(async ({ restPort }) => {
    const signal = AbortSignal.timeout(ASK_TIMEOUT_MS);
    const response = await fetch(`http://127.0.0.1:${restPort}/cluster`, { signal });
    return ((await response.json()) as { members: Member[] }).members;
  });
  return Promise.any(asked);
}

async function createDatabase(url: string): Promise<void> {
  const admin = new URL(url);
  admin.pathname = "/postgres";
  await waitFor(
    "the database to be created",
    async () => {
      const sql = postgres(admin.href, { max: 1, connect_timeout: 5, onnotice: () => {} });
      try {
        const found = await sql`select 1 from pg_database where datname = ${DATABASE}`;
        if (found.length === 0) await sql`create database ${sql(DATABASE)}`;
        return true;
      } catch {
        return false;
      } finally {
        await sql.end({ timeout: 1 });
      }
    },
    START_TIMEOUT_MS,
  );
}
