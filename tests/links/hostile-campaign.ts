/**
 * Payers who pay in every documented way, among links of one price; attackers who claim that money for links of theirs; third parties
 * who execute authorizations first; and a service that is killed, stopped and disconnected concurrently. Run manually:
 * `bun tests/links/hostile-campaign.ts 2000 7` (links, seed). `unopposed` as a third argument lets attackers claim early what its sender
 * never claims, which is counted separately: the two cannot be distinguished.
 */
import { rmSync } from "node:fs";
import { openDatabase } from "../../db/postgres/client.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { insist } from "../payments/campaign-load.ts";
import { startTestChain } from "../support/chain.ts";
import { startFaultProxy } from "../support/fault-proxy.ts";
import { assertInvariants } from "../support/invariants.ts";
import { startTestMailbox } from "../support/mailbox.ts";
import { startMigratedPostgres } from "../support/migrated-cluster.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { waitFor } from "../support/relay-lab.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { superviseService } from "../support/service-faults.ts";
import { type ProcessName, startService } from "../support/world.ts";
import { strikeUntil } from "./hostile-faults.ts";
import { type HostileVerdict, judgeHostility } from "./hostile-judge.ts";
import { drawPlan } from "./hostile-plan.ts";
import { type HostileLink, makeHostileLink, openShops, type Shop, type Stage } from "./hostile-stage.ts";
import { type Plan, playLink } from "./hostile-stories.ts";

const PROCESSES: readonly ProcessName[] = ["api", "api-2", "worker", "worker-2", "indexer", "indexer-2"];
const LINKS_A_SHOP = 250;
const LEAST_SHOPS = 2;
/** Prices of groups lie further apart than unique amounts reach. */
const FIRST_PRICE_UNITS = 1_000_000n;
const PRICE_STEP_UNITS = 2_000n;
const GROUP_SIZES = [1, 1, 1, 2, 2, 3] as const;
/** Groups whose links are paid at the same time. */
const GROUPS_AT_ONCE = 20;
const BLOCK_TIME_S = 1;
const QUIET_TIMEOUT_MS = 150_000;
const VERDICT_TIMEOUT_MS = 20_000;

export type HostileReport = HostileVerdict & {
  made: number;
  thefts: Record<string, number>;
  answers: Record<string, number>;
  faults: Record<string, number>;
  deaths: readonly string[];
  blocks: number;
  seconds: number;
};

export async function runHostileCampaign(
  count: number,
  { isUnopposed = false } = {},
): Promise<HostileReport> {
  const random = seededRandom(`hostile campaign of ${count} links`);
  const groups = drawGroups(count, random);
  const startedMs = performance.now();
  const dataDir = makeDatabaseFolder("campaign-postgres-");
  // durable: committed data must survive the crashes
  const postgres = await startMigratedPostgres({ dataDir, database: "campaign" });
  const [chain, smtp] = await Promise.all([startTestChain({ blockTimeS: BLOCK_TIME_S }), startTestMailbox()]);
  const proxy = await startFaultProxy(chain.rpcUrl, { random: Math.random });
  const sql = openDatabase(postgres.url, { name: "campaign", maxConnections: 6 });
  const service = await startService({
    ...{ db: postgres, chain: { ...chain, rpcUrl: proxy.url }, smtp },
    processes: PROCESSES,
    env: { NODE_ENV: "test", RATE_LIMITS: "0" },
  });
  const supervisor = superviseService(service, PROCESSES);
  try {
    const baseUrl = () => service.baseUrlOf(Math.random() < 0.5 ? "api" : "api-2");
    const stage: Stage = {
      ...{ service, sql, chain, baseUrl },
      ...{ deeds: [], thefts: [], wrong: [], answers: {} },
    };
    const shops = await openShops(service.baseUrl, Math.max(LEAST_SHOPS, Math.ceil(count / LINKS_A_SHOP)));
    const faults: Record<string, number> = {};
    let isOver = false;
    const storm = strikeUntil(() => isOver, { stage, proxy, supervisor, random, faults });
    const links = await playAll(stage, { shops, groups, isUnopposed }).finally(() => {
      isOver = true;
    });
    await storm;
    const head = await becomeQuiet(stage);
    const verdict = await insistOnVerdict(stage, links, isUnopposed);
    return {
      made: links.length,
      ...verdict,
      thefts: countThefts(stage),
      ...{ answers: stage.answers, faults, deaths: supervisor.deaths, blocks: head },
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

/** Plans of links of one price each. */
function drawGroups(count: number, random: () => number): Plan[][] {
  const groups: Plan[][] = [];
  for (let planned = 0; planned < count; ) {
    const drawn = GROUP_SIZES[Math.floor(random() * GROUP_SIZES.length)] ?? 1;
    const size = Math.min(drawn, count - planned);
    groups.push(Array.from({ length: size }, () => drawPlan(random)));
    planned += size;
  }
  return groups;
}

type Cast = { shops: readonly Shop[]; groups: readonly (readonly Plan[])[]; isUnopposed: boolean };

/** Group by group, some concurrently: links of one price, then everybody who pays them. */
async function playAll(stage: Stage, { shops, groups, isUnopposed }: Cast): Promise<HostileLink[]> {
  const links: HostileLink[] = [];
  /** A link of another price in the same wallet. */
  const misfits = new Map<Shop, HostileLink>();
  const playGroup = async (group: number, plans: readonly Plan[]) => {
    const shop = shops[group % shops.length];
    if (!shop) throw new Error("there is no shop");
    const amountUnits = FIRST_PRICE_UNITS + BigInt(group) * PRICE_STEP_UNITS;
    const own: HostileLink[] = [];
    for (const index of plans.keys())
      own.push(await makeHostileLink(stage, { shop, group, amountUnits, key: `${group}-${index}` }));
    links.push(...own);
    const misfit = misfits.get(shop);
    misfits.set(shop, own[0] as HostileLink);
    await Promise.all(
      plans.map((plan, index) => {
        const link = own[index] as HostileLink;
        const twin = own.find((one) => one !== link);
        return playLink(stage, { link, plan, twin, misfit, isUnopposed });
      }),
    );
  };
  let group = 0;
  const hand = async () => {
    for (let plans = groups[group]; plans; plans = groups[group]) await playGroup(group++, plans);
  };
  await Promise.all(Array.from({ length: GROUPS_AT_ONCE }, hand));
  return links;
}

/** Nothing is in flight, no more blocks come, and all of them are read. Returns the head. */
async function becomeQuiet({ sql, chain }: Stage): Promise<number> {
  const isQuiet = async () => {
    const [row] = await insist(
      () => sql<{ open: number }[]>`
        select
          (select count(*) from payments where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED'))::int
            + (select count(*) from relays where state in ('SIGNED', 'BROADCAST'))::int as open`,
    );
    return row?.open === 0;
  };
  await waitFor("everything to be quiet", isQuiet, QUIET_TIMEOUT_MS);
  await callRpc(chain.rpcUrl, "evm_setIntervalMining", [0]);
  for (let block = 0; block < 3; block++) await callRpc(chain.rpcUrl, "evm_mine");
  const head = Number(await callRpc(chain.rpcUrl, "eth_blockNumber"));
  await waitFor(
    `the indexer to be at ${head}`,
    async () => {
      const [row] = await sql<{ number: bigint }[]>`select number from cursors`;
      return row !== undefined && Number(row.number) >= head;
    },
    QUIET_TIMEOUT_MS,
  );
  return head;
}

/** Late evidence is settled shortly after it came; what is violated then is a violation. */
async function insistOnVerdict(
  stage: Stage,
  links: readonly HostileLink[],
  isUnopposed: boolean,
): Promise<HostileVerdict> {
  const deadline = Date.now() + VERDICT_TIMEOUT_MS;
  for (;;) {
    const verdict = await judgeHostility(stage, links, { isUnopposed });
    const fault = await assertInvariants(stage.sql, stage.chain).then(
      () => undefined,
      (error: unknown) => String(error),
    );
    const broken = [...verdict.broken, ...(fault ? [fault] : [])];
    if (broken.length === 0) return verdict;
    if (Date.now() > deadline)
      throw new Error(`${broken.length} violation(s):\n${broken.join("\n")}\n${JSON.stringify(verdict)}`);
    await Bun.sleep(1_000);
  }
}

function countThefts({ thefts }: Stage): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind, status } of thefts) {
    const name = `${kind}: ${status}`;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

if (import.meta.main) {
  const [links, seed, word] = process.argv.slice(2);
  if (seed !== undefined) process.env.TEST_SEED = seed;
  const report = await runHostileCampaign(Number(links ?? 2_000), { isUnopposed: word === "unopposed" });
  console.log(JSON.stringify(report, null, 2));
  process.exit(0);
}
