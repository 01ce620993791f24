/** Balances against books, at a final block: the one proof of completeness that no log query can give (USDC does not rebase). */

import { balanceOfCall } from "../../core/chain/usdc.ts";
import { parseQuantity } from "../../core/rpc/answers.ts";
import {
  findWalletsToReconcile,
  noteReconciled,
  recordReconciliation,
  type WalletInBooks,
} from "../../db/ledger/reconciliation.ts";
import { type BlockHeader, need, readHeader } from "../source/block-header.ts";
import type { Term } from "../term.ts";

const WALLETS_AT_ONCE = 500;
/** Where the chain tells no final block: this far below the cursor. */
const DEEP_BLOCKS = 64;
const DETAILS_MAX = 50;

/** Compares the wallets whose turn it is. Returns the number of differences. */
export async function reconcileBalances(term: Term): Promise<number> {
  const { network, sql } = term;
  const block = await readFinalBlock(term);
  if (!block) return 0;
  const wallets = await findWalletsToReconcile(sql, network, {
    number: block.number,
    limit: WALLETS_AT_ONCE,
  });
  if (wallets.length === 0) return 0;
  const balances = await readBalances(term, wallets, block);
  const compared = wallets.map(({ id, address, openingUnits, bookUnits }, index) => {
    const balance = balances[index] ?? 0n;
    const opening = openingUnits ?? balance - bookUnits;
    return { id, address, balance, openingUnits: opening, differenceUnits: balance - opening - bookUnits };
  });
  const differences = compared.flatMap(({ id, address, balance, differenceUnits }) =>
    differenceUnits === 0n
      ? []
      : [{ walletId: id, address, chain: balance.toString(), difference: differenceUnits.toString() }],
  );
  await noteReconciled(sql, compared);
  await recordReconciliation(sql, {
    ...{ network, kind: "BALANCES", fromBlock: block.number, toBlock: block.number, checked: wallets.length },
    ...{ differences: differences.length, repaired: 0, details: differences.slice(0, DETAILS_MAX) },
  });
  if (differences.length > 0) {
    const [first] = differences;
    term.log.error(
      { network, block: block.number, differences: differences.length, first },
      "balances differ from the books",
    );
  }
  return differences.length;
}

/** The finalized block, or a deep one, but never above the cursor. */
async function readFinalBlock(term: Term): Promise<BlockHeader | undefined> {
  const finalized = await readHeader(term.chain, "finalized").catch(() => undefined);
  const number = Math.min(finalized?.number ?? term.cursor.number - DEEP_BLOCKS, term.cursor.number);
  if (number < 0) return undefined;
  return finalized?.number === number ? finalized : readHeader(term.chain, number);
}

async function readBalances(
  term: Term,
  wallets: readonly WalletInBooks[],
  block: BlockHeader,
): Promise<bigint[]> {
  const at = { blockHash: block.hash, requireCanonical: true } as const;
  const outcomes = await term.chain.batch(
    wallets.map(({ address }) => balanceOfCall(term.chain, address, at)),
  );
  return outcomes.map((outcome) => parseQuantity(need(outcome), "balanceOf"));
}
