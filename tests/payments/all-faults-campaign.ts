/**
 * Everything at once: processes killed, a node that lags, lies and fails, and Postgres crashing, while payers pay; then all heals,
 * and the ledger is compared with the chain. By hand: `bun tests/payments/all-faults-campaign.ts 60` (blows), the seed from TEST_SEED
 * when that is set.
 */
import { rmSync } from "node:fs";
import { openDatabase } from "../../db/postgres/client.ts";
import { startTestChain } from "../support/chain.ts";
import { drawFaults, startFaultProxy } from "../support/fault-proxy.ts";
import { startTestMailbox } from "../support/mailbox.ts";
import { startMigratedPostgres } from "../support/migrated-cluster.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { seedMerchant } from "../support/seed.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { crashDatabase, superviseService } from "../support/service-faults.ts";
import { type ProcessName, startService } from "../support/world.ts";
import { type Answers, judge, payWhile, type Stage, type Verdict } from "./campaign-load.ts";

const VICTIMS: readonly ProcessName[] = ["api", "api-2", "worker", "worker-2", "indexer", "indexer-2"];
/** Shares of blows; the rest are kills. */
const NODE_SHARE = 0.3;
const DATABASE_SHARE = 0.1;
const PAUSE_MS = 150;

export type AllFaultsReport = Verdict &
  Omit<Answers, "linkIds"> & {
    payments: number;
    blows: Record<string, number>;
    nodeFaults: Record<string, number>;
    /** Processes that ended of their own: each would need its supervisor. */
    deaths: readonly string[];
    settleMs: number;
    seconds: number;
  };

export async function runAllFaultsCampaign(count: number): Promise<AllFaultsReport> {
  const random = seededRandom(`all faults, ${count} blows`);
  const startedMs = performance.now();
  const dataDir = makeDatabaseFolder("campaign-postgres-");
  // durable: what is committed must outlive the crashes
  const postgres = await startMigratedPostgres({ dataDir, database: "campaign" });
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
    const supervisor = superviseService(service, VICTIMS);
    let isOver = false;
    const load = payWhile(stage, () => !isOver);
    for (let blow = 0; blow < count; blow++) {
      await Bun.sleep(PAUSE_MS + random() * 2 * PAUSE_MS);
      const chance = random();
      let name: string = "node";
      if (chance < NODE_SHARE) proxy.set(drawFaults(random));
      else if (chance < NODE_SHARE + DATABASE_SHARE) {
        name = "database";
        await crashDatabase(sql);
      } else name = await supervisor.killOne(random);
      blows[name] = (blows[name] ?? 0) + 1;
      await supervisor.restartDead();
    }
    isOver = true;
    proxy.heal();
    const { linkIds, ...answers } = await load;
    await supervisor.restartDead();
    const healedMs = performance.now();
    const verdict = await judge(stage, linkIds);
    return {
      ...{
        payments: linkIds.length,
        ...verdict,
        ...answers,
        blows,
        nodeFaults: proxy.counts(),
        deaths: supervisor.deaths,
      },
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

if (import.meta.main) {
  console.log(JSON.stringify(await runAllFaultsCampaign(Number(process.argv[2] ?? 60))));
  process.exit(0);
}
