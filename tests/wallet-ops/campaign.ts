/**
 * Sends and refunds while processes are killed, Postgres crashes, and the node lags, lies, fails and loses what it is sent. At the end
 * what arrived, what is left, the books and a rebuild agree to the micro-USDC. By hand: `bun tests/wallet-ops/campaign.ts 1000 7`
 * (operations, seed).
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { rebuildNetwork } from "../../indexer/audit/rebuild-network.ts";
import { readUsdcBalance } from "../../local/chain/usdc.ts";
import { openLies } from "../payments/lying-node-campaign.ts";
import { startFaultProxy as startSendProxy } from "../rpc/fault-proxy.ts";
import { startTestChain } from "../support/chain.ts";
import { drawFaults, startFaultProxy } from "../support/fault-proxy.ts";
import { openTerm } from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { startTestMailbox } from "../support/mailbox.ts";
import { startMigratedPostgres } from "../support/migrated-cluster.ts";
import { waitFor } from "../support/relay-lab.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { crashDatabase, superviseService } from "../support/service-faults.ts";
import { type ProcessName, startService } from "../support/world.ts";
import {
  FUNDS,
  LINK_UNITS,
  type Load,
  makeOwner,
  moveMoney,
  type Order,
  type Owner,
} from "./campaign-load.ts";

const PROCESSES: readonly ProcessName[] = ["api", "api-2", "worker", "worker-2", "indexer", "indexer-2"];
/** Shares of blows; the rest are kills. */
const NODE_SHARE = 0.3;
const DATABASE_SHARE = 0.1;
/** One of each kind, and as many kills as a small campaign has processes. */
export const FIRST_BLOWS = ["node", "kill", "database", "kill", "node", "kill", "kill"] as const;
const PAUSE_MS = 150;
const OWNERS_MAX = 24;
const OPERATIONS_AN_OWNER = 5;
const QUIET_TIMEOUT_MS = 120_000;
const BALANCES_AT_ONCE = 50;
/** Spent by nobody here: the budgets are another subject. */
const ENV = { SEND_GAS_PER_DAY: "100000000000", RATE_LIMITS: "0" };

export type CampaignReport = {
  operations: number;
  outcomes: Record<string, number>;
  voids: number;
  wrong: readonly string[];
  movedUnits: string;
  relays: number;
  reverted: number;
  blows: Record<string, number>;
  nodeFaults: Record<string, number>;
  /** Processes that ended by themselves: each would need its supervisor. */
  deaths: readonly string[];
  settleMs: number;
  seconds: number;
};

/** Throws what does not hold. The load lasts for `operations` and at least one blow of each kind. */
export async function runCampaign(
  operations: number,
  processes: readonly ProcessName[] = PROCESSES,
  blowsMax = Number.POSITIVE_INFINITY,
): Promise<CampaignReport> {
  const random = seededRandom(`campaign of ${operations} sends and refunds`);
  const startedMs = performance.now();
  const dataDir = mkdtempSync(join(tmpdir(), "campaign-postgres-"));
  // durable: what is committed must outlive the crashes
  const postgres = await startMigratedPostgres({ dataDir, database: "campaign" });
  const [chain, smtp] = await Promise.all([startTestChain(), startTestMailbox()]);
  const lies = openLies(random);
  const node = await startFaultProxy(chain.rpcUrl, { random });
  const sending = startSendProxy(node.url);
  const sql = openDatabase(postgres.url, { name: "campaign", maxConnections: 4 });
  const service = await startService({
    ...{ db: postgres, chain: { ...chain, rpcUrl: sending.url }, smtp, env: ENV, processes },
  });
  try {
    const baseUrl = () => service.baseUrlOf(random() < 0.5 ? "api" : "api-2");
    const stage = { sql, chain, baseUrl, random };
    const count = Math.min(OWNERS_MAX, Math.ceil(operations / OPERATIONS_AN_OWNER));
    const quiet = { ...stage, baseUrl: () => service.baseUrl };
    const owners = await Promise.all(Array.from({ length: count }, () => makeOwner(quiet)));
    sending.fault = lies.fault;
    const load: Load = { orders: [], voids: 0, wrong: [] };
    const blows: Record<string, number> = {};
    let [left, struck, isOver] = [operations, 0, false];
    const mayGoOn = () => left-- > 0 || struck < FIRST_BLOWS.length;
    const moving = Promise.all(owners.map((owner) => moveMoney(stage, owner, load, mayGoOn)));
    moving
      .catch(() => undefined)
      .finally(() => {
        isOver = true;
      });
    const supervisor = superviseService(service, processes);
    while (!isOver) {
      await Bun.sleep(PAUSE_MS + random() * 2 * PAUSE_MS);
      await supervisor.restartDead();
      if (struck >= blowsMax) continue;
      const blow = FIRST_BLOWS[struck] ?? drawBlow(random);
      let name: string = blow;
      if (blow === "node") node.set(drawFaults(random));
      else if (blow === "database") await crashDatabase(sql);
      else name = await supervisor.killOne(random);
      struck += 1;
      blows[name] = (blows[name] ?? 0) + 1;
    }
    await moving;
    node.heal();
    sending.fault = () => undefined;
    await supervisor.restartDead();
    const healedMs = performance.now();
    await waitUntilQuiet(sql);
    const settleMs = Math.round(performance.now() - healedMs);
    for (const name of processes) if (name.startsWith("indexer")) await service.kill(name, "SIGTERM");
    await judge(sql, chain, owners, load.orders);
    const [relays] = await sql<{ relays: number; reverted: number }[]>`
      select count(*)::int as relays, (count(*) filter (where not succeeded))::int as reverted
      from relays
      where kind = 'OPERATIONS'`;
    const outcomes = Object.entries(Object.groupBy(load.orders, ({ outcome }) => outcome));
    return {
      operations: load.orders.length,
      outcomes: Object.fromEntries(outcomes.map(([outcome, orders = []]) => [outcome, orders.length])),
      ...{ voids: load.voids, wrong: load.wrong, movedUnits: sumOf(confirmedOf(load.orders)).toString() },
      ...{ relays: relays?.relays ?? 0, reverted: relays?.reverted ?? 0, blows },
      nodeFaults: { ...node.counts(), ...lies.counts },
      ...{ deaths: supervisor.deaths, settleMs },
      seconds: Math.round((performance.now() - startedMs) / 1000),
    };
  } finally {
    await sql.end({ timeout: 1 });
    await service.stop();
    await sending.stop();
    await node.stop();
    await Promise.all([postgres.stop(), chain.stop(), smtp.stop()]);
    rmSync(dataDir, { recursive: true, force: true });
  }
}

function drawBlow(random: () => number): (typeof FIRST_BLOWS)[number] {
  const chance = random();
  if (chance < NODE_SHARE) return "node";
  return chance < NODE_SHARE + DATABASE_SHARE ? "database" : "kill";
}

async function waitUntilQuiet(sql: Sql): Promise<void> {
  await waitFor(
    "everything to be quiet",
    async () => {
      const [row] = await sql<{ open: number }[]>`
        select
          (
            (select count(*) from wallet_operations where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED'))
            + (select count(*) from relays where state in ('SIGNED', 'BROADCAST', 'MINED'))
          )::int as open`;
      return row?.open === 0;
    },
    QUIET_TIMEOUT_MS,
  );
}

function confirmedOf(orders: readonly Order[]): Order[] {
  return orders.filter(({ outcome }) => outcome === "CONFIRMED");
}

function sumOf(orders: readonly Order[]): bigint {
  return orders.reduce((sum, { units }) => sum + units, 0n);
}

/** What arrived where, what is left, and each book, to the micro-USDC. */
async function judge(
  sql: Sql,
  chain: { rpcUrl: string; chainId: number },
  owners: readonly Owner[],
  orders: readonly Order[],
): Promise<void> {
  const faults = [
    ...(await checkRecipients(chain.rpcUrl, orders)),
    ...(await checkRows(sql, orders)),
    ...(await Promise.all(owners.map((owner) => checkOwner(sql, chain.rpcUrl, owner, orders)))).flat(),
  ];
  if (faults.length > 0) throw new Error(`${faults.length} fault(s):\n${faults.slice(0, 30).join("\n")}`);
  await assertInvariants(sql, chain);
  const term = await openTerm({ sql, chain } as Parameters<typeof openTerm>[0]);
  try {
    const { differences } = await rebuildNetwork(term);
    if (differences.length > 0) throw new Error(`a rebuild differs: ${JSON.stringify(differences)}`);
  } finally {
    term.close();
  }
}

/** Each recipient belongs to one order: it holds the amount of a CONFIRMED one, and nothing of any other. */
async function checkRecipients(rpcUrl: string, orders: readonly Order[]): Promise<string[]> {
  const faults: string[] = [];
  for (let start = 0; start < orders.length; start += BALANCES_AT_ONCE) {
    const page = orders.slice(start, start + BALANCES_AT_ONCE);
    const balances = await Promise.all(page.map(({ to }) => readUsdcBalance(rpcUrl, to)));
    for (const [index, { id, outcome, units }] of page.entries()) {
      const expected = outcome === "CONFIRMED" ? units : 0n;
      if (balances[index] !== expected)
        faults.push(`${id} ${outcome}: its recipient holds ${balances[index]} instead of ${expected}`);
    }
  }
  return faults;
}

/** What the owner was last answered is what the row says, and one event said so. */
async function checkRows(sql: Sql, orders: readonly Order[]): Promise<string[]> {
  const rows = await sql<{ id: string; state: string; events: string[] }[]>`
    select op.id, op.state, coalesce(ended.types, '{}') as events
    from wallet_operations op
    left join (
      select subject_id, array_agg(type order by type) as types
      from events
      where type ~ '(confirmed|failed)$'
      group by subject_id
    ) ended on ended.subject_id = op.id`;
  const byId = new Map(rows.map((row) => [row.id, row]));
  return orders.flatMap(({ id, kind, outcome }) => {
    const row = byId.get(id);
    if (!row) return [`${id} is forgotten`];
    if (outcome === "REJECTED") return [];
    const prefix = kind === "SEND" ? "wallet.send" : "refund";
    const expected = outcome === "CANCELLED" ? [] : [`${prefix}_${outcome.toLowerCase()}`];
    const events = row.events.map((type) => type.replace("refund.", "refund_"));
    return row.state === outcome && JSON.stringify(events) === JSON.stringify(expected)
      ? []
      : [`${id}: ${outcome} was answered, the row says ${row.state}, the events ${events.join()}`];
  });
}

async function checkOwner(
  sql: Sql,
  rpcUrl: string,
  owner: Owner,
  orders: readonly Order[],
): Promise<string[]> {
  const { merchant, linkId } = owner;
  const own = confirmedOf(orders).filter((order) => order.owner === owner);
  const refunded = sumOf(own.filter(({ kind }) => kind === "REFUND"));
  const balance = await readUsdcBalance(rpcUrl, merchant.walletAddress as Hex);
  const left = FUNDS + LINK_UNITS - sumOf(own);
  const [books] = await sql<{ sent: bigint; refunded: bigint }[]>`
    select
      (
        select coalesce(sum(amount_units), 0)::bigint
        from transactions
        where owner = owner_key(${merchant.userId}) and type = 'SEND' and status = 'CONFIRMED'
      ) as sent,
      (select refunded_units::bigint from payment_links where id = ${linkId}) as refunded`;
  return [
    ...(balance === left ? [] : [`${merchant.userId}: the wallet holds ${balance} instead of ${left}`]),
    ...(books?.sent === sumOf(own) ? [] : [`${merchant.userId}: ${books?.sent} sent in the history`]),
    ...(books?.refunded === refunded ? [] : [`${linkId}: ${books?.refunded} refunded, not ${refunded}`]),
  ];
}

if (import.meta.main) {
  const [, , operations = "1000", seed] = process.argv;
  if (seed !== undefined) process.env.TEST_SEED = seed;
  console.log(JSON.stringify(await runCampaign(Number(operations))));
  process.exit(0);
}
