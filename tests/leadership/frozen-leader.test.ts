/** A leader that is stopped keeps its connections and its lock. It is replaced, and writes nothing when it wakes. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type IndexerLeaderLock, openIndexerLeaderLock } from "../../db/ledger/indexer-leader-lock.ts";
import { openDatabase } from "../../db/postgres/client.ts";
import { type ServiceProcess, startServiceProcess } from "../../local/processes/service-process.ts";
import { serviceProgram } from "../support/compiled-services.ts";
import { startDatabaseWay } from "../support/database-way.ts";
import {
  amounts,
  type Lab,
  linkOf,
  type Merchant,
  makeLink,
  makeMerchant,
  makePayer,
  NETWORK,
  openLab,
  pay,
  settled,
  startIndexer,
  until,
} from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";

setDefaultTimeout(120_000);
const REPLACED_WITHIN_MS = 45_000;
const freshUnits = amounts();

type Indexer = { process: ServiceProcess; lines: string[] };

let lab: Lab;
let merchant: Merchant;
let payer: `0x${string}`;
const indexers: Indexer[] = [];
beforeAll(async () => {
  lab = await openLab();
  merchant = await makeMerchant(lab);
  payer = await makePayer(lab);
});
afterAll(async () => {
  for (const indexer of indexers) signal(indexer, "SIGCONT");
  await Promise.all(indexers.map(({ process }) => process.stop()));
  await lab.stop();
});

async function startProcess(): Promise<Indexer> {
  const { PATH, HOME } = process.env;
  const lines: string[] = [];
  const env = {
    ...{ PATH, HOME, NODE_ENV: "test", DATABASE_URL: lab.db.url, NETWORKS: NETWORK },
    ...{ RPC_URL_BASE_SEPOLIA: lab.chain.rpcUrl, CONFIRMATIONS_BASE_SEPOLIA: "1" },
  };
  const indexer = {
    process: await startServiceProcess("indexer", env, (line) => lines.push(line), serviceProgram("indexer")),
    lines,
  };
  indexers.push(indexer);
  return indexer;
}

/** To the process and the shell that watches it. */
function signal({ process: { pid } }: Indexer, name: "SIGSTOP" | "SIGCONT"): void {
  process.kill(-pid, name);
}

const leadsSince = ({ lines }: Indexer) => lines.filter((line) => line.includes('"msg":"leading"')).length;
const isStarted = ({ lines }: Indexer) => lines.some((line) => line.includes("indexer started"));
const wasFenced = ({ lines }: Indexer) =>
  lines.some((line) => line.includes("belongs to another leader") || line.includes("lock is lost"));

async function readEpoch(): Promise<bigint> {
  const [row] = await lab.sql<{ epoch: bigint }[]>`select epoch from cursors`;
  return row?.epoch ?? 0n;
}

async function payLink(): Promise<string> {
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  await pay(lab, payer, merchant.address, units);
  return linkId;
}

const isPaid = (linkId: string) => async () => (await linkOf(lab, linkId)).status === "PAID";

test("a leader that is paused is replaced once, and is fenced when it resumes", async () => {
  const first = await startProcess();
  await until("the first leads", async () => leadsSince(first) === 1);
  const second = await startProcess();
  await until("the second is on standby", async () => isStarted(second));
  await payLink();
  await settled(lab);
  const epoch = await readEpoch();

  signal(first, "SIGSTOP");
  const stoppedMs = performance.now();
  const linkId = await payLink();
  await until("the link is paid", isPaid(linkId), REPLACED_WITHIN_MS);
  console.log(`a frozen leader was replaced after ${Math.round(performance.now() - stoppedMs)} ms`);
  expect(leadsSince(second)).toBe(1);

  signal(first, "SIGCONT");
  await until("the first has noticed", async () => wasFenced(first));
  const after = await payLink();
  await until("the second goes on", isPaid(after));
  expect(await readEpoch()).toBe(epoch + 1n);
  await assertInvariants(lab.sql, lab.chain);
});

test("a leader that is paused within a transaction does not block its rows for the next one", async () => {
  const [first, second] = indexers as [Indexer, Indexer];
  const leader = leadsSince(second) > 0 ? second : first;
  // its next commit waits for the cursor's row; it gets it when it can't go on any more
  const units = freshUnits();
  const linkId = await makeLink(lab, merchant, { units });
  await lab.sql.begin(async (tx) => {
    await tx`select from cursors for update`;
    await pay(lab, payer, merchant.address, units);
    await until("it waits", async () => {
      const rows = await lab.sql`
        select from pg_stat_activity
        where datname = current_database() and application_name = 'indexer' and wait_event_type = 'Lock'
          and backend_xid is not null`;
      return rows.length > 0;
    });
    signal(leader, "SIGSTOP");
  });
  const stoppedMs = performance.now();
  await until("it is replaced", isPaid(linkId), REPLACED_WITHIN_MS);
  console.log(
    `a leader frozen in a transaction was replaced after ${Math.round(performance.now() - stoppedMs)} ms`,
  );
  signal(leader, "SIGCONT");
  await settled(lab);
  await assertInvariants(lab.sql, lab.chain);
});

test("a leader paused between two messages of one statement does not block its rows for the next one", async () => {
  const stuck = await openLab();
  const indexer = startIndexer(stuck);
  const owner = await makeMerchant(stuck);
  await settled(stuck);
  await indexer.stop();
  // its next statement is parsed and never bound, as no answer reaches it: not a client that is idle in its transaction
  const way = startDatabaseWay(stuck.db.url);
  const former = openDatabase(way.url, {
    ...{ name: "indexer", maxConnections: 1, silenceTimeoutS: 0, idleInTransactionTimeoutMs: 1_000 },
  });
  const ended = former
    .begin(async (tx) => {
      await tx`select from cursors for update`;
      way.cutWhen(() => new Promise(() => undefined));
      await tx`select count(*) from cursors where network = ${NETWORK}`;
    })
    .then(
      () => "committed",
      () => "ended",
    );
  await until("it holds the row and waits for its client", async () => {
    const rows = await stuck.sql`
      select from pg_stat_activity
      where datname = current_database() and application_name = 'indexer' and backend_xid is not null
        and (state, wait_event) = ('active', 'ClientRead')`;
    return rows.length > 0;
  });
  const units = freshUnits();
  const linkId = await makeLink(stuck, owner, { units });
  const person = await makePayer(stuck);
  await pay(stuck, person, owner.address, units);
  const next = startIndexer(stuck);
  await until("the link is paid", async () => (await linkOf(stuck, linkId)).status === "PAID");
  await next.stop();
  await assertInvariants(stuck.sql, stuck.chain);
  way.stop();
  await former.end({ timeout: 1 });
  expect(await ended).toBe("ended");
  await stuck.stop();
});

describe("a leader's lock", () => {
  let other: Lab;
  let leader: IndexerLeaderLock;
  let standby: IndexerLeaderLock;
  let broken = 0;
  beforeAll(async () => {
    other = await openLab();
    // makes the cursor
    const indexer = startIndexer(other);
    await settled(other);
    await indexer.stop();
    const open = (onBroken: () => void) =>
      openIndexerLeaderLock(other.db.url, NETWORK, { name: "indexer-lead", onBroken });
    leader = open(() => {
      broken += 1;
    });
    standby = open(() => undefined);
    expect(await leader.tryToTake()).toBe(true);
  });
  afterAll(async () => {
    await Promise.all([leader.close(), standby.close()]);
    await other.stop();
  });

  const beatBefore = (seconds: number) =>
    other.sql`update indexer_leaders set alive_at = now() - make_interval(secs => ${seconds})`;

  test("is left to a leader whose last heartbeat is 10 s old", async () => {
    // two seconds less than it takes: a busy machine asks later than it sets the time
    await beatBefore(10);
    expect(await standby.endFrozenLeader()).toBe(false);
    expect(await standby.tryToTake()).toBe(false);
    expect(await leader.keepAlive()).toBe(true);
  });

  test("is left to a new leader despite the old heartbeat of another one", async () => {
    await beatBefore(60);
    await other.sql`update indexer_leaders set backend_pid = backend_pid + 1`;
    expect(await standby.endFrozenLeader()).toBe(false);
    expect(await leader.keepAlive()).toBe(true);
  });

  test("is taken from a leader whose last heartbeat is 13 s old, which notices and sends no more heartbeats", async () => {
    await beatBefore(13);
    expect(await standby.endFrozenLeader()).toBe(true);
    await until("it is free", () => standby.tryToTake());
    await until("the leader has noticed", async () => broken > 0);
    expect(broken).toBe(1);
    expect(await leader.keepAlive()).toBe(false);
    expect(await standby.keepAlive()).toBe(true);
    // nothing to end: the new leader has just had a heartbeat
    expect(await leader.endFrozenLeader()).toBe(false);
  });
});
