/**
 * Twelve payers pay by x402 while the primary of a Patroni cluster is lost again and again, each time in another way. At the end every
 * payment that was answered must be there, once.
 */

import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { migrate } from "../../db/postgres/migrate.ts";
import { type Answers, insist, judge, payWhile, type Stage } from "../payments/campaign-load.ts";
import { startTestChain } from "../support/chain.ts";
import { startTestMailbox } from "../support/mailbox.ts";
import { waitFor } from "../support/relay-lab.ts";
import { seedMerchant } from "../support/seed.ts";
import { type ProcessName, startService } from "../support/world.ts";
import { type Cluster, startCluster } from "./cluster.ts";
import { FAULTS, FAULTS_OF_LAGGING_STANDBYS, type Fault } from "./faults.ts";

const PROCESSES: readonly ProcessName[] = ["api", "api-2", "worker", "worker-2", "indexer", "indexer-2"];
const BLOCK_TIME_S = 1;
/** Settled before each fault, and after it. */
const PAYMENTS_BETWEEN = 12;
const RECOVERY_TIMEOUT_MS = 90_000;
/**
 * Every byte of the primary's for a standby. Patroni asks the primary over the same connection and gives up after 3 s, which is four round trips, before it rewinds a former primary; and a standby
 * whose replies come later than half of wal_sender_timeout is disconnected again and again, falls behind by more than maximum_lag_on_failover, and is never promoted.
 */
const ASYNCHRONOUS_LAG_MS = 500;

export type FaultReport = {
  fault: string;
  /** The longest time without a settled payment, from the fault on. */
  secondsWithout?: number;
  /** Links whose payer had been answered "settled", and that are open again on the new primary. */
  forgotten?: number;
  /** The one that failed was promoted again, with all that it had committed. */
  isSamePrimary?: boolean;
  skipped?: string;
};

export type DrillReport = {
  cluster: "synchronous" | "asynchronous";
  faults: FaultReport[];
  payments: number;
  statuses: Record<string, number>;
  wrong: string[];
  unanswered: number;
  /** At the end: answered "settled" and not PAID; paid more than once. */
  lost: number;
  double: number;
  /** At the failovers, in all. */
  forgotten: number;
  /** Rows that were committed by their answers, and are not there at the end: nothing writes them a second time, as blocks do payments. */
  missingMarks: number;
  /** What else does not hold. */
  broken: string[];
};

type Settled = { linkId: string; atMs: number };
/** `timelines`: each that had a primary at some time. */
type Scene = { cluster: Cluster; stage: Stage; settled: Settled[]; timelines: number[] };

/** Between two marks. */
const MARK_PAUSE_MS = 100;

/** An asynchronous cluster's standbys are half a second behind, and suffer fewer faults. */
export async function runDrill(options: {
  isSynchronous: boolean;
  /** Names of the only faults to suffer. */
  only?: readonly string[];
}): Promise<DrillReport> {
  const { isSynchronous, only } = options;
  const lagMs = isSynchronous ? 0 : ASYNCHRONOUS_LAG_MS;
  const [cluster, chain, smtp] = await Promise.all([
    startCluster({ isSynchronous, lagMs }),
    startTestChain({ blockTimeS: BLOCK_TIME_S }),
    startTestMailbox(),
  ]);
  const ends: (() => Promise<unknown>)[] = [cluster.stop, chain.stop, smtp.stop];
  try {
    await migrate(cluster.url);
    const sql = openDatabase(cluster.url, { name: "drill", maxConnections: 4 });
    ends.unshift(() => sql.end({ timeout: 1 }));
    const service = await startService({ db: cluster, chain, smtp, processes: PROCESSES });
    ends.unshift(service.stop);
    const apis = PROCESSES.filter((name) => name.startsWith("api")).map(service.baseUrlOf);
    let turn = 0;
    const baseUrl = () => apis[turn++ % apis.length] ?? "";
    const stage: Stage = { sql, chain, merchant: await seedMerchant(sql), baseUrl };
    const settled: Settled[] = [];
    let isOver = false;
    const paying = payWhile(
      stage,
      () => !isOver,
      (linkId) => settled.push({ linkId, atMs: performance.now() }),
    );
    const marking = markWhile(cluster.url, () => !isOver);
    const faults: FaultReport[] = [];
    const scene: Scene = { cluster, stage, settled, timelines: [] };
    try {
      for (const fault of isSynchronous ? FAULTS : FAULTS_OF_LAGGING_STANDBYS) {
        if (only && !only.includes(fault.name)) continue;
        faults.push(await suffer(scene, fault));
        console.log(JSON.stringify(faults.at(-1)));
      }
      await cluster.waitUntilWhole();
    } finally {
      isOver = true;
    }
    return await conclude(scene, await paying, { isSynchronous, faults, marks: await marking });
  } finally {
    for (const end of ends) await end().catch((error: unknown) => console.error(String(error)));
  }
}

/** Adds rows, one after the other, and returns those whose commit was answered. */
async function markWhile(url: string, mayGoOn: () => boolean): Promise<number[]> {
  const sql = openDatabase(url, { name: "marks", maxConnections: 1 });
  const answered: number[] = [];
  try {
    await insist(() => sql`create table if not exists drill_marks (number int primary key)`);
    for (let number = 1; mayGoOn(); number++) {
      const isThere = await sql`insert into drill_marks values (${number})`.then(
        () => true,
        () => false,
      );
      if (isThere) answered.push(number);
      await Bun.sleep(MARK_PAUSE_MS);
    }
    return answered;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function suffer({ cluster, stage, settled, timelines }: Scene, fault: Fault): Promise<FaultReport> {
  await cluster.waitUntilWhole();
  await waitForMore(settled, PAYMENTS_BETWEEN);
  const primary = await cluster.findPrimary();
  const timeline = await cluster.readTimeline();
  const skipped = fault.missing?.(primary);
  if (skipped) return { fault: fault.name, skipped };
  const known = settled.map(({ linkId }) => linkId);
  const struckMs = performance.now();
  const heal = await fault.strike(primary, cluster, stage.sql);
  try {
    // A promotion begins a new timeline, also when a crashed primary is promoted itself because the standbys lag too far.
    const findPromotion = async () => {
      const found = await cluster.readTimeline().catch(() => timeline);
      return found > timeline ? found : undefined;
    };
    timelines.push(await cluster.withLogs(waitFor("a promotion", findPromotion, RECOVERY_TIMEOUT_MS)));
    const isSamePrimary = (await cluster.findPrimary().catch(() => undefined))?.name === primary.name;
    const forgotten = await countLinks(stage.sql, known, ["ACTIVE", "EXPIRED"]);
    await waitForMore(settled, PAYMENTS_BETWEEN);
    const times = [struckMs, ...settled.map(({ atMs }) => atMs).filter((atMs) => atMs > struckMs)];
    const gaps = times.slice(1).map((atMs, index) => atMs - (times[index] ?? atMs));
    const secondsWithout = Math.round(Math.max(...gaps) / 100) / 10;
    return { fault: fault.name, secondsWithout, forgotten, isSamePrimary };
  } finally {
    heal();
  }
}

function waitForMore(settled: readonly Settled[], count: number): Promise<unknown> {
  const target = settled.length + count;
  return waitFor(`${target} settled payments`, async () => settled.length >= target, RECOVERY_TIMEOUT_MS);
}

type Status = "ACTIVE" | "PENDING" | "EXPIRED" | "CANCELLED";

/** Links in one of these states, or not there at all. */
async function countLinks(
  sql: Sql,
  linkIds: readonly string[],
  statuses: readonly Status[],
): Promise<number> {
  const [row] = await insist(
    () => sql<{ count: number }[]>`
      select count(*)::int as count
      from unnest(${[...linkIds]}::text[]) as given (id)
      left join payment_links link using (id)
      where link.id is null or link.status = any(${[...statuses]}::text[])`,
  );
  return row?.count ?? 0;
}

async function conclude(
  { cluster, stage, settled, timelines }: Scene,
  { statuses, wrong, unanswered, linkIds }: Answers,
  { isSynchronous, faults, marks }: { isSynchronous: boolean; faults: FaultReport[]; marks: number[] },
): Promise<DrillReport> {
  const broken: string[] = [];
  // a former primary that serves again forgets what was committed after it
  const [newest, timeline] = [Math.max(0, ...timelines), await cluster.readTimeline()];
  if (timeline < newest) broken.push(`timeline ${newest} was given up for ${timeline}`);
  const paid = settled.map(({ linkId }) => linkId);
  await judge(stage, linkIds).catch((error: unknown) => broken.push(String(error)));
  const [row] = await stage.sql<{ count: number }[]>`
    select count(*)::int as count
    from (
      select
      from transfers
      where link_id = any(${paid}::text[]) and pays and status <> 'ORPHANED'
      group by link_id
      having count(*) > 1
    ) twice`;
  const [missing] = await stage.sql<{ count: number }[]>`
    select count(*)::int as count
    from unnest(${marks}::int[]) as mark (number)
    left join drill_marks on drill_marks.number = mark.number
    where drill_marks.number is null`;
  return {
    ...{ cluster: isSynchronous ? "synchronous" : "asynchronous", faults, payments: linkIds.length },
    ...{ statuses, wrong, unanswered },
    lost: await countLinks(stage.sql, paid, ["ACTIVE", "PENDING", "EXPIRED", "CANCELLED"]),
    double: row?.count ?? 0,
    forgotten: faults.reduce((sum, { forgotten = 0 }) => sum + forgotten, 0),
    missingMarks: missing?.count ?? 0,
    broken,
  };
}
