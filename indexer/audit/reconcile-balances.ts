/**
 * Reconciles wallets' balances on the chain with the ledger, at a final block: the only completeness check that does not rely on log queries
 * (USDC does not rebase).
 */

import { readBalances } from "../../core/chain/usdc.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import {
  findComparedNumber,
  findWalletsToCompare,
  findWalletsToReconcile,
  noteReconciled,
  recordReconciliation,
  type WalletToCompare,
} from "../../db/ledger/reconciliation.ts";
import { raiseReconciledNumber, startRecount, takeWalletsToRecount } from "../../db/ledger/running-sums.ts";
import type { Term } from "../leader-term.ts";
import { readHeader } from "../source/block-header.ts";
import { advanceSums, type WalletSum } from "./advance-running-sums.ts";

const WALLETS_AT_ONCE = 500;
/** Wallets with movements are compared page by page; beyond this limit they wait for their daily comparison. */
const PAGES_MAX = 20;
/** Where the chain reports no final block: this far below the cursor. */
const DEEP_BLOCKS = 64;
const DETAILS_MAX = 50;
/** Wallets whose sums are recounted at a time. */
const RECOUNTED_WALLETS = 5;

type Compared = WalletToCompare & WalletSum & { balance: bigint };

/** Compares the wallets that are due. Returns the number of differences. */
export async function reconcileBalances(term: Term): Promise<number> {
  const { network, sql } = term;
  const number = await readFinalNumber(term);
  const since = (await findComparedNumber(sql, network)) ?? number;
  if (number < 0) return 0;
  await raiseReconciledNumber(sql, { network, epoch: term.epoch, number });
  let differences = 0;
  for (let page = 0; page < PAGES_MAX && !term.signal.aborted; page++) {
    const wallets = await findWalletsToReconcile(sql, network, { number, since, limit: WALLETS_AT_ONCE });
    let compared = 0;
    for (let start = 0; start < wallets.length; start += WALLETS_AT_ONCE) {
      const outcome = await compareWallets(term, wallets.slice(start, start + WALLETS_AT_ONCE), number);
      differences += outcome.differences;
      compared += outcome.compared;
    }
    if (compared < WALLETS_AT_ONCE) break;
  }
  return differences;
}

/**
 * Recounts the running sums of the next few wallets from their first transfer, and compares them. Long recounts continue in
 * later rounds. Returns the number of sums found to be wrong.
 */
export async function recountSums(term: Term): Promise<number> {
  const { network, sql } = term;
  const number = await readFinalNumber(term);
  if (number < 0) return 0;
  await raiseReconciledNumber(sql, { network, epoch: term.epoch, number });
  const ids = await takeWalletsToRecount(sql, network, RECOUNTED_WALLETS);
  if (ids.length === 0) return 0;
  await startRecount(sql, ids);
  return (await compareWallets(term, await findWalletsToCompare(sql, ids), number)).wrongSums;
}

/** The finalized block, or a deep one, but never above the cursor. Negative on a chain that is too short. */
async function readFinalNumber({ chain, cursor }: Term): Promise<number> {
  const finalized = await readHeader(chain, "finalized").catch(() => undefined);
  return Math.min(finalized?.number ?? cursor.number - DEEP_BLOCKS, cursor.number);
}

/** Wallets whose sums are complete; the others stay due. */
async function compareWallets(
  term: Term,
  wallets: readonly WalletToCompare[],
  number: number,
): Promise<{ compared: number; differences: number; wrongSums: number }> {
  const { network, sql } = term;
  const counted = await advanceSums(
    term,
    wallets.map(({ id }) => id),
    number,
  );
  const ready = wallets.flatMap((wallet) => {
    const sum = counted.sums.get(wallet.id);
    return sum ? [{ ...wallet, ...sum }] : [];
  });
  const { compared: confirmed, wrongSums } = await confirmDifferences(
    term,
    await withBalances(term, ready, number),
    number,
  );
  const noted = await noteReconciled(sql, {
    number,
    wallets: confirmed.map((wallet) => ({
      id: wallet.id,
      openingUnits: wallet.openingUnits ?? wallet.balance - wallet.bookUnits,
      differenceUnits: differenceOf(wallet),
    })),
  });
  const compared = confirmed.filter(({ id }) => noted.has(id));
  const differing = compared.filter((wallet) => differenceOf(wallet) !== 0n);
  const details = differing.slice(0, DETAILS_MAX).map((wallet) => ({
    walletId: wallet.id,
    address: wallet.address,
    chain: wallet.balance.toString(),
    difference: differenceOf(wallet).toString(),
  }));
  const differences = differing.length;
  if (compared.length > 0 || wallets.length === 0)
    await recordReconciliation(sql, {
      network,
      kind: "BALANCES",
      fromBlock: number,
      toBlock: number,
      checked: compared.length,
      differences,
      repaired: 0,
      details,
    });
  if (differences > 0)
    term.log.error(
      { network, block: number, differences, first: details[0] },
      "balances differ from the ledger",
    );
  return { compared: compared.length, differences, wrongSums: counted.wrongSums + wrongSums };
}

async function withBalances(
  { chain }: Term,
  wallets: readonly (WalletToCompare & WalletSum)[],
  number: number,
): Promise<Compared[]> {
  if (wallets.length === 0) return [];
  const header = await readHeader(chain, number);
  if (!header) throw new RpcTransportError("not-ready", `no node knows block ${number}`);
  const addresses = wallets.map(({ address }) => address);
  const balances = await readBalances(chain, addresses, { blockHash: header.hash, requireCanonical: true });
  return wallets.map((wallet, index) => ({ ...wallet, balance: balances[index] ?? 0n }));
}

/**
 * A new difference may come from a wrong sum, so that is recounted first, in this round or, for wallets with many transfers, in later ones. A
 * known difference is confirmed this way once an hour.
 */
async function confirmDifferences(
  term: Term,
  compared: readonly Compared[],
  number: number,
): Promise<{ compared: Compared[]; wrongSums: number }> {
  const isDoubtful = (wallet: Compared) => {
    const difference = differenceOf(wallet);
    return (
      difference !== 0n && !wallet.isRecounted && (difference !== wallet.differenceUnits || wallet.isLongAgo)
    );
  };
  const doubtful = compared.filter(isDoubtful);
  if (doubtful.length === 0) return { compared: [...compared], wrongSums: 0 };
  const ids = doubtful.map(({ id }) => id);
  await startRecount(term.sql, ids);
  const { sums, wrongSums } = await advanceSums(term, ids, number);
  const confirmed = compared.flatMap((wallet) => {
    if (!isDoubtful(wallet)) return [wallet];
    const sum = sums.get(wallet.id);
    return sum ? [{ ...wallet, ...sum }] : [];
  });
  return { compared: confirmed, wrongSums };
}

function differenceOf({ balance, openingUnits, bookUnits }: Compared): bigint {
  return openingUnits === null ? 0n : balance - openingUnits - bookUnits;
}
