/** Commits blocks with everything they change: cursor, transfers, payments, links, history and events in one SQL transaction. */

import { insertBlocks, KEPT_BLOCKS } from "../db/blocks.ts";
import type { Tx } from "../db/client.ts";
import { type BlockPoint, moveCursor } from "../db/cursors.ts";
import { tell } from "../db/outcome.ts";
import { refreshLinks } from "../db/settlement.ts";
import { confirmTransfers } from "../db/transfers.ts";
import type { BlockHeader } from "./block-header.ts";
import { settleTransfers } from "./settle.ts";
import { FencedError, type Term } from "./term.ts";
import type { BlockContent } from "./usdc-logs.ts";

/** Applies consecutive blocks that follow the cursor. Throws FencedError when another leader was faster. */
export async function applyBlocks(
  term: Term,
  blocks: readonly BlockContent[],
  head: BlockHeader,
): Promise<void> {
  const last = blocks.at(-1);
  if (!last) return;
  const to = { number: last.block.number, hash: last.block.hash };
  await term.sql.begin((tx) => writeBlocks(tx, term, blocks, to, head));
  term.cursor = to;
}

async function writeBlocks(
  tx: Tx,
  term: Term,
  blocks: readonly BlockContent[],
  to: BlockPoint,
  head: BlockHeader,
): Promise<void> {
  const { network, confirmations, watched } = term;
  const depthNumber = to.number - confirmations + 1;
  const times = new Map(blocks.map(({ block }) => [block.number, block.timeS]));
  const [isMoved] = await Promise.all([
    moveCursor(tx, { network, epoch: term.epoch, from: term.cursor, to, head }),
    insertBlocks(tx, network, headersToKeep(blocks, head)),
  ]);
  if (!isMoved) throw new FencedError(network);
  const settled = await settleTransfers(tx, {
    network,
    transfers: blocks.flatMap((block) => block.transfers),
    spent: blocks.flatMap((block) => block.spent),
    isWatched: (address) => watched.has(address),
    confirmedAtS: (number) => times.get(number + confirmations - 1),
  });
  const confirmed = await confirmTransfers(tx, { network, depthNumber, confirmations });
  const linkIds = [...settled.linkIds, ...confirmed.linkIds];
  const moves = await refreshLinks(tx, { linkIds, depthNumber, isReorg: false });
  await Promise.all([
    tell(tx, [...settled.paymentIds, ...confirmed.paymentIds, ...moves.map((move) => move.id)]),
    announceBlock(tx, term, to.number),
  ]);
}

/** Wakes the worker, which looks at its transactions in flight. */
export async function announceBlock(tx: Tx, term: Pick<Term, "network">, number: number): Promise<void> {
  await tx`select pg_notify('block', ${`${term.network}:${number}`})`;
}

/** A catch-up of millions of blocks keeps only those a reorganisation may still reach. */
function headersToKeep(blocks: readonly BlockContent[], head: BlockHeader): BlockHeader[] {
  return blocks.map(({ block }) => block).filter((block) => block.number > head.number - KEPT_BLOCKS);
}
