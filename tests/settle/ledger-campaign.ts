/**
 * Everything that can happen to a few links of equal amounts, in random order: payments accepted, failed, tried again and executed by
 * strangers, alone or several in a transaction, transfers of unique amounts and with link tags, transfers assigned and unassigned, claims
 * made before and after their transfers, proven and ended, uses of reusable links, links over and cancelled, blocks reorganised away, an
 * indexer that stops and comes back; by several hands at once when asked to. The books are compared with the chain all along, and rebuilds
 * must make the same. `bun tests/settle/ledger-campaign.ts 2000 6` runs it (steps,
 * hands), the seed from TEST_SEED when set.
 */
import { encodeAggregate3 } from "../../core/chain/multicall.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { CONTRACTS, type Hex } from "../../core/domain/networks.ts";
import type { RebuildDifference } from "../../db/ledger/rebuild.ts";
import { cancelLink } from "../../db/links/links.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { requeuePayment } from "../../db/payments/accept-payments.ts";
import { lockPayments } from "../../db/payments/payments.ts";
import type { Payment } from "../../db/schema.ts";
import { rebuildNetwork } from "../../indexer/audit/rebuild-network.ts";
import { settleRetroactively } from "../../indexer/settle/settle-retroactively.ts";
import { callRpc, callRpcBatch } from "../../local/chain/rpc.ts";
import {
  makeMerchant,
  mine,
  openLab,
  openTerm,
  settled,
  startIndexer,
  USDC,
} from "../support/indexer-lab.ts";
import { acceptPayment, authorize, makeSigner } from "../support/indexer-lab-payments.ts";
import { assertInvariants } from "../support/invariants.ts";
import { signCancel } from "../support/payer.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { assertAssignments, assignReceived, unassignReceived } from "./campaign-assignments.ts";
import { claimAhead, claimAny, endAnyClaim } from "./campaign-claims.ts";
import {
  endOne,
  expireNow,
  failOne,
  listActive,
  makeLink,
  makeReusable,
  makeSenders,
  makeUse,
  watchLinks,
} from "./campaign-links.ts";
import {
  anyMerchant,
  anyOf,
  atTheChain,
  NEWEST_LINKS_MET,
  newLink,
  type Stage,
  sendCall,
} from "./campaign-stage.ts";

const SIGNERS = 20;
const AMOUNTS = [1_000_000n, 2_000_000n] as const;
const REORG_DEPTH_MAX = 5;
const CONFIRMATIONS = 2;
const CHECK_EVERY = 10;
const QUIET_WITHIN_MS = 45_000;
/** Of the comparisons with the chain, how many are followed by a rebuild. */
const REBUILT = 0.1;

export type BooksReport = {
  steps: Record<string, number>;
  links: Record<string, number>;
  /** Payments that pay a link. */
  paying: number;
  differences: RebuildDifference[];
};

export async function runBooksCampaign(steps: number, hands = 1): Promise<BooksReport> {
  const random = seededRandom(`books campaign of ${steps} steps`);
  const lab = await openLab();
  const merchants = [await makeMerchant(lab), await makeMerchant(lab)];
  await lab.sql`update users set claim_policy = 'proven' where id = ${merchants[1]?.userId ?? ""}`;
  const senders = await makeSenders(lab, steps + 1);
  const signers = await Promise.all(Array.from({ length: SIGNERS }, () => makeSigner(lab, 10n ** 15n)));
  // what is set up must be older than the deepest reorganisation
  await mine(lab, REORG_DEPTH_MAX + 1);
  const stage: Stage = {
    ...{ lab, random, merchants, senders, signers },
    ...{
      indexer: startIndexer(lab, { confirmations: CONFIRMATIONS }),
      reusable: [],
      spent: new Set<Hex>(),
      signed: [],
      sent: [],
      claims: [],
      claimed: new Set<string>(),
      chainIsFree: Promise.resolve(),
      counts: {},
    },
  };
  try {
    for (let taken = 0; taken < steps; taken += CHECK_EVERY * hands) {
      const left = Math.min(CHECK_EVERY * hands, steps - taken);
      await takeSteps(stage, left, hands);
      await checkBooks(stage, true);
      if (random() < REBUILT) await rebuildNow(stage);
    }
    beginIndexer(stage);
    await payNewLink(stage);
    await endEverything(stage);
    await checkBooks(stage, false);
    return await report(stage);
  } finally {
    await stage.indexer?.stop();
    await lab.stop();
  }
}

const STEPS: readonly (readonly [weight: number, name: string, step: (stage: Stage) => Promise<unknown>])[] =
  [
    [6, "link", makeAnyLink],
    [10, "accept", acceptAny],
    [8, "fail", failAny],
    [2, "retry", retryAny],
    [10, "execute", executeAny],
    [4, "batch", batchAny],
    [2, "spend", spendAny],
    [3, "assign", assignAny],
    [2, "unassign", unassignAny],
    [6, "pay", (stage) => sendCall(stage, encodeTransfer(anyMerchant(stage).address, anyAmount(stage)))],
    [3, "type", typeAny],
    [3, "tag", tagAny],
    [1, "reusable", makeAnyReusable],
    [2, "use", useAny],
    [3, "claimAhead", claimAhead],
    [6, "claim", (stage) => claimAny(stage)],
    [3, "prove", (stage) => claimAny(stage, "EOA")],
    [3, "unclaim", endAnyClaim],
    [1, "expire", expireAny],
    [1, "cancel", cancelAny],
    [1, "stop", stopIndexer],
    [1, "begin", async (stage) => beginIndexer(stage)],
    [3, "reorganise", (stage) => atTheChain(stage, () => reorganise(stage))],
  ];
const WEIGHTS = STEPS.reduce((sum, [weight]) => sum + weight, 0);

async function takeSteps(stage: Stage, count: number, hands: number): Promise<void> {
  let left = count;
  const hand = async () => {
    while (left-- > 0) {
      await takeStep(stage);
      if (hands === 1 && stage.indexer && stage.random() < 0.5) await settled(stage.lab);
    }
  };
  const all = Promise.all(Array.from({ length: hands }, hand));
  let isOver = false;
  const ended = all.finally(() => {
    isOver = true;
  });
  await Promise.all([ended, watchLinks(stage.lab, () => isOver)]);
}

async function takeStep(stage: Stage): Promise<void> {
  let place = stage.random() * WEIGHTS;
  for (const [weight, name, step] of STEPS) {
    place -= weight;
    if (place >= 0) continue;
    stage.counts[name] = (stage.counts[name] ?? 0) + 1;
    await step(stage);
    return;
  }
}

async function makeAnyLink(stage: Stage): Promise<void> {
  await makeLink(stage.lab, anyMerchant(stage), anyAmount(stage));
}

async function makeAnyReusable(stage: Stage): Promise<void> {
  const maxPayments = stage.random() < 0.5 ? null : 2;
  const terms = { amountUnits: anyAmount(stage), maxPayments };
  stage.reusable.push(await makeReusable(stage.lab, anyMerchant(stage), terms));
}

async function useAny(stage: Stage): Promise<void> {
  const parentId = anyOf(stage, stage.reusable);
  if (parentId !== undefined) await makeUse(stage.lab, parentId);
}

function anyAmount(stage: Stage): bigint {
  return anyOf(stage, AMOUNTS) ?? AMOUNTS[0];
}

/** Somebody types a link's unique amount. */
async function typeAny(stage: Stage): Promise<void> {
  const link = await newLink(stage);
  if (link?.payAmountUnits) await sendCall(stage, encodeTransfer(link.recipient, link.payAmountUnits));
}

/** A transfer says which link it means; sometimes of another value than that asks for. */
async function tagAny(stage: Stage): Promise<void> {
  const link = await newLink(stage);
  const units = anyAmount(stage);
  if (link?.tag) await sendCall(stage, `${encodeTransfer(link.recipient, units)}${link.tag.slice(2)}`);
}

async function acceptAny(stage: Stage): Promise<void> {
  const { lab } = stage;
  const rows = await lab.sql<{ id: string; amountUnits: bigint; recipient: Hex }[]>`
    select id, amount_units, recipient
    from payment_links
    where status in ('ACTIVE', 'PENDING') and not is_reusable
    order by created_at, id`;
  const link = anyOf(stage, rows.slice(-NEWEST_LINKS_MET));
  const signer = anyOf(stage, stage.signers);
  if (!link || !signer) return;
  const { authorization, data } = await authorize(signer, { to: link.recipient, value: link.amountUnits });
  const paymentId = await acceptPayment(lab, link.id, authorization);
  if (paymentId) stage.signed.push({ paymentId, signer, nonce: authorization.nonce, data });
}

async function anyPayment(stage: Stage, state: "QUEUED" | "FAILED"): Promise<Payment | undefined> {
  const rows = await stage.lab.sql<Payment[]>`
    select * from payments where state = ${state} order by created_at desc, id limit 20`;
  return anyOf(stage, rows);
}

async function failAny(stage: Stage): Promise<void> {
  const payment = await anyPayment(stage, "QUEUED");
  if (payment) await failOne(stage.lab, payment);
}

async function retryAny(stage: Stage): Promise<void> {
  const payment = await anyPayment(stage, "FAILED");
  if (!payment) return;
  await stage.lab.sql.begin(async (tx) => {
    await lockPayments(tx, [payment.id]);
    await lockLinks(tx, payment.linkId ? [payment.linkId] : []);
    await requeuePayment(tx, payment.id, { ...payment, requestId: null });
  });
}

/** Whatever became of its payment, and perhaps a second time. */
async function executeAny(stage: Stage): Promise<void> {
  const signed = anyOf(stage, stage.signed.slice(-3 * NEWEST_LINKS_MET));
  if (signed) await sendCall(stage, signed.data, signed.signer.lower);
}

/** A transaction with several transfers, whose places in the next block depend on what comes before them. */
async function batchAny(stage: Stage): Promise<void> {
  const signed = stage.signed.slice(-3 * NEWEST_LINKS_MET).filter(() => stage.random() < 0.5);
  const calls = signed.map(({ data }) => ({ to: USDC, data }));
  const [first] = signed;
  if (first) await sendCall(stage, encodeAggregate3(calls), first.signer.lower, CONTRACTS.multicall3);
}

async function assignAny(stage: Stage): Promise<void> {
  const link = await newLink(stage);
  if (link) await assignReceived(stage.lab.sql, link, link.id, (rows) => anyOf(stage, rows));
}

async function unassignAny(stage: Stage): Promise<void> {
  await unassignReceived(stage.lab.sql, anyMerchant(stage), (rows) => anyOf(stage, rows));
}

async function spendAny(stage: Stage): Promise<void> {
  const signed = anyOf(stage, stage.signed.slice(-3 * NEWEST_LINKS_MET));
  if (!signed) return;
  stage.spent.add(signed.nonce);
  await sendCall(stage, await signCancel(signed.signer, signed.nonce));
}

async function expireAny(stage: Stage): Promise<void> {
  const link = anyOf(stage, await listActive(stage.lab));
  if (link) await expireNow(stage.lab, link.id);
}

async function cancelAny(stage: Stage): Promise<void> {
  const { sql } = stage.lab;
  const link = anyOf(stage, await listActive(stage.lab));
  if (link) await sql.begin((tx) => cancelLink(tx, link));
}

/** Some of what the last blocks held comes back in the new branch, in another order. */
async function reorganise(stage: Stage): Promise<void> {
  const { lab, random } = stage;
  const depth = 1 + Math.floor(random() * REORG_DEPTH_MAX);
  const { rpcUrl } = lab.chain;
  const head = Number(await callRpc(rpcUrl, "eth_blockNumber"));
  const recent = stage.sent.slice(-4 * REORG_DEPTH_MAX);
  if (recent.length === 0) return;
  const receipts = (await callRpcBatch(
    rpcUrl,
    recent.map(({ txHash }) => ({ method: "eth_getTransactionReceipt", params: [txHash] })),
  )) as ({ blockNumber: Hex } | null)[];
  const dropped = recent.filter((_, index) => Number(receipts[index]?.blockNumber ?? 0) > head - depth);
  const again = dropped.filter(() => random() < 0.5);
  if (random() < 0.5) again.reverse();
  // in one block, or in as many as there are
  const isCrowded = random() < 0.5;
  const placed = again.map(({ raw }, index) => [raw, isCrowded ? 0 : Math.min(index, depth - 1)] as const);
  await callRpc(rpcUrl, "anvil_reorg", [depth, placed]);
  await callRpc(rpcUrl, "evm_setTime", [Math.floor(Date.now() / 1000)]);
  await mine(lab);
}

/** Whatever the reorganisations have taken, one link is paid in the end. */
async function payNewLink(stage: Stage): Promise<void> {
  const merchant = anyMerchant(stage);
  const id = await makeLink(stage.lab, merchant, AMOUNTS[0]);
  await sendCall(stage, `${encodeTransfer(merchant.address, AMOUNTS[0])}${linkTag(id).slice(2)}`);
}

/** Nothing is held by anything unfinished any more. */
async function endEverything(stage: Stage): Promise<void> {
  const { lab } = stage;
  await settled(lab);
  for (const id of stage.claims) await endOne(lab, id);
  await mine(lab, 2);
  await settled(lab);
  const rows = await lab.sql<Payment[]>`select * from payments where state = 'QUEUED'`;
  for (const payment of rows) await failOne(lab, payment);
}

/** What the leader settles at its next looks is given the time for them. */
async function checkBooks(stage: Stage, mayBeInFlight: boolean): Promise<void> {
  const { lab } = stage;
  beginIndexer(stage);
  await settled(lab);
  const deadline = Date.now() + QUIET_WITHIN_MS;
  for (;;) {
    try {
      await assertInvariants(lab.sql, lab.chain, { mayBeInFlight });
      await assertAssignments(lab.sql);
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await Bun.sleep(100);
    }
  }
}

async function stopIndexer(stage: Stage): Promise<void> {
  const { indexer } = stage;
  stage.indexer = undefined;
  await indexer?.stop();
}

function beginIndexer(stage: Stage): void {
  stage.indexer ??= startIndexer(stage.lab, { confirmations: CONFIRMATIONS });
}

async function rebuildNow(stage: Stage): Promise<RebuildDifference[]> {
  await stopIndexer(stage);
  const { lab } = stage;
  await failSpent(stage);
  const term = await openTerm(lab);
  try {
    // one look may release what the next one applies
    for (let look = 0; look < 3; look++) await settleRetroactively({ ...term, confirmations: CONFIRMATIONS });
    const { differences } = await rebuildNetwork({ ...term, confirmations: CONFIRMATIONS });
    if (differences.length > 0) throw new Error(`a rebuild made others: ${JSON.stringify(differences)}`);
    await assertInvariants(lab.sql, lab.chain, { mayBeInFlight: true });
    return differences;
  } finally {
    term.close();
  }
}

/** As the worker's simulation ends them: tried again after its nonce had been cancelled, which the indexer does not read a second time. */
async function failSpent({ lab, spent }: Stage): Promise<void> {
  const rows = await lab.sql<Payment[]>`select * from payments where state = 'QUEUED'`;
  for (const payment of rows) if (spent.has(payment.nonce)) await failOne(lab, payment);
}

async function report(stage: Stage): Promise<BooksReport> {
  const { lab, counts } = stage;
  const differences = await rebuildNow(stage);
  await assertInvariants(lab.sql, lab.chain);
  const links = await lab.sql<{ kind: string; count: number }[]>`
      select status || ' ' || exception as kind, count(*)::int from payment_links group by 1 order by 1`;
  const [row] = await lab.sql<{ count: number }[]>`
      select count(*)::int from transfers where pays and payment_id is not null and status <> 'ORPHANED'`;
  return {
    steps: counts,
    links: Object.fromEntries(links.map(({ kind, count }) => [kind, count])),
    paying: row?.count ?? 0,
    differences,
  };
}

if (import.meta.main) {
  console.log(
    JSON.stringify(await runBooksCampaign(Number(process.argv[2] ?? 2_000), Number(process.argv[3] ?? 1))),
  );
  process.exit(0);
}
