/**
 * Everything at once: processes killed, a node that lags, lies and fails, and Postgres crashing, while payers pay; then all heals,
 * and the books are compared with the chain. By hand: `bun tests/relay/all-faults-campaign.ts 60` (blows), the seed from TEST_SEED
 * when that is set.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDatabase, type Sql } from "../../db/client.ts";
import { migrate } from "../../db/migrate.ts";
import { startPostgres } from "../../local/postgres.ts";
import { startTestChain } from "../support/chain.ts";
import { type Faults, startFaultProxy } from "../support/fault-proxy.ts";
import { startTestMailbox } from "../support/mailbox.ts";
import { seedMerchant } from "../support/seed.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { type ProcessName, type Service, startService } from "../support/world.ts";
import { type Answers, insist, judge, payWhile, type Stage, type Verdict } from "./campaign-load.ts";
import { waitFor } from "./lab.ts";

const VICTIMS: readonly ProcessName[] = ["api", "api-2", "worker", "worker-2", "indexer", "indexer-2"];
/** Shares of blows; the rest are kills. */
const NODE_SHARE = 0.3;
const DATABASE_SHARE = 0.1;
const PAUSE_MS = 150;
const STARTS_MAX = 5;
const LAST_LINES = 12;
const WORDS_MAX = 1_500;

export type AllFaultsReport = Verdict &
  Omit<Answers, "linkIds"> & {
    payments: number;
    blows: Record<string, number>;
    nodeFaults: Record<string, number>;
    /** Processes that ended of their own: each would need its supervisor. */
    deaths: string[];
    settleMs: number;
    seconds: number;
  };

export async function runAllFaultsCampaign(count: number): Promise<AllFaultsReport> {
  const random = seededRandom(`all faults, ${count} blows`);
  const startedMs = performance.now();
  const dataDir = mkdtempSync(join(tmpdir(), "campaign-postgres-"));
  // durable: what is committed must outlive the crashes
  const postgres = await startPostgres({ dataDir, database: "campaign" });
  await migrate(postgres.url);
  const [chain, smtp] = await Promise.all([startTestChain(), startTestMailbox()]);
  const proxy = await startFaultProxy(chain.rpcUrl, { random });
  const sql = openDatabase(postgres.url, { name: "campaign", maxConnections: 4 });
  const service = await startService({
    ...{ db: postgres, chain: { ...chain, rpcUrl: proxy.url }, smtp },
    processes: VICTIMS,
  });
  try {
    const merchant = await seedMerchant(sql);
    const baseUrl = () => service.baseUrlOf(random() < 0.5 ? "api" : "api-2");
    const stage: Stage = { sql, chain, merchant, baseUrl };
    const blows: Record<string, number> = {};
    const deaths: string[] = [];
    let isOver = false;
    const load = payWhile(stage, () => !isOver);
    for (let blow = 0; blow < count; blow++) {
      await Bun.sleep(PAUSE_MS + random() * 2 * PAUSE_MS);
      const chance = random();
      let name = "node";
      if (chance < NODE_SHARE) proxy.set(drawFaults(random));
      else if (chance < NODE_SHARE + DATABASE_SHARE) {
        name = "database";
        await crashDatabase(sql);
      } else name = await killOne(service, random, deaths);
      blows[name] = (blows[name] ?? 0) + 1;
      await restartDead(service, deaths);
    }
    isOver = true;
    proxy.heal();
    const { linkIds, ...answers } = await load;
    await restartDead(service, deaths);
    const healedMs = performance.now();
    const verdict = await judge(stage, linkIds);
    return {
      ...{ payments: linkIds.length, ...verdict, ...answers, blows, nodeFaults: proxy.counts(), deaths },
      settleMs: Math.round(performance.now() - healedMs),
      seconds: Math.round((performance.now() - startedMs) / 1000),
    };
  } finally {
    await sql.end({ timeout: 1 });
    await service.stop();
    await proxy.stop();
    await Promise.all([postgres.stop(), chain.stop(), smtp.stop()]);
    rmSync(dataDir, { recursive: true, force: true });
  }
}

/** A few of the ways in which nodes fail, each mildly: a node that only fails is only away. */
function drawFaults(random: () => number): Faults {
  const some = (share: number) => (random() < 0.4 ? share : 0);
  return {
    lagBlocks: Math.floor(random() * 4),
    lagging: 0.5,
    laggingIsSilent: random() < 0.5,
    emptiedLogs: some(0.2),
    truncatedLogs: some(0.2),
    duplicatedLogs: some(0.2),
    rateLimited: some(0.05),
    failing: some(0.1),
    hanging: some(0.01),
    reset: some(0.1),
    brokenJson: some(0.05),
  };
}

/** Kill -9 of one backend: Postgres ends all others at once and recovers from its log, as after an immediate shutdown. */
async function crashDatabase(sql: Sql): Promise<void> {
  const [victim] = await insist(
    () => sql<{ pid: number }[]>`
      select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() limit 1`,
  );
  if (!victim) return;
  process.kill(victim.pid, "SIGKILL");
  await waitFor("Postgres to be down", () =>
    sql`select 1`.then(
      () => false,
      () => true,
    ),
  );
  await insist(() => sql`select 1`);
}

async function killOne(service: Service, random: () => number, deaths: string[]): Promise<string> {
  const name = VICTIMS[Math.floor(random() * VICTIMS.length)] ?? "worker";
  await restartDead(service, deaths);
  await service.kill(name, "SIGKILL");
  await Bun.sleep(random() * 2 * PAUSE_MS);
  await start(service, name, deaths);
  return name;
}

/** Again when it ended at once: its database or node may not have been there. */
async function start(service: Service, name: ProcessName, deaths: string[]): Promise<void> {
  for (let attempt = 1; !isAlive(service, name); attempt++) {
    try {
      await service.start(name);
    } catch (error) {
      deaths.push(`at start ${attempt}: ${lastWords(service, name)}`);
      if (attempt === STARTS_MAX) throw error;
      await Bun.sleep(PAUSE_MS);
    }
  }
}

/** How it ended, and why, as far as it said. */
function lastWords(service: Service, name: ProcessName): string {
  const lines = service.logOf(name).trimEnd().split("\n");
  const fatal = lines.slice(-LAST_LINES).findLast((line) => line.includes('"fatal"'));
  const words = fatal ? [fatal, lines.at(-1)] : lines.slice(-LAST_LINES);
  return words.map((line) => line?.slice(0, WORDS_MAX)).join("\n");
}

/** As a supervisor would; what it had to do is part of the report. */
async function restartDead(service: Service, deaths: string[]): Promise<void> {
  for (const name of VICTIMS) {
    if (isAlive(service, name)) continue;
    deaths.push(lastWords(service, name));
    await start(service, name, deaths);
  }
}

function isAlive(service: Service, name: ProcessName): boolean {
  try {
    return service.pidOf(name) > 0;
  } catch {
    return false;
  }
}

if (import.meta.main) {
  console.log(JSON.stringify(await runAllFaultsCampaign(Number(process.argv[2] ?? 60))));
  process.exit(0);
}
