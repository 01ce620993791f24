/** A Postgres and a streaming standby of it that can be promoted, behind one address that always leads to the one that takes writes. */
import { appendFileSync, chownSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import postgres from "postgres";
import { type LocalPostgres, startPostgres } from "../../local/postgres/postgres.ts";
import { copyCluster, rootOf } from "./copy-cluster.ts";
import { startMigratedPostgres } from "./migrated-cluster.ts";
import { startTcpRelay } from "./tcp-relay.ts";

export type ReplicatedPostgres = {
  /** The address of whichever server takes writes, as a managed service gives one. */
  url: string;
  /** The standby's own address. */
  standbyUrl: string;
  /** Resolves when the standby has replayed all that the primary has committed until now. */
  waitForStandby: () => Promise<void>;
  /** Replication stops: what is committed from now on, or is still on its way, never reaches the standby. */
  cutReplication: () => void;
  /**
   * The primary is lost with all its connections; the standby is promoted with what it has received, and gets the address. `onPromoted`
   * is called with its own URL before that.
   */
  failOver: (onPromoted?: (url: string) => Promise<void>) => Promise<void>;
  stop: () => Promise<void>;
};

const REPLAY_TIMEOUT_MS = 60_000;
const PROMOTE_TIMEOUT_S = 30;
const POLL_MS = 20;

/** Both clusters live below `folder`. `lagMs`: how far the standby stays behind, default 0. The database is migrated. */
export async function startReplicatedPostgres(options: {
  folder: string;
  database: string;
  lagMs?: number;
}): Promise<ReplicatedPostgres> {
  const { folder, database } = options;
  // durable: what is committed is in the log that is streamed
  const common = { database, maxConnections: 200 };
  const primaryDir = join(folder, "primary");
  const standbyDir = join(folder, "standby");
  const first = await startMigratedPostgres({ dataDir: primaryDir, ...common });
  await first.stop();
  copyCluster(primaryDir, standbyDir);
  const primary = await startPostgres({ dataDir: primaryDir, ...common });
  const replication = await startTcpRelay({ targetPort: primary.port, delayMs: options.lagMs ?? 0 });
  const front = await startTcpRelay({ targetPort: primary.port });
  makeStandby(standbyDir, new URL(primary.url), replication.port);
  const standby = await startPostgres({ dataDir: standbyDir, ...common });
  const address = new URL(primary.url);
  address.port = String(front.port);
  let isPrimaryUp = true;
  const stopPrimary = async () => {
    if (isPrimaryUp) await primary.stop();
    isPrimaryUp = false;
  };
  return {
    url: address.href,
    standbyUrl: standby.url,
    waitForStandby: () => waitForReplay(primary, standby),
    cutReplication: replication.cut,
    async failOver(onPromoted) {
      replication.cut();
      front.cut();
      await stopPrimary();
      await promote(standby);
      await onPromoted?.(standby.url);
      front.open(standby.port);
    },
    async stop() {
      await Promise.all([replication.stop(), front.stop()]);
      await Promise.all([stopPrimary(), standby.stop()]);
    },
  };
}

function makeStandby(dataDir: string, primary: URL, port: number): void {
  const data = join(rootOf(dataDir), "data");
  const { uid, gid } = statSync(data);
  const signal = join(data, "standby.signal");
  writeFileSync(signal, "");
  chownSync(signal, uid, gid);
  const conninfo = `host=127.0.0.1 port=${port} user=${primary.username} password=${primary.password}`;
  appendFileSync(
    join(data, "postgresql.auto.conf"),
    `\nprimary_conninfo = '${conninfo}'\nwal_retrieve_retry_interval = '100ms'\n`,
  );
}

async function waitForReplay(primary: LocalPostgres, standby: LocalPostgres): Promise<void> {
  const [position] = await ask<{ lsn: string }>(primary, "select pg_current_wal_insert_lsn()::text as lsn");
  const deadline = Date.now() + REPLAY_TIMEOUT_MS;
  const sql = postgres(standby.url, { max: 1, onnotice: () => {} });
  try {
    for (;;) {
      const [row] =
        await sql`select pg_last_wal_replay_lsn() >= ${position?.lsn ?? ""}::text::pg_lsn as is_there`;
      if (row?.is_there) return;
      if (Date.now() > deadline) throw new Error(`the standby has not replayed ${position?.lsn}`);
      await Bun.sleep(POLL_MS);
    }
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function promote(standby: LocalPostgres): Promise<void> {
  const [row] = await ask<{ done: boolean }>(
    standby,
    `select pg_promote(true, ${PROMOTE_TIMEOUT_S}) as done`,
  );
  if (!row?.done) throw new Error("the standby was not promoted");
}

async function ask<Row extends object>(server: LocalPostgres, query: string): Promise<Row[]> {
  const sql = postgres(server.url, { max: 1, onnotice: () => {} });
  try {
    return (await sql.unsafe(query)) as unknown as Row[];
  } finally {
    await sql.end({ timeout: 1 });
  }
}
