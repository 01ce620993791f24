/** Balances against the ledger, at a final block: the one proof of completeness that no log query can give (USDC does not rebase). */

import { readBalances } from "../../core/chain/usdc.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import {
  findComparedNumber,
  findWalletsToReconcile,
  noteReconciled,
  recordReconciliation,
  sumLedger,
  type WalletToCompare,
} from "../../db/ledger/reconciliation.ts";
import { readHeader } from "../source/block-header.ts";
import type { Term } from "../term.ts";

const WALLETS_AT_ONCE = 500;
/** Wallets that moved are compared page by page; what is more waits for its day. */
const PAGES_MAX = 20;
/** Where the chain reports no final block: this far below the cursor. */
const DEEP_BLOCKS = 64;
const DETAILS_MAX = 50;

type Compared = WalletToCompare & { balance: bigint; openingUnits: bigint };

/** Compares the wallets whose turn it is. Returns the number of differences. */
export async function reconcileBalances(term: Term): Promise<number> {
  const { network, sql } = term;
  const number = await readFinalNumber(term);
  if (number < 0) return 0;
  const since = (await findComparedNumber(sql, network)) ?? number;
  let differences = 0;
  for (let page = 0; page < PAGES_MAX && !term.signal.aborted; page++) {
    const wallets = await findWalletsToReconcile(sql, network, { number, since, limit: WALLETS_AT_ONCE });
    for (let start = 0; start < wallets.length; start += WALLETS_AT_ONCE)
      differences += await compareWallets(term, wallets.slice(start, start + WALLETS_AT_ONCE), number);
    if (wallets.length < WALLETS_AT_ONCE) break;
  }
  return differences;
}

/** Of the finalized block, or a deep one, but never above the cursor. Negative on a chain that is too short. */
async function readFinalNumber({ chain, cursor }: Term): Promise<number> {
  const finalized = await readHeader(chain, "finalized").catch(() => undefined);
  return Math.min(finalized?.number ?? cursor.number - DEEP_BLOCKS, cursor.number);
}

async function compareWallets(
  term: Term,
  wallets: readonly WalletToCompare[],
  number: number,
): Promise<number> {
  const { chain, network, sql } = term;
  const header = await readHeader(chain, number);
  if (!header) throw new RpcTransportError("not-ready", `no node knows block ${number}`);
  const addresses = wallets.map(({ address }) => address);
  const balances = await readBalances(chain, addresses, { blockHash: header.hash, requireCanonical: true });
  const compared = await confirmDifferences(
    term,
    wallets.map((wallet, index) => {
      const balance = balances[index] ?? 0n;
      return { ...wallet, balance, openingUnits: wallet.openingUnits ?? balance - wallet.bookUnits };
    }),
    number,
  );
  const differences = compared.flatMap((wallet) => {
    const difference = differenceOf(wallet);
    const { id, address, balance } = wallet;
    if (difference === 0n) return [];
    return [{ walletId: id, address, chain: balance.toString(), difference: difference.toString() }];
  });
  await noteReconciled(
    sql,
    number,
    compared.map((wallet) => ({ ...wallet, differenceUnits: differenceOf(wallet) })),
  );
  await recordReconciliation(sql, {
    ...{ network, kind: "BALANCES", fromBlock: number, toBlock: number, checked: wallets.length },
    ...{ differences: differences.length, repaired: 0, details: differences.slice(0, DETAILS_MAX) },
  });
  if (differences.length > 0) {
    const [first] = differences;
    term.log.error(
      { network, block: number, differences: differences.length, first },
      "balances differ from the ledger",
    );
  }
  return differences.length;
}

/**
 * A new difference may be that of a transfer booked below the last comparison: the whole ledger decides. One that is known already is
 * summed anew once an hour.
 */
async function confirmDifferences(
  { sql, network }: Term,
  compared: readonly Compared[],
  number: number,
): Promise<Compared[]> {
  const isDoubtful = (wallet: Compared) => {
    const difference = differenceOf(wallet);
    return difference !== 0n && (difference !== wallet.differenceUnits || wallet.isLongAgo);
  };
  const addresses: Hex[] = compared.filter(isDoubtful).map(({ address }) => address);
  if (addresses.length === 0) return [...compared];
  const sums = await sumLedger(sql, network, { addresses, number });
  return compared.map((wallet) => ({ ...wallet, bookUnits: sums.get(wallet.address) ?? wallet.bookUnits }));
}

function differenceOf({ balance, openingUnits, bookUnits }: Compared): bigint {
  return balance - openingUnits - bookUnits;
}
