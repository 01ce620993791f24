/**
 * Kills processes at random while wallets send, and compares what arrived, what is left and what the books say at the end.
 * By hand: `bun tests/wallet-ops/campaign.ts 1000` (sends), the seed from TEST_SEED when that is set.
 */
import type { Hex } from "../../core/domain/networks.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { type Answer, type Client, openClient } from "../support/http-client.ts";
import { randomAddress } from "../support/indexer-lab.ts";
import { assertInvariants } from "../support/invariants.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { type ProcessName, startWorld, type World } from "../support/world.ts";

const VICTIMS: readonly ProcessName[] = ["api", "api-2", "worker", "worker-2", "indexer", "indexer-2"];
const WALLETS = 8;
const FUNDS = 1_000_000_000n;
const PAUSE_MS = 400;
const RETRY_MS = 100;
const ANSWER_TIMEOUT_MS = 90_000;
const SETTLE_TIMEOUT_MS = 90_000;
const ENDED = ["CONFIRMED", "FAILED"];

export type CampaignReport = {
  sends: number;
  confirmed: number;
  kills: Record<string, number>;
  sentUnits: string;
  relays: number;
  reverted: number;
  seconds: number;
};

type Sender = { merchant: Merchant; sentUnits: bigint };

/** Throws what does not hold. */
export async function runCampaign(sends: number): Promise<CampaignReport> {
  const random = seededRandom(`campaign of ${sends} sends`);
  const startedMs = performance.now();
  const world = await startWorld({ processes: VICTIMS });
  try {
    const to = randomAddress();
    const senders = await Promise.all(Array.from({ length: WALLETS }, () => makeSender(world)));
    let left = sends;
    const running = senders.map(async (sender) => {
      while (left > 0) {
        left -= 1;
        await sendOne(world, sender, {
          to,
          units: 10_000n + BigInt(Math.floor(random() * 1_000_000)),
          random,
        });
      }
    });
    const load = Promise.all(running);
    let isOver = false;
    load.finally(() => {
      isOver = true;
    });
    const kills: Record<string, number> = {};
    while (!isOver) {
      await Bun.sleep(PAUSE_MS * (0.5 + random()));
      const name = VICTIMS[Math.floor(random() * VICTIMS.length)] ?? "worker";
      await world.kill(name, "SIGKILL");
      kills[name] = (kills[name] ?? 0) + 1;
      await Bun.sleep(random() * PAUSE_MS);
      await world.start(name);
    }
    await load;
    await judge(world, senders, to);
    const [counts] = await world.sql<{ confirmed: number; relays: number; reverted: number }[]>`
      select
        (select count(*)::int from wallet_operations where state = 'CONFIRMED') as confirmed,
        (select count(*)::int from relays where kind = 'OPERATIONS') as relays,
        (select count(*)::int from relays where kind = 'OPERATIONS' and not succeeded) as reverted`;
    const sentUnits = senders.reduce((sum, one) => sum + one.sentUnits, 0n);
    return {
      ...{ sends, confirmed: counts?.confirmed ?? 0, kills, sentUnits: sentUnits.toString() },
      ...{ relays: counts?.relays ?? 0, reverted: counts?.reverted ?? 0 },
      seconds: Math.round((performance.now() - startedMs) / 1000),
    };
  } finally {
    await world.stop();
  }
}

async function makeSender(world: World): Promise<Sender> {
  const merchant = await signUp(world.baseUrl);
  await fundUsdc(world.chain.rpcUrl, merchant.walletAddress as Hex, FUNDS);
  return { merchant, sentUnits: 0n };
}

/** One send through whichever API lives; every request is made again as it was until it is answered. */
async function sendOne(
  world: World,
  sender: Sender,
  { to, units, random }: { to: Hex; units: bigint; random: () => number },
): Promise<void> {
  const { merchant } = sender;
  const client = () => clientOf(world, merchant, random() < 0.5 ? "api" : "api-2");
  const headers = { "idempotency-key": `campaign-${random()}` };
  const body = { to, amount: (Number(units) / 1_000_000).toFixed(6) };
  const prepared = await insist(() => client().post("/v1/wallets/send/prepare", body, headers), 201);
  const confirmation = {
    ...{ sendId: prepared.body.sendId, challengeId: prepared.body.challengeId },
    passkeyResponse: await merchant.passkey.authenticate(prepared.body.passkeyChallenge),
  };
  await insist(() => client().post("/v1/wallets/send/confirm", confirmation), 202);
  const path = `/v1/wallets/sends/${prepared.body.sendId}`;
  const done = await insist(
    () => client().get(path),
    200,
    (answer) => ENDED.includes(answer.body.status),
  );
  if (done.body.status !== "CONFIRMED") throw new Error(`${path}: ${done.text}`);
  sender.sentUnits += units;
}

function clientOf(world: World, { client }: Merchant, name: ProcessName): Client {
  const other = openClient(world.baseUrlOf(name));
  for (const [key, value] of client.cookies) other.cookies.set(key, value);
  return other;
}

/** Connections break while processes die, and a killed indexer leaves an operation in flight for a moment. */
async function insist(
  ask: () => Promise<Answer>,
  status: number,
  isDone: (answer: Answer) => boolean = () => true,
): Promise<Answer> {
  const deadline = Date.now() + ANSWER_TIMEOUT_MS;
  for (let last = "no answer"; ; ) {
    try {
      const answer = await ask();
      if (answer.status === status && isDone(answer)) return answer;
      last = `${answer.status} ${answer.text}`;
      if (answer.status >= 400 && answer.status < 500) throw new Error(`refused: ${last}`);
    } catch (error) {
      if (error instanceof Error && error.message.startsWith("refused")) throw error;
      last = String(error);
    }
    if (Date.now() > deadline) throw new Error(`not answered with ${status}: ${last}`);
    await Bun.sleep(RETRY_MS);
  }
}

/** What arrived, what is left and the books agree to the micro-USDC. */
async function judge(world: World, senders: readonly Sender[], to: Hex): Promise<void> {
  const deadline = Date.now() + SETTLE_TIMEOUT_MS;
  for (;;) {
    const [open] = await world.sql<{ count: number }[]>`
      select count(*)::int as count from relays where state in ('SIGNED', 'BROADCAST', 'MINED')`;
    if (open?.count === 0) break;
    if (Date.now() > deadline) throw new Error(`${open?.count} relays are not settled`);
    await Bun.sleep(RETRY_MS);
  }
  const { rpcUrl } = world.chain;
  const arrived = await readUsdcBalance(rpcUrl, to);
  const sent = senders.reduce((sum, { sentUnits }) => sum + sentUnits, 0n);
  if (arrived !== sent) throw new Error(`${arrived} arrived of ${sent} that were sent`);
  for (const { merchant, sentUnits } of senders) {
    const balance = await readUsdcBalance(rpcUrl, merchant.walletAddress as Hex);
    if (balance !== FUNDS - sentUnits) throw new Error(`${merchant.walletAddress} holds ${balance}`);
    const [row] = await world.sql<{ units: bigint }[]>`
      select coalesce(sum(amount_units), 0)::bigint as units
      from transactions
      where user_id = ${merchant.userId} and type = 'SEND' and status = 'CONFIRMED'`;
    if (row?.units !== sentUnits) throw new Error(`the history of ${merchant.userId} says ${row?.units}`);
  }
  await assertInvariants(world.sql, world.chain);
}

if (import.meta.main) {
  console.log(JSON.stringify(await runCampaign(Number(process.argv[2] ?? 1_000))));
  process.exit(0);
}
