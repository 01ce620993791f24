/**
 * Reorganisations: proves that the cursor's block left the chain, finds the last common block, and undoes what the blocks above it did,
 * in one transaction: their transfers are ORPHANED (db/ledger/orphan-blocks.ts), and each link they touched gets the status that the rest
 * of the ledger gives it (`recomputeLinkStatus`, db/links/recompute-link-status.ts). A PAID link whose paying transfer is orphaned is no longer
 * paid: it is PENDING while another transfer, payment or claim holds it, else ACTIVE, or EXPIRED when it has expired, and its
 * merchant gets `payment_link.reorged`.
 */
import { CLAIM_LEASE_S } from "../../core/domain/claim.ts";
import { KEPT_BLOCKS } from "../../core/domain/reorg-depth.ts";
import type { ChainNode } from "../../core/rpc/node.ts";
import { fieldOf } from "../../core/rpc/parse-answers.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { deleteBlocksAbove, findHighestBlocks } from "../../db/ledger/blocks.ts";
import { type BlockPoint, moveCursor } from "../../db/ledger/cursors.ts";
import { holdEpoch } from "../../db/ledger/leader-epoch.ts";
import { lowerAcceptedBlocks, orphanBlocksAbove } from "../../db/ledger/orphan-blocks.ts";
import { recomputeLinkStatus } from "../../db/links/recompute-link-status.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { FencedError, type Term } from "../leader-term.ts";
import { announceBlock } from "../settle/apply-span.ts";
import { type BlockHeader, headerCall, need, parseHeader, readHeaderOn } from "../source/block-header.ts";

/** Headers per request while walking back; most reorganisations are shallow. */
const WALK_BATCHES = [8, 64, 512] as const;
/** A branch this much longer than ours is followed even when nodes are evenly split. */
const CLEARLY_LONGER_BLOCKS = 3;

/** None of the kept blocks is on the chain any more: only an operator can decide what to do. */
export class TooDeepError extends Error {
  constructor(network: string, cursor: BlockPoint) {
    super(
      `${network}: none of the last ${KEPT_BLOCKS} blocks up to ${cursor.number} ${cursor.hash} is on the node's chain. ` +
        "The RPC URL serves another chain, or blocks below the finalized one were replaced. Nothing was changed; the indexer continues by itself once the node is correct.",
    );
    this.name = "TooDeepError";
  }
}

type Opinion = { node: ChainNode; head: BlockHeader; holdsCursor: boolean };

/**
 * Asks every node whether the cursor's block is on its chain. Undoes what must be undone and returns true when it is not;
 * a node that merely lags knows nothing about the cursor and proves nothing.
 */
export async function undoReorg(term: Term): Promise<boolean> {
  const opinions = (await Promise.all(term.chain.nodesByHealth().map((node) => askNode(term, node)))).flatMap(
    (opinion) => opinion ?? [],
  );
  const against = longest(opinions.filter((opinion) => !opinion.holdsCursor));
  if (!against) return false;
  const holders = opinions.filter((opinion) => opinion.holdsCursor);
  const isMajority = opinions.length - holders.length > holders.length;
  const lead = against.head.number - (longest(holders)?.head.number ?? 0);
  if (!isMajority && lead < CLEARLY_LONGER_BLOCKS) return false;
  const ancestor = await findAncestor(term, against.node, against.head);
  await undoAbove(term, ancestor, against.head);
  return true;
}

/** Undefined when the node can't tell: it fails, or it has neither the cursor's height nor a different block at a kept height. */
async function askNode(term: Term, node: ChainNode): Promise<Opinion | undefined> {
  try {
    const [latest, atCursor] = await term.chain.batchOn(node, [
      headerCall("latest"),
      headerCall(term.cursor.number),
    ]);
    const head = parseHeader(need(latest));
    const same = parseHeader(need(atCursor));
    if (!head) return undefined;
    if (same) return { node, head, holdsCursor: same.hash === term.cursor.hash };
    if (head.number >= term.cursor.number) return undefined;
    const [kept] = await findHighestBlocks(term.sql, term.network, { to: head.number, limit: 1 });
    if (!kept) return undefined;
    const there = kept.number === head.number ? head : await readHeaderOn(term.chain, node, kept.number);
    return there && kept.hash !== there.hash ? { node, head, holdsCursor: false } : undefined;
  } catch (error) {
    term.log.debug(
      { node: node.label, err: error },
      "a node did not say whether the cursor's block is on its chain",
    );
    return undefined;
  }
}

function longest(opinions: readonly Opinion[]): Opinion | undefined {
  return opinions.toSorted((a, b) => b.head.number - a.head.number)[0];
}

/** The highest kept block that is also on the node's chain. Throws TooDeepError when there is none. */
async function findAncestor(term: Term, node: ChainNode, head: BlockHeader): Promise<BlockPoint> {
  let to = Math.min(term.cursor.number, head.number);
  for (let step = 0; to >= 0; step++) {
    const limit = WALK_BATCHES[Math.min(step, WALK_BATCHES.length - 1)] ?? 1;
    const kept = await findHighestBlocks(term.sql, term.network, { to, limit });
    const lowest = kept.at(-1);
    if (!lowest) break;
    const ancestor = await firstShared(term, node, kept);
    if (ancestor) return ancestor;
    to = lowest.number - 1;
  }
  throw new TooDeepError(term.network, term.cursor);
}

async function firstShared(
  term: Term,
  node: ChainNode,
  kept: readonly BlockPoint[],
): Promise<BlockPoint | undefined> {
  const outcomes = await term.chain.batchOn(
    node,
    kept.map((block) => headerCall(block.number)),
  );
  const hashes = outcomes.map((outcome) => fieldOf(need(outcome), "hash"));
  const shared = kept.find((block, index) => block.hash === hashes[index]);
  return shared && { number: shared.number, hash: shared.hash };
}

/** In one SQL transaction: either everything is undone or nothing. */
async function undoAbove(term: Term, ancestor: BlockPoint, head: BlockHeader): Promise<void> {
  const { network, cursor, epoch } = term;
  const depthBlocks = cursor.number - ancestor.number;
  const undone = await term.sql.begin(async (tx) => {
    if (!(await moveCursor(tx, { network, epoch, from: cursor, to: ancestor, head })))
      throw new FencedError(network);
    await deleteBlocksAbove(tx, network, ancestor.number);
    const taken = await orphanBlocksAbove(tx, {
      network,
      ancestor: ancestor.number,
      claimLeaseS: CLAIM_LEASE_S,
    });
    await recomputeLinkStatus(tx, {
      linkIds: taken.linkIds,
      isReorg: true,
      mismatchMinUnits: term.mismatchMinUnits,
    });
    if (taken.paymentIds.length > 0) await enqueue(tx, "relay_payments", { network });
    for (const claimId of taken.claimIds) await enqueue(tx, "check_claim", { claimId });
    if (taken.operationIds.length > 0) await enqueue(tx, "relay_operations", { network });
    await notify(tx, [...taken.paymentIds, ...taken.operationIds]);
    await announceBlock(tx, term, ancestor.number);
    return taken;
  });
  term.cursor = ancestor;
  term.metrics.reorged(network, depthBlocks);
  term.log.warn(
    {
      network,
      ancestor: ancestor.number,
      depthBlocks,
      transfers: undone.transfers,
      links: undone.linkIds.length,
    },
    "blocks were reorganised away",
  );
}

/**
 * What was undone has missed payments whose insert was still uncommitted. While the cursor is lower than the reverted blocks were, they are
 * recognised by the block after which they were accepted; it counts once they are executed in a block that a node shows late.
 */
export async function lowerLateAcceptances({ sql, network, epoch }: Term): Promise<void> {
  await sql.begin(async (tx) => {
    const cursor = await holdEpoch(tx, network, epoch);
    if (!cursor) throw new FencedError(network);
    await lowerAcceptedBlocks(tx, { network, number: cursor.number });
  });
}
