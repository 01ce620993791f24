/** What campaigns do to a service besides asking it: processes killed, stopped and restarted as by a supervisor, Postgres crashed. */
import type { Sql } from "../../db/postgres/client.ts";
import { insist } from "../payments/campaign-load.ts";
import { waitFor } from "./relay-lab.ts";
import type { ProcessName, Service } from "./world.ts";

const PAUSE_MS = 150;
const STARTS_MAX = 5;
const LAST_LINES = 12;
const EXCERPT_CHARS = 1_500;

export type Supervisor = {
  /** Why processes ended by themselves, one entry each. */
  deaths: readonly string[];
  /** Kill -9 of one process, of each once before one twice, and its start after a short while. */
  killOne: (random: () => number) => Promise<ProcessName>;
  /** Starts what has ended by itself. */
  restartDead: () => Promise<void>;
};

export function superviseService(service: Service, names: readonly ProcessName[]): Supervisor {
  const deaths: string[] = [];
  const spared = new Set(names);

  /** Again when it ended at once: its database or node may not have been there. */
  async function start(name: ProcessName): Promise<void> {
    for (let attempt = 1; !isAlive(service, name); attempt++) {
      try {
        await service.start(name);
      } catch (error) {
        deaths.push(`at start ${attempt}: ${lastLines(service, name)}`);
        if (attempt === STARTS_MAX) throw error;
        await Bun.sleep(PAUSE_MS);
      }
    }
  }

  async function restartDead(): Promise<void> {
    for (const name of names) {
      if (isAlive(service, name)) continue;
      deaths.push(lastLines(service, name));
      await start(name);
    }
  }

  async function killOne(random: () => number): Promise<ProcessName> {
    const choice = spared.size > 0 ? [...spared] : names;
    const name = choice[Math.floor(random() * choice.length)] ?? "worker";
    spared.delete(name);
    await restartDead();
    await service.kill(name, "SIGKILL");
    await Bun.sleep(random() * 2 * PAUSE_MS);
    await start(name);
    return name;
  }

  return { deaths, killOne, restartDead };
}

/** Kill -9 of one backend: Postgres ends all others at once and recovers from its log, as after an immediate shutdown. */
export async function crashDatabase(sql: Sql): Promise<void> {
  const before = await insist(() => readCheckpointer(sql));
  await waitFor("a connection to kill", async () => {
    const [victim] = await insist(
      () => sql<{ pid: number }[]>`
        select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() limit 1`,
    );
    try {
      return victim !== undefined && process.kill(victim.pid, "SIGKILL");
    } catch {
      // it was closed since
      return false;
    }
  });
  // it may be back before a statement has failed
  await waitFor("Postgres to be back", () =>
    readCheckpointer(sql).then(
      (now) => now !== undefined && now !== before,
      () => false,
    ),
  );
}

/** The process id of the checkpointer, a new one after each recovery. */
async function readCheckpointer(sql: Sql): Promise<number | undefined> {
  const [row] = await sql<{ pid: number }[]>`
    select pid from pg_stat_activity where backend_type = 'checkpointer'`;
  return row?.pid;
}

/** How it ended, and why, as far as it said. */
function lastLines(service: Service, name: ProcessName): string {
  const lines = service.logOf(name).trimEnd().split("\n");
  const fatal = lines.slice(-LAST_LINES).findLast((line) => line.includes('"fatal"'));
  const chosen = fatal ? [fatal, lines.at(-1)] : lines.slice(-LAST_LINES);
  return chosen.map((line) => line?.slice(0, EXCERPT_CHARS)).join("\n");
}

function isAlive(service: Service, name: ProcessName): boolean {
  try {
    return service.pidOf(name) > 0;
  } catch {
    return false;
  }
}
