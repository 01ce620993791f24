/**
 * Everything that can happen to a few links of equal amounts, in random order: payments accepted, failed, tried again and executed by
 * strangers, alone or several in a transaction, payments for resources of third parties, transfers of unique amounts, of amounts that no link
 * asks for and with link tags, transfers between two wallets, wallets added after they were paid, transfers assigned and unassigned, claims
 * made before and after their transfers, proven and ended, transactions that pay two amounts with a proof for one of them, uses of reusable
 * links, links over and cancelled, blocks reorganised away, an indexer that stops, falls behind, is replaced or loses its database
 * connections; by several hands at once when asked to. The books are
 * compared with the chain all along, and rebuilds must make the same. `bun tests/settle/ledger-campaign.ts 2000 6` runs it (steps, hands),
 * the seed from TEST_SEED when set. A third argument says what nodes the indexer reads: `honest`, `faulty` (they lag, fail and lose logs) or
 * `stale` (they stay on branches that a reorganisation replaced, and lie about what blocks hold).
 */
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { RebuildDifference } from "../../db/ledger/rebuild.ts";
import { cancelLink } from "../../db/links/links.ts";
import type { Payment } from "../../db/schema.ts";
import { rebuildNetwork } from "../../indexer/audit/rebuild-network.ts";
import { settleRetroactively } from "../../indexer/settle/settle-retroactively.ts";
import { type Lab, makeMerchant, mine, openLab, openTerm, settled } from "../support/indexer-lab.ts";
import { makeSigner } from "../support/indexer-lab-payments.ts";
import { assertInvariants } from "../support/invariants.ts";
import { makeFacilitatorClient } from "../support/ledger-lab.ts";
import { drawWeighted, seededRandom, splitRandom } from "../support/seeded-random.ts";
import { assertAssignments, assignReceived, unassignReceived } from "./campaign-assignments.ts";
import { claimAhead, claimAny, endAnyClaim, proveOneOfTwo } from "./campaign-claims.ts";
import {
  beginIndexer,
  CONFIRMATIONS,
  cutConnections,
  fallBehind,
  GAP_SENDERS,
  replaceIndexer,
  stopIndexer,
} from "./campaign-indexer.ts";
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
  closeNodes,
  countFaults,
  healAnyNode,
  healNodes,
  NODE_MODES,
  type NodeMode,
  openNodes,
  spoilAnyNode,
} from "./campaign-nodes.ts";
import {
  acceptAny,
  assertFacilitated,
  batchAny,
  executeAny,
  facilitateAny,
  failAny,
  retryAny,
  spendAny,
} from "./campaign-payments.ts";
import { REORG_DEPTH_MAX, reorganise } from "./campaign-reorgs.ts";
import {
  AMOUNTS,
  anyAmount,
  anyMerchant,
  anyOf,
  atTheChain,
  newLink,
  type Stage,
  sendCall,
  tagged,
} from "./campaign-stage.ts";
import { addWallet, payBetweenWallets, payNewAddress } from "./campaign-wallets.ts";

const SIGNERS = 20;
/** No link asks for it. */
const ODD_UNITS = 1_500_000n;
const CHECK_EVERY = 10;
const QUIET_WITHIN_MS = 45_000;
/**
 * A node that leaves out a block's bloom hides what the block holds until it is read a second time, once enough blocks follow (`recheckLogs`):
 * they are mined when the books have differed for this long.
 */
const RECHECKED_AFTER_MS = 5_000;
const RECHECKED_BLOCKS = 80;
/** Of the comparisons with the chain, how many are followed by a rebuild. */
const REBUILT = 0.1;
/** Of the steps, how many may be ones in which the indexer falls behind: far more than there are. */
const GAPS = 0.1;
/** Instead of a wait for the newest block, which no node may have. */
const NODES_PAUSE_MS = 200;

export type BooksReport = {
  steps: Record<string, number>;
  links: Record<string, number>;
  /** Payments that pay a link. */
  paying: number;
  differences: RebuildDifference[];
  /** What the nodes did, and how often. */
  faults: Record<string, number>;
};

export async function runBooksCampaign(
  steps: number,
  hands = 1,
  mode: NodeMode = "honest",
): Promise<BooksReport> {
  const random = seededRandom(`books campaign of ${steps} steps`);
  const lab = await openLab();
  const stage = await setUp(lab, { random, steps, mode });
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
    await closeNodes(stage.nodes);
    await lab.stop();
  }
}

async function setUp(
  lab: Lab,
  { random, steps, mode }: { random: () => number; steps: number; mode: NodeMode },
): Promise<Stage> {
  const [seller, proving] = [await makeMerchant(lab), await makeMerchant(lab)];
  await lab.sql`update users set claim_policy = 'proven' where id = ${proving.userId}`;
  const client = await makeFacilitatorClient(lab.sql, seller);
  const senders = await makeSenders(lab, steps + GAP_SENDERS * Math.ceil(steps * GAPS) + 1);
  const signers = await Promise.all(Array.from({ length: SIGNERS }, () => makeSigner(lab, 10n ** 15n)));
  // what is set up must be older than the deepest reorganisation
  await mine(lab, REORG_DEPTH_MAX + 1);
  const nodes = await openNodes(lab.chain.rpcUrl, { mode, random: splitRandom(random) });
  const stage: Stage = {
    ...{ lab, random, merchants: [seller, proving], client, senders, signers, nodes },
    ...{
      indexer: undefined,
      newAddresses: [],
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
  beginIndexer(stage);
  return stage;
}

type Step = readonly [weight: number, name: string, take: (stage: Stage) => unknown];

const STEPS: readonly Step[] = [
  [6, "link", makeAnyLink],
  [10, "accept", acceptAny],
  [8, "fail", failAny],
  [2, "retry", retryAny],
  [10, "execute", executeAny],
  [4, "batch", batchAny],
  [2, "spend", spendAny],
  [4, "facilitate", facilitateAny],
  [3, "assign", (stage) => assignAny(stage, { accept: false })],
  [2, "assignAccept", (stage) => assignAny(stage, { accept: true })],
  [2, "unassign", unassignAny],
  [6, "pay", (stage) => payAny(stage, anyAmount(stage))],
  [2, "payOdd", (stage) => payAny(stage, ODD_UNITS)],
  [3, "type", typeAny],
  [3, "tag", tagAny],
  [1, "reusable", makeAnyReusable],
  [2, "use", useAny],
  [3, "claimAhead", claimAhead],
  [6, "claim", (stage) => claimAny(stage)],
  [3, "prove", (stage) => claimAny(stage, "EOA")],
  [3, "proveOneOfTwo", proveOneOfTwo],
  [3, "unclaim", endAnyClaim],
  [1, "expire", expireAny],
  [1, "cancel", cancelAny],
  [3, "payNewAddress", payNewAddress],
  [3, "addWallet", addWallet],
  [3, "payBetweenWallets", payBetweenWallets],
  [1, "stop", stopIndexer],
  [1, "begin", beginIndexer],
  [1, "replace", replaceIndexer],
  [1, "cut", cutConnections],
  [1, "fallBehind", fallBehind],
  [3, "reorganise", reorganiseAny],
];
const NODE_STEPS: readonly Step[] = [
  [4, "spoil", ({ nodes }) => spoilAnyNode(nodes)],
  [3, "heal", ({ nodes }) => healAnyNode(nodes)],
  [5, "reorganise", reorganiseAny],
];

async function takeSteps(stage: Stage, count: number, hands: number): Promise<void> {
  const steps = stage.nodes.mode === "honest" ? STEPS : [...STEPS, ...NODE_STEPS];
  const weighted = steps.map((step) => [step[0], step] as const);
  // several hands leave an indexer time enough only when its node answers at once
  const mayWait = hands === 1 || stage.nodes.mode !== "honest";
  let left = count;
  const hand = async () => {
    while (left-- > 0) {
      const [, name, take] = drawWeighted(stage.random, weighted);
      stage.counts[name] = (stage.counts[name] ?? 0) + 1;
      await take(stage);
      if (mayWait && stage.indexer && stage.random() < 0.5) await letIndexerRead(stage);
    }
  };
  const all = Promise.all(Array.from({ length: hands }, hand));
  let isOver = false;
  const ended = all.finally(() => {
    isOver = true;
  });
  await Promise.all([ended, watchLinks(stage.lab, () => isOver)]);
}

async function letIndexerRead({ lab, nodes }: Stage): Promise<void> {
  if (nodes.mode === "honest") await settled(lab);
  else await Bun.sleep(NODES_PAUSE_MS);
}

function reorganiseAny(stage: Stage): Promise<void> {
  return atTheChain(stage, () => reorganise(stage));
}

async function payAny(stage: Stage, units: bigint): Promise<void> {
  await sendCall(stage, encodeTransfer(anyMerchant(stage).address, units));
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

/** Somebody types a link's unique amount. */
async function typeAny(stage: Stage): Promise<void> {
  const link = await newLink(stage);
  if (link?.payAmountUnits) await sendCall(stage, encodeTransfer(link.recipient, link.payAmountUnits));
}

/** A transfer says which link it means; sometimes of another value than that asks for. */
async function tagAny(stage: Stage): Promise<void> {
  const link = await newLink(stage);
  const units = anyAmount(stage);
  if (link?.tag) await sendCall(stage, tagged(encodeTransfer(link.recipient, units), link.tag));
}

async function assignAny(stage: Stage, { accept }: { accept: boolean }): Promise<void> {
  const link = await newLink(stage);
  if (link) await assignReceived(stage.lab.sql, link, { accept, choose: (rows) => anyOf(stage, rows) });
}

async function unassignAny(stage: Stage): Promise<void> {
  await unassignReceived(stage.lab.sql, anyMerchant(stage), (rows) => anyOf(stage, rows));
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

/** Whatever the reorganisations have taken, one link is paid in the end. */
async function payNewLink(stage: Stage): Promise<void> {
  const merchant = anyMerchant(stage);
  const id = await makeLink(stage.lab, merchant, AMOUNTS[0]);
  await sendCall(stage, tagged(encodeTransfer(merchant.address, AMOUNTS[0]), linkTag(id)));
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
  const { lab, nodes } = stage;
  healNodes(nodes);
  beginIndexer(stage);
  await settled(lab);
  const beganMs = Date.now();
  let isLeftToRecheck = nodes.mode === "stale";
  for (;;) {
    try {
      await assertInvariants(lab.sql, lab.chain, { mayBeInFlight });
      await assertAssignments(lab.sql);
      await assertFacilitated(lab.sql);
      return;
    } catch (error) {
      const waitedMs = Date.now() - beganMs;
      if (waitedMs > QUIET_WITHIN_MS) throw error;
      if (isLeftToRecheck && waitedMs > RECHECKED_AFTER_MS) {
        isLeftToRecheck = false;
        stage.counts.recheck = (stage.counts.recheck ?? 0) + 1;
        await mine(lab, RECHECKED_BLOCKS);
      }
      await Bun.sleep(100);
    }
  }
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
  const { lab, counts, nodes } = stage;
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
    faults: countFaults(nodes),
  };
}

if (import.meta.main) {
  const [steps = 2_000, hands = 1] = process.argv.slice(2, 4).map(Number);
  const asked = process.argv[4] ?? "honest";
  const mode = NODE_MODES.find((known) => known === asked);
  if (!mode) throw new Error(`nodes are one of ${NODE_MODES.join(", ")}, not ${asked}`);
  console.log(JSON.stringify(await runBooksCampaign(steps, hands, mode)));
  process.exit(0);
}
