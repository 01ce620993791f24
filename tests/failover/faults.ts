/** What happens to the primary in a drill. Each takes its node down and says how it comes back. */
import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Sql } from "../../db/postgres/client.ts";
import type { Cluster } from "./cluster.ts";
import type { Node } from "./node.ts";

export type Fault = {
  name: string;
  /** Why it cannot be had on this machine. */
  missing?: (node: Node) => string | undefined;
  /** Returns the way back. */
  strike: (node: Node, cluster: Cluster, sql: Sql) => Promise<() => void>;
};

const MEBIBYTE = 1024 * 1024;
/** More log files than a small log volume keeps for reuse. */
const SWITCHES_MAX = 300;

const KILL: Fault = {
  name: "kill -9",
  async strike(node) {
    node.signal("SIGKILL");
    return () => {};
  },
};

const FREEZE: Fault = {
  name: "SIGSTOP",
  async strike(node) {
    node.signal("SIGSTOP", true);
    return () => node.signal("SIGCONT", true);
  },
};

/** One that leaves the primary's log in reach, and one that takes it away. */
export const FAULTS_OF_LAGGING_STANDBYS: readonly Fault[] = [KILL, FREEZE];

export const FAULTS: readonly Fault[] = [
  KILL,
  FREEZE,
  {
    name: "switchover",
    async strike(node, cluster) {
      await cluster.switchOver(node);
      return () => {};
    },
  },
  {
    name: "partition",
    async strike(node) {
      node.cutOff();
      return () => node.reconnect();
    },
  },
  {
    name: "disk full",
    missing: ({ walVolume }) =>
      walVolume ? undefined : "this user may not mount a small volume for the log",
    async strike({ walVolume = "" }, _, sql) {
      const ballast = join(walVolume, "ballast");
      fill(ballast);
      await useUpLogFiles(sql);
      return () => rmSync(ballast, { force: true });
    },
  },
];

function fill(path: string): void {
  const file = openSync(path, "w");
  try {
    for (const size of [MEBIBYTE, 4_096]) {
      try {
        for (;;) writeSync(file, Buffer.alloc(size));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      }
    }
  } finally {
    closeSync(file);
  }
}

/** Files that were kept for reuse would last for minutes. Ends with the server's first failure. */
async function useUpLogFiles(sql: Sql): Promise<void> {
  try {
    for (let count = 0; count < SWITCHES_MAX; count++)
      await sql`select pg_logical_emit_message(false, 'drill', 'fill'), pg_switch_wal()`;
  } catch {
    // full: the server has ended
  }
}
