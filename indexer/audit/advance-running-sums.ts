/** Advances the running sums of wallets' transfers to a block, in bounded steps. */
import { holdEpoch } from "../../db/ledger/leader-epoch.ts";
import { continueSums, type RunningSum, storeSums } from "../../db/ledger/running-sums.ts";
import { FencedError, type Term } from "../leader-term.ts";

/** Transfers that one statement sums, over all its wallets, per direction. */
const ROWS_A_STEP = 20_000;
const STEPS_MAX = 50;

export type WalletSum = {
  /** The sum of the transfers up to the block. */
  bookUnits: bigint;
  /** Whether it was recomputed from the first transfer since the wallet's last comparison. */
  isRecounted: boolean;
};

/**
 * The sums that reached block `number`, by wallet; missing ones were advanced as far as possible, or their transfers changed concurrently.
 * `wrongSums` are stored sums that a recount did not confirm; the new ones replace them.
 */
export async function advanceSums(
  term: Term,
  ids: readonly string[],
  number: number,
): Promise<{ sums: Map<string, WalletSum>; wrongSums: number }> {
  const { network, sql } = term;
  const sums = new Map<string, WalletSum>();
  let wrongSums = 0;
  let open = [...ids];
  for (let step = 0; step < STEPS_MAX && open.length > 0 && !term.signal.aborted; step++) {
    const rows = Math.ceil(ROWS_A_STEP / open.length);
    const read = await continueSums(sql, network, { ids: open, number, rows });
    const stored = await sql.begin(async (tx) => {
      if (!(await holdEpoch(tx, network, term.epoch))) throw new FencedError(network);
      return storeSums(tx, network, { sums: read, number });
    });
    const kept = read.filter(({ id }) => stored.has(id));
    wrongSums += reportWrong(term, kept);
    for (const { id, units, recountNumber } of kept.filter((sum) => sum.number === BigInt(number)))
      sums.set(id, { bookUnits: units, isRecounted: recountNumber !== null });
    open = kept.filter((sum) => sum.number < BigInt(number)).map(({ id }) => id);
  }
  return { sums, wrongSums };
}

/** Sums whose recount up to the same block gave a different result. */
function reportWrong({ log, network }: Term, sums: readonly RunningSum[]): number {
  const wrong = sums.filter(
    ({ number, units, recountNumber, recountUnits }) => number === recountNumber && units !== recountUnits,
  );
  for (const { id, address, number, units, recountUnits } of wrong)
    log.error(
      { network, walletId: id, address, block: Number(number), units, recorded: recountUnits },
      "running sum differs from the wallet's transfers",
    );
  return wrong.length;
}
