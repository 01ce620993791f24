/**
 * Kills processes at random while payments run, and compares the books with the chain at the end.
 * By hand: `bun tests/relay/campaign.ts 200` (kills), the seed from TEST_SEED when that is set.
 */
import { openDatabase, type Sql } from "../../db/client.ts";
import { fundUsdc, readUsdcBalance } from "../../local/usdc.ts";
import { assertInvariants } from "../support/invariants.ts";
import { makePayer, shapeA, signPayment } from "../support/payer.ts";
import { type SeededMerchant, seedLinks, seedMerchant } from "../support/seed.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { type ProcessName, startWorld, type World } from "../support/world.ts";
import { waitFor } from "./lab.ts";

const VICTIMS: readonly ProcessName[] = ["api", "api-2", "worker", "worker-2", "indexer", "indexer-2"];
const PAYERS = 12;
const CHUNK = 60;
const AMOUNT = 10_000n;
/** Tries of one payer before a payment counts as unanswered. */
const TRIES_MAX = 100;
const QUIET_TIMEOUT_MS = 60_000;
const FAST_MS = 60;

export type CampaignReport = {
  kills: Record<string, number>;
  payments: number;
  paid: number;
  unanswered: number;
  /** Answers that no payment may get: 402 and 5xx of a living API. */
  wrongAnswers: number[];
  relays: number;
  reverted: number;
  settleMs: number;
  seconds: number;
};

type Order = { linkId: string; body: string };

export async function runCampaign(kills: number): Promise<CampaignReport> {
  const random = seededRandom(`campaign of ${kills} kills`);
  const startedMs = performance.now();
  const world = await startWorld({ processes: VICTIMS });
  const sql = openDatabase(world.db.url, { name: "campaign", maxConnections: 4 });
  try {
    const merchant = await seedMerchant(sql);
    const killed: Record<string, number> = {};
    let isOver = false;
    const load = payUntil(world, sql, merchant, { isOver: () => isOver, random });
    for (let count = 0; count < kills; count++) {
      await Bun.sleep(FAST_MS + random() * 300);
      const name = VICTIMS[Math.floor(random() * VICTIMS.length)] ?? "worker";
      await world.kill(name, "SIGKILL");
      killed[name] = (killed[name] ?? 0) + 1;
      await Bun.sleep(random() * 300);
      await world.start(name);
    }
    isOver = true;
    const answers = await load;
    const healedMs = performance.now();
    const { paid, relays, reverted } = await judge(world, sql, merchant, answers.linkIds);
    return {
      ...{ kills: killed, payments: answers.linkIds.length, paid, relays, reverted },
      unanswered: answers.unanswered,
      wrongAnswers: answers.wrong,
      settleMs: Math.round(performance.now() - healedMs),
      seconds: Math.round((performance.now() - startedMs) / 1000),
    };
  } finally {
    await sql.end();
    await world.stop();
  }
}

/** A closed loop of payers that repeat the very same body until they are answered, as clients should. */
async function payUntil(
  world: World,
  sql: Sql,
  merchant: SeededMerchant,
  { isOver, random }: { isOver: () => boolean; random: () => number },
) {
  const linkIds: string[] = [];
  const wrong: number[] = [];
  let unanswered = 0;
  const nextOrder = openOrders(world, sql, merchant);
  const payer = async () => {
    while (!isOver()) {
      const order = await nextOrder();
      linkIds.push(order.linkId);
      const status = await payOnce(() => world.baseUrlOf(random() < 0.5 ? "api" : "api-2"), order, wrong);
      if (status === undefined) unanswered += 1;
    }
  };
  await Promise.all(Array.from({ length: PAYERS }, payer));
  return { linkIds, wrong, unanswered };
}

async function payOnce(baseUrl: () => string, order: Order, wrong: number[]): Promise<number | undefined> {
  for (let attempt = 0; attempt < TRIES_MAX; attempt++) {
    try {
      const response = await fetch(`${baseUrl()}/v1/x402/${order.linkId}/pay`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: order.body,
      });
      await response.arrayBuffer();
      if ([200, 202, 409].includes(response.status)) return response.status;
      wrong.push(response.status);
    } catch {
      // the process was killed under us
    }
    await Bun.sleep(50);
  }
  return undefined;
}

/** Distinct links, each with a payer of its own; made some at a time. */
function openOrders(world: World, sql: Sql, merchant: SeededMerchant): () => Promise<Order> {
  let ready: Order[] = [];
  let making: Promise<void> | undefined;
  const make = async () => {
    const ids = await seedLinks(sql, merchant, { count: CHUNK, amountUnits: AMOUNT });
    const payers = ids.map(() => makePayer());
    const addresses = payers.map(({ address }) => address);
    await fundUsdc(world.chain.rpcUrl, addresses, AMOUNT);
    const validBefore = Math.floor(Date.now() / 1000) + 3_600;
    const terms = { to: merchant.address, amountUnits: AMOUNT, validBefore };
    const bodies = await Promise.all(payers.map(async (payer) => shapeA(await signPayment(payer, terms))));
    ready = ids.map((linkId, index) => ({ linkId, body: JSON.stringify(bodies[index]) }));
    making = undefined;
  };
  return async () => {
    for (;;) {
      const order = ready.pop();
      if (order) return order;
      making ??= make();
      await making;
    }
  };
}

/** Everything that was ever shown to us ends PAID, once, and the chain agrees. Throws what does not hold. */
async function judge(world: World, sql: Sql, merchant: SeededMerchant, linkIds: readonly string[]) {
  await waitFor(
    "everything to be quiet",
    async () => {
      const [row] = await sql<{ open: number }[]>`
        select
          (select count(*) from payments where state in ('QUEUED', 'SIGNED', 'BROADCAST', 'MINED'))::int
            + (select count(*) from relays where state in ('SIGNED', 'BROADCAST'))::int as open`;
      return row?.open === 0;
    },
    QUIET_TIMEOUT_MS,
  );
  await assertInvariants(sql, world.chain);
  const [row] = await sql<{ paid: number; relays: number; reverted: number; stuck: number }[]>`
    select
      (select count(*)::int from payment_links where id = any(${[...linkIds]}::text[]) and status = 'PAID') as paid,
      (select count(*)::int from relays) as relays,
      (select count(*)::int from relays where not succeeded) as reverted,
      (select count(*)::int from graphile_worker._private_jobs where locked_at < now() - interval '10 seconds') as stuck`;
  const { paid = 0, relays = 0, reverted = 0, stuck = 0 } = row ?? {};
  const balance = await readUsdcBalance(world.chain.rpcUrl, merchant.address);
  if (balance !== AMOUNT * BigInt(paid))
    throw new Error(`the wallet holds ${balance} for ${paid} paid links`);
  if (stuck > 0) throw new Error(`${stuck} jobs are locked by nobody`);
  return { paid, relays, reverted };
}

if (import.meta.main) {
  console.log(JSON.stringify(await runCampaign(Number(process.argv[2] ?? 200))));
  process.exit(0);
}
