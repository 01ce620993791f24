/** What campaigns have in common: payers that do not give up, and a judge that compares the ledger with the chain at the end. */
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import type { TestChain } from "../support/chain.ts";
import { assertInvariants } from "../support/invariants.ts";
import { makePayer, shapeA, signPayment } from "../support/payer.ts";
import { waitFor } from "../support/relay-lab.ts";
import { type SeededMerchant, seedLinks } from "../support/seed.ts";

/** `baseUrl` is asked anew for each try. `chain` is the true one, whatever the service sees of it. */
export type Stage = { sql: Sql; chain: TestChain; merchant: SeededMerchant; baseUrl: () => string };

export type Answers = {
  /** One a payment: a reusable link as often as it was paid. */
  linkIds: string[];
  statuses: Record<string, number>;
  /** Answers that no payment may get: refusals, and errors that do not say "try again". */
  wrong: string[];
  unanswered: number;
};

export type Verdict = { paid: number; failed: number; relays: number; reverted: number };

type Order = { linkId: string; body: string };

const AMOUNT = 10_000n;
const PAYERS = 12;
const CHUNK = 60;
/** Of a chunk's payments: those of its reusable link. */
const SHARERS = 20;
/** Tries of one payer before a payment counts as unanswered: half a minute of refused connections. */
const TRIES_MAX = 600;
const PAUSE_MS = 50;
const PAYER_TIMEOUT_MS = 20_000;
const QUIET_TIMEOUT_MS = 90_000;
/** Of a repeated authorization: it has paid its link. A 202 is not final: its payment ends FAILED when it can't be sent, until its payer repeats it. */
const REPEATED = '"error":"NONCE_USED"';

/** A closed loop of payers that repeat the very same body until they are answered, as clients should. `onSettled` hears each 200. */
export async function payWhile(
  stage: Stage,
  mayGoOn: () => boolean,
  onSettled: (linkId: string) => void = () => {},
): Promise<Answers> {
  const answers: Answers = { linkIds: [], statuses: {}, wrong: [], unanswered: 0 };
  const nextOrder = openOrders(stage);
  const payer = async () => {
    while (mayGoOn()) {
      const order = await nextOrder();
      answers.linkIds.push(order.linkId);
      if (!(await payOnce(stage, order, answers, onSettled))) answers.unanswered += 1;
    }
  };
  await Promise.all(Array.from({ length: PAYERS }, payer));
  return answers;
}

async function payOnce(
  { baseUrl }: Stage,
  order: Order,
  answers: Answers,
  onSettled: (linkId: string) => void,
): Promise<boolean> {
  for (let attempt = 0; attempt < TRIES_MAX; attempt++) {
    try {
      const response = await fetch(`${baseUrl()}/v1/x402/${order.linkId}/pay`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: order.body,
        signal: AbortSignal.timeout(PAYER_TIMEOUT_MS),
      });
      const text = await response.text();
      answers.statuses[response.status] = (answers.statuses[response.status] ?? 0) + 1;
      if (response.status === 200) onSettled(paidLinkOf(text) ?? order.linkId);
      // nobody has heard of an authorization that is shown for the first time
      const isPaidBefore = attempt > 0 && response.status === 409 && text.includes(REPEATED);
      if (response.status === 200 || isPaidBefore) return true;
      if (response.status !== 202 && !(response.status === 500 && text.includes('"retryable":true')))
        answers.wrong.push(`${response.status} ${text.slice(0, 200)}`);
    } catch {
      // the process was killed under us, or hangs
    }
    await Bun.sleep(PAUSE_MS);
  }
  return false;
}

/** A payment of a reusable link is a link of its own, which its status URL names. */
function paidLinkOf(text: string): string | undefined {
  const { statusUrl = "" } = JSON.parse(text) as { statusUrl?: string };
  return statusUrl.match(/link_[\w-]{22}/)?.[0];
}

/** Links, made some at a time, and for each payment a payer of its own; some of them share a reusable link. */
function openOrders({ sql, chain, merchant }: Stage): () => Promise<Order> {
  let ready: Order[] = [];
  let making: Promise<void> | undefined;
  const make = async () => {
    const [shared = ""] = await insist(() =>
      seedLinks(sql, merchant, { amountUnits: AMOUNT, isReusable: true }),
    );
    const own = await insist(() => seedLinks(sql, merchant, { count: CHUNK - SHARERS, amountUnits: AMOUNT }));
    // spread, so that a short run has some of each
    const ids = Array.from({ length: CHUNK }, (_, index) =>
      index % (CHUNK / SHARERS) === 0 ? shared : (own.pop() ?? shared),
    );
    const payers = ids.map(() => makePayer());
    const addresses = payers.map(({ address }) => address);
    await fundUsdc(chain.rpcUrl, addresses, AMOUNT);
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

/** The campaign's own statements, on a database that is unavailable now and then. */
export async function insist<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt >= TRIES_MAX) throw error;
      await Bun.sleep(PAUSE_MS);
    }
  }
}

/**
 * Everything that was ever shown to us ends paid, once, and the chain agrees: of a reusable link as many uses as it had payers, each by another
 * one. Throws what does not hold.
 */
export async function judge({ sql, chain, merchant }: Stage, linkIds: readonly string[]): Promise<Verdict> {
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
  await assertInvariants(sql, chain);
  const [row] = await sql<(Verdict & { stuck: number })[]>`
    select
      (
        select count(*)::int
        from payment_links
        where (id = any(${[...linkIds]}::text[]) or parent_id = any(${[...linkIds]}::text[])) and status = 'PAID'
      ) as paid,
      (select count(*)::int from payments where state = 'FAILED') as failed,
      (select count(*)::int from relays) as relays,
      (select count(*)::int from relays where not succeeded) as reverted,
      (select count(*)::int from graphile_worker._private_jobs where locked_at < now() - interval '10 seconds') as stuck`;
  if (!row) throw new Error("the judge got no answer");
  const { stuck, ...verdict } = row;
  const balance = await readUsdcBalance(chain.rpcUrl, merchant.address);
  if (balance !== AMOUNT * BigInt(verdict.paid))
    throw new Error(`the wallet holds ${balance} for ${verdict.paid} paid links`);
  await checkReusable(sql, linkIds);
  if (stuck > 0) throw new Error(`${stuck} jobs are locked by dead workers`);
  return verdict;
}

async function checkReusable(sql: Sql, linkIds: readonly string[]): Promise<void> {
  const wrong = await sql<{ id: string; status: string; wanted: number; uses: number; payers: number }[]>`
    select parent.id, parent.status, shown.wanted, found.uses, found.payers
    from (
      select id, count(*)::int as wanted
      from unnest(${[...linkIds]}::text[]) id
      group by id
    ) shown
    join payment_links parent on parent.id = shown.id and parent.is_reusable
    cross join lateral (
      select count(distinct link.id)::int as uses, count(distinct transfer.from_address)::int as payers
      from payment_links link
      join transfers transfer on transfer.link_id = link.id and transfer.pays and transfer.status = 'CONFIRMED'
      where link.parent_id = parent.id and link.status = 'PAID'
    ) found
    where parent.status <> 'ACTIVE' or found.uses <> shown.wanted or found.payers <> shown.wanted`;
  if (wrong.length > 0)
    throw new Error(`reusable links were not paid once by each payer: ${JSON.stringify(wrong)}`);
}
