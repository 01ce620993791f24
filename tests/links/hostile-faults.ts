/** Faults during the hostile campaign: processes stopped and killed, the node unavailable, Postgres crashed. */

import type { FaultProxy } from "../support/fault-proxy.ts";
import { crashDatabase, type Supervisor } from "../support/service-faults.ts";
import type { ProcessName } from "../support/world.ts";
import type { Stage } from "./hostile-stage.ts";

const INDEXERS: readonly ProcessName[] = ["indexer", "indexer-2"];
/** Shares of faults; the others are kills. */
const STOP_SHARE = 0.3;
const NODE_SHARE = 0.25;
const DATABASE_SHARE = 0.1;
const CALM_MS = 1_500;
const OUTAGE_MS = 4_000;
/** Some are longer than the time within which a relay could not have known of a transfer. */
const STOP_MS = 14_000;

type Storm = {
  stage: Stage;
  proxy: FaultProxy;
  supervisor: Supervisor;
  random: () => number;
  faults: Record<string, number>;
};

/** One fault after another, each repaired before the next; leaves everything running. */
export async function strikeUntil(isOver: () => boolean, storm: Storm): Promise<void> {
  const { random, supervisor, faults } = storm;
  while (!isOver()) {
    await Bun.sleep(CALM_MS * (0.5 + random()));
    const name = await strike(storm);
    faults[name] = (faults[name] ?? 0) + 1;
    await supervisor.restartDead();
  }
}

async function strike({ stage, proxy, supervisor, random }: Storm): Promise<string> {
  const chance = random();
  const outageMs = OUTAGE_MS * (0.3 + random());
  if (chance < STOP_SHARE) {
    await stopIndexers(stage, random() < 0.7 ? INDEXERS : INDEXERS.slice(0, 1), STOP_MS * random());
    return "indexer stopped";
  }
  if (chance < STOP_SHARE + NODE_SHARE) {
    proxy.set({ unavailable: 1 });
    await Bun.sleep(outageMs);
    proxy.heal();
    return "node unavailable";
  }
  if (chance < STOP_SHARE + NODE_SHARE + DATABASE_SHARE) {
    await crashDatabase(stage.sql);
    return "Postgres crashed";
  }
  return `${await supervisor.killOne(random)} killed`;
}

async function stopIndexers({ service }: Stage, names: readonly ProcessName[], forMs: number): Promise<void> {
  const pids = names.map((name) => service.pidOf(name));
  for (const pid of pids) process.kill(pid, "SIGSTOP");
  await Bun.sleep(forMs);
  for (const pid of pids) process.kill(pid, "SIGCONT");
}
