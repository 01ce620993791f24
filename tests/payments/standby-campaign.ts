/**
 * Postgres is lost while payers pay by x402, and a standby that is at least 2.5 s behind is promoted in its place, without a restart of any process.
 * All links have one merchant and one price, so that nothing but what the chain says of a relay tells which link it paid.
 * By hand: `bun tests/payments/standby-campaign.ts 200` (payers), the seed from TEST_SEED when that is set.
 */
import { rmSync } from "node:fs";
import { NETWORKS } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { assertInvariants } from "../support/invariants.ts";
import { startTestMailbox } from "../support/mailbox.ts";
import { makePayer, type SignedPayment, shapeA, signPayment } from "../support/payer.ts";
import { makeDatabaseFolder } from "../support/postgres-server.ts";
import { waitFor } from "../support/relay-lab.ts";
import { type SeededMerchant, seedLinks, seedMerchant } from "../support/seed.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { startReplicatedPostgres } from "../support/standby.ts";
import { type ProcessName, type Service, startService } from "../support/world.ts";
import { insist } from "./campaign-load.ts";

const PROCESSES: readonly ProcessName[] = ["api", "api-2", "worker", "worker-2", "indexer", "indexer-2"];
const NETWORK = "base-sepolia";
const LAG_MS = 2_500;
const BLOCK_TIME_S = 1;
const LINKS_PER_PAYER = 3;
/** Share of all payments that are settled when replication stops, a moment before the primary is lost. */
const LOST_AT_SHARE = 0.4;
const AMOUNT = 10_000n;
const THINK_MS = 2_000;
const TRIES_MAX = 400;
const PAUSE_MS = 100;
const ANSWER_TIMEOUT_MS = 20_000;
const QUIET_TIMEOUT_MS = 120_000;
/** 202 is a promise of a database that may be lost: asked again with the same body, as its payer would ask for the payment's state. */
const FINAL = [200, 409];

export type StandbyReport = {
  payments: number;
  /** Links whose payer had read "settled" before the primary was lost, and how many of those the standby knew nothing of. */
  settledBefore: number;
  forgotten: number;
  statuses: Record<string, number>;
  /** Answers no payment may get: refusals, and errors that do not say "try again". */
  wrong: string[];
  unanswered: number;
  /** From the promotion until every link whose payer had read "settled" was PAID again. */
  healedMs: number | undefined;
  /** What does not hold at the end, link by link. */
  faults: string[];
  seconds: number;
};

type Order = { linkId: string; payment: SignedPayment; settledAtMs?: number; txHash?: string };
type Stage = { sql: Sql; chain: TestChain; service: Service; random: () => number };

export async function runStandbyCampaign(payers: number): Promise<StandbyReport> {
  const random = seededRandom(`standby promoted under ${payers} payers`);
  const startedMs = performance.now();
  const folder = makeDatabaseFolder("campaign-standby-");
  const [postgres, chain, smtp] = await Promise.all([
    startReplicatedPostgres({ folder, database: "campaign", lagMs: LAG_MS }),
    startTestChain({ blockTimeS: BLOCK_TIME_S }),
    startTestMailbox(),
  ]);
  const sql = openDatabase(postgres.url, { name: "campaign", maxConnections: 4 });
  const service = await startService({ db: postgres, chain, smtp, processes: PROCESSES });
  try {
    const stage: Stage = { sql, chain, service, random };
    const orders = await makeOrders(stage, await seedMerchant(sql), payers * LINKS_PER_PAYER);
    // links that are made within the lag are lost with it: only payments are to be
    await postgres.waitForStandby();
    const load = payAll(stage, orders, payers);
    await waitFor(
      "enough payments",
      async () => countSettled(orders) >= orders.length * LOST_AT_SHARE,
      120_000,
    );
    // however slow the machine is, the standby has missed a payment whose payer had read "settled"
    postgres.cutReplication();
    await waitUntilForgotten(postgres.standbyUrl, orders);
    let known: Order[] = [];
    let forgotten = 0;
    await postgres.failOver(async (standbyUrl) => {
      // before the indexer reads the chain again
      const promoted = openDatabase(standbyUrl, { name: "campaign", maxConnections: 1 });
      known = listSettled(orders);
      forgotten = await countForgotten(promoted, known);
      await promoted.end();
    });
    const promotedMs = performance.now();
    const healing = waitUntilPaid(sql, known).then(() => Math.round(performance.now() - promotedMs));
    const [answers, healedMs] = await Promise.all([load, healing.catch(() => undefined)]);
    await waitUntilQuiet(stage);
    return {
      ...{ payments: orders.length, settledBefore: known.length, forgotten, ...answers, healedMs },
      faults: await findFaults(stage, orders),
      seconds: Math.round((performance.now() - startedMs) / 1000),
    };
  } finally {
    await sql.end({ timeout: 1 });
    await service.stop();
    await Promise.all([postgres.stop(), chain.stop(), smtp.stop()]);
    rmSync(folder, { recursive: true, force: true });
  }
}

async function makeOrders({ sql, chain }: Stage, merchant: SeededMerchant, count: number): Promise<Order[]> {
  const linkIds = await seedLinks(sql, merchant, { count, amountUnits: AMOUNT });
  const payers = linkIds.map(() => makePayer());
  await fundUsdc(
    chain.rpcUrl,
    payers.map(({ address }) => address),
    AMOUNT,
  );
  const validBefore = Math.floor(Date.now() / 1000) + 3_600;
  const terms = { to: merchant.address, amountUnits: AMOUNT, validBefore };
  return Promise.all(
    linkIds.map(async (linkId, index) => {
      const payer = payers[index];
      if (!payer) throw new Error("there is a payer for every link");
      return { linkId, payment: await signPayment(payer, terms) };
    }),
  );
}

async function waitUntilForgotten(standbyUrl: string, orders: readonly Order[]): Promise<void> {
  const standby = openDatabase(standbyUrl, { name: "campaign", maxConnections: 1 });
  try {
    await waitFor(
      "a settled payment that the standby has missed",
      async () => (await countForgotten(standby, listSettled(orders))) > 0,
      60_000,
    );
  } finally {
    await standby.end();
  }
}

const listSettled = (orders: readonly Order[]) =>
  orders.filter(({ settledAtMs }) => settledAtMs !== undefined);

const countSettled = (orders: readonly Order[]) => listSettled(orders).length;

/** A closed loop of payers, each repeating the very same body until it is answered, as clients should. */
async function payAll(stage: Stage, orders: readonly Order[], payers: number) {
  const answers = { statuses: {} as Record<string, number>, wrong: [] as string[], unanswered: 0 };
  const waiting = [...orders];
  const payer = async () => {
    for (let order = waiting.pop(); order; order = waiting.pop()) {
      await Bun.sleep(stage.random() * THINK_MS);
      if (!(await payOnce(stage, order, answers))) answers.unanswered += 1;
    }
  };
  await Promise.all(Array.from({ length: payers }, payer));
  return answers;
}

async function payOnce(
  { service, random }: Stage,
  order: Order,
  answers: { statuses: Record<string, number>; wrong: string[] },
): Promise<boolean> {
  const request = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(shapeA(order.payment)),
  };
  for (let attempt = 0; attempt < TRIES_MAX; attempt++) {
    const baseUrl = service.baseUrlOf(random() < 0.5 ? "api" : "api-2");
    try {
      const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
      const response = await fetch(`${baseUrl}/v1/x402/${order.linkId}/pay`, { ...request, signal });
      const text = await response.text();
      answers.statuses[response.status] = (answers.statuses[response.status] ?? 0) + 1;
      if (response.status === 200) {
        order.settledAtMs = performance.now();
        order.txHash = (JSON.parse(text) as { txHash: string }).txHash;
      }
      if (FINAL.includes(response.status)) return true;
      const isToBeAskedAgain =
        response.status === 202 || (response.status === 500 && text.includes('"retryable":true'));
      if (!isToBeAskedAgain) answers.wrong.push(`${response.status} ${text.slice(0, 200)}`);
    } catch {
      // cut off, or silent for too long: asked again
    }
    await Bun.sleep(PAUSE_MS);
  }
  return false;
}

async function countForgotten(sql: Sql, orders: readonly Order[]): Promise<number> {
  const ids = orders.map(({ linkId }) => linkId);
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from payment_links where id = any(${ids}::text[]) and status = 'ACTIVE'`;
  return row?.count ?? 0;
}

async function waitUntilPaid(sql: Sql, orders: readonly Order[]): Promise<void> {
  const ids = orders.map(({ linkId }) => linkId);
  await waitFor(
    "the links whose payers had read settled to be PAID",
    async () => {
      const [row] = await insist(
        () => sql<{ open: number }[]>`
          select count(*)::int as open from payment_links where id = any(${ids}::text[]) and status <> 'PAID'`,
      );
      return row?.open === 0;
    },
    QUIET_TIMEOUT_MS,
  );
}

/** Nothing in flight, and the indexer has read and confirmed what was the head when that was so. */
async function waitUntilQuiet({ sql, chain }: Stage): Promise<void> {
  await waitFor(
    "everything to be quiet",
    async () => {
      const [row] = await sql<{ open: number }[]>`
        select
          (select count(*) from payments where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED'))::int
            + (select count(*) from relays where state in ('SIGNED', 'BROADCAST'))::int
            + (select count(*) from transfers where status = 'DETECTED')::int as open`;
      return row?.open === 0;
    },
    QUIET_TIMEOUT_MS,
  );
  const head = Number(await callRpc(chain.rpcUrl, "eth_blockNumber"));
  await waitFor(
    "the indexer to be at the head",
    async () => {
      const [row] = await sql<{ number: bigint }[]>`select number from cursors where network = ${NETWORK}`;
      return row !== undefined && Number(row.number) > head;
    },
    QUIET_TIMEOUT_MS,
  );
}

type Standing = {
  id: string;
  status: string;
  txHash: string | null;
  payer: string | null;
  nonce: string | null;
};

/** Each authorization that the chain has executed paid the link it was given for, and nothing else paid any. */
async function findFaults({ sql, chain }: Stage, orders: readonly Order[]): Promise<string[]> {
  const rows = await sql<Standing[]>`
    select link.id, link.status, transfer.tx_hash, transfer.from_address as payer, transfer.authorization_nonce as nonce
    from payment_links link
    left join transfers transfer on transfer.link_id = link.id and transfer.pays and transfer.status <> 'ORPHANED'
    where link.id = any(${orders.map(({ linkId }) => linkId)}::text[])`;
  const standing = new Map(rows.map((row) => [row.id, row]));
  const faults: string[] = [];
  for (const { linkId, payment, settledAtMs, txHash } of orders) {
    const found = standing.get(linkId);
    const said = settledAtMs === undefined ? "" : ", its payer had read settled";
    const isUsed = await isAuthorizationUsed(chain, payment);
    const isHis = found?.payer === payment.from && found.nonce === payment.nonce;
    if (isUsed && found?.status !== "PAID") faults.push(`${linkId} is ${found?.status}, and paid for${said}`);
    else if (found?.payer && !isHis) faults.push(`${linkId} is paid by another payer's transfer${said}`);
    else if (!isUsed) faults.push(`${linkId} was never paid: ${found?.status}${said}`);
    else if (txHash !== undefined && found?.txHash !== txHash)
      faults.push(`${linkId} was settled by ${txHash}, and counts ${found?.txHash}`);
  }
  try {
    await assertInvariants(sql, chain, { hasLostRows: true });
  } catch (error) {
    faults.push(String(error));
  }
  return faults;
}

/** `authorizationState(address,bytes32)` of the token. */
async function isAuthorizationUsed(chain: TestChain, { from, nonce }: SignedPayment): Promise<boolean> {
  const data = `0xe94a0102${from.slice(2).padStart(64, "0")}${nonce.slice(2)}`;
  const answer = await callRpc(chain.rpcUrl, "eth_call", [
    { to: NETWORKS[NETWORK].usdc.address, data },
    "latest",
  ]);
  return BigInt(String(answer)) === 1n;
}

if (import.meta.main) {
  const report = await runStandbyCampaign(Number(process.argv[2] ?? 200));
  console.log(
    JSON.stringify({ ...report, faults: report.faults.slice(0, 20), faultCount: report.faults.length }),
  );
  process.exit(report.faults.length === 0 && report.wrong.length === 0 && report.unanswered === 0 ? 0 : 1);
}
