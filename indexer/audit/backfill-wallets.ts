/** Backfills wallets that were added later: transfers between the wallet's creation and the block from which it is followed. */

import { readBalances } from "../../core/chain/usdc.ts";
import { toQuantity } from "../../core/rpc/parse-answers.ts";
import { findNextBlock } from "../../db/ledger/blocks.ts";
import { holdEpoch } from "../../db/ledger/leader-epoch.ts";
import {
  addMissingHistory,
  findWalletsToRead,
  markWalletsRead,
  type WalletToRead,
} from "../../db/ledger/wallet-backfills.ts";
import { FencedError, type Term } from "../leader-term.ts";
import { applyMissedBlocks } from "../settle/apply-missed-blocks.ts";
import { readHeader } from "../source/block-header.ts";
import { readPast, TOPIC_VALUES_MAX } from "../source/past-logs.ts";

/** The database's clock and the chain's may differ by this much, beside what the chain's is behind now. */
const CLOCK_SKEW_S = 60;
const BALANCES_AT_ONCE = 500;

/** Reads for at most TOPIC_VALUES_MAX wallets. Returns the number of wallets done, 0 when none is waiting. */
export async function backfillWallets(term: Term): Promise<number> {
  const wallets = await findWalletsToRead(term.sql, term.network, TOPIC_VALUES_MAX);
  const [oldest] = wallets;
  if (!oldest) return 0;
  const to = Math.max(...wallets.map(({ indexedFrom }) => Number(indexedFrom))) - 1;
  const from = await findFirstBlockSince(term, oldest.createdAt.getTime(), to);
  const addresses = wallets.map((wallet) => wallet.address);
  const wanted = new Set(addresses);
  let found = 0;
  const anchor = await findNextBlock(term.sql, term.network, to);
  for await (const range of readPast(term.chain, { from, to, addresses, anchor })) {
    if (term.signal.aborted) return 0;
    if (range.blocks.length > 0)
      found += await applyMissedBlocks(term, range.blocks, (address) => wanted.has(address));
  }
  const openings = await readOpenings(term, wallets, from - 1);
  await term.sql.begin(async (tx) => {
    if (!(await holdEpoch(tx, term.network, term.epoch))) throw new FencedError(term.network);
    await addMissingHistory(tx, term.network, { addresses, from, to });
    await markWalletsRead(tx, openings);
  });
  term.log.info(
    { network: term.network, wallets: wallets.length, from, to, transfers: found },
    "wallets backfilled",
  );
  return wallets.length;
}

/**
 * The lowest block, at most `to` + 1, that may be later than `sinceMs` of the database's clock, Unix milliseconds. Binary search: a few
 * dozen headers on the longest chain.
 */
export async function findFirstBlockSince(term: Term, sinceMs: number, to: number): Promise<number> {
  const newest = await readHeader(term.chain, "latest");
  const behindS = newest ? Math.max(0, Date.now() / 1_000 - newest.timeS) : 0;
  const timeS = sinceMs / 1_000 - behindS - CLOCK_SKEW_S;
  let [low, high] = [0, to + 1];
  // most wallets are as new as the last blocks, so look there first
  for (let step = 16; step < to; step *= 4) {
    const header = await readHeader(term.chain, to - step);
    if (header && header.timeS < timeS) {
      low = to - step + 1;
      break;
    }
    high = Math.min(high, to - step);
  }
  while (low < high) {
    const middle = (low + high) >> 1;
    const header = await readHeader(term.chain, middle);
    if (header && header.timeS < timeS) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Balances before the first block read. When nodes lack old states, the first reconciliation sets them. */
async function readOpenings(
  term: Term,
  wallets: readonly WalletToRead[],
  number: number,
): Promise<{ id: string; openingUnits: bigint | undefined }[]> {
  const openings: { id: string; openingUnits: bigint | undefined }[] = [];
  for (let start = 0; start < wallets.length; start += BALANCES_AT_ONCE) {
    const page = wallets.slice(start, start + BALANCES_AT_ONCE);
    const addresses = page.map(({ address }) => address);
    const balances =
      number < 0
        ? addresses.map(() => 0n)
        : await readBalances(term.chain, addresses, toQuantity(number)).catch(() => undefined);
    openings.push(...page.map(({ id }, index) => ({ id, openingUnits: balances?.[index] })));
  }
  return openings;
}
