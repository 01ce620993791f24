/**
 * Kills processes at random while payments run, and compares the ledger with the chain at the end.
 * By hand: `bun tests/payments/campaign.ts 200` (kills), the seed from TEST_SEED when that is set.
 */
import { seedMerchant } from "../support/seed.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { type ProcessName, startWorld } from "../support/world.ts";
import { type Answers, judge, payWhile, type Stage, type Verdict } from "./campaign-load.ts";

const VICTIMS: readonly ProcessName[] = ["api", "api-2", "worker", "worker-2", "indexer", "indexer-2"];
const FAST_MS = 60;

export type CampaignReport = Verdict &
  Omit<Answers, "linkIds"> & {
    kills: Record<string, number>;
    payments: number;
    settleMs: number;
    seconds: number;
  };

export async function runCampaign(kills: number): Promise<CampaignReport> {
  const random = seededRandom(`campaign of ${kills} kills`);
  const startedMs = performance.now();
  const world = await startWorld({ processes: VICTIMS });
  const { sql } = world;
  try {
    const baseUrl = () => world.baseUrlOf(random() < 0.5 ? "api" : "api-2");
    const stage: Stage = { sql, chain: world.chain, merchant: await seedMerchant(sql), baseUrl };
    const killed: Record<string, number> = {};
    let isOver = false;
    const load = payWhile(stage, () => !isOver);
    for (let count = 0; count < kills; count++) {
      await Bun.sleep(FAST_MS + random() * 300);
      const name = VICTIMS[Math.floor(random() * VICTIMS.length)] ?? "worker";
      await world.kill(name, "SIGKILL");
      killed[name] = (killed[name] ?? 0) + 1;
      await Bun.sleep(random() * 300);
      await world.start(name);
    }
    isOver = true;
    const { linkIds, ...answers } = await load;
    const healedMs = performance.now();
    const verdict = await judge(stage, linkIds);
    return {
      ...{ kills: killed, payments: linkIds.length, ...verdict, ...answers },
      settleMs: Math.round(performance.now() - healedMs),
      seconds: Math.round((performance.now() - startedMs) / 1000),
    };
  } finally {
    await world.stop();
  }
}

if (import.meta.main) {
  console.log(JSON.stringify(await runCampaign(Number(process.argv[2] ?? 200))));
  process.exit(0);
}
