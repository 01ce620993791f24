/**
 * Waits while the next batch is gathered, and no longer than until it is full. Payers who were answered pay again within a moment, so
 * that most of a batch comes in a burst after the block of the one before it: due payments are counted only after the next block.
 */
import { countDue, type Drain } from "../../db/payments/drain-lease.ts";
import type { PaymentNetwork } from "./payment-network.ts";

/** From the indexer's notification to the first count of what comes again: answers, new requests and their commit. */
const RETURN_MS = 16;
/** Between two counts. */
const COUNT_EVERY_MS = 8;
/** Then the burst is over. Several API processes on a busy machine take 60 ms to answer and to commit what comes again. */
const QUIET_MS = 80;

/** After the block, however long the batch may be gathered: the drain lease must last until it is signed. */
const RETURNED_MAX_MS = 100;

/**
 * `gatherMs`: the most until a block, and again after it, up to RETURNED_MAX_MS. `answered`: payments of the batch before; once as many
 * have come after the block, the others are not waited for.
 */
export async function gatherBatch(
  { deps, ledger }: Pick<PaymentNetwork, "deps" | "ledger">,
  drain: Drain,
  { gatherMs, answered }: { gatherMs: number; answered: number },
): Promise<void> {
  if (!(await ledger.nextBlock(gatherMs))) return;
  const endMs = performance.now() + Math.min(gatherMs, RETURNED_MAX_MS);
  const sleep = (ms: number) => Bun.sleep(Math.max(0, Math.min(ms, endMs - performance.now())));
  const count = () => countDue(deps.asyncCommitSql, drain);
  let before = await count();
  const enough = Math.min(drain.batchMax, before + answered);
  if (before >= enough) return;
  await sleep(RETURN_MS);
  let grownMs = performance.now();
  while (performance.now() < Math.min(endMs, grownMs + QUIET_MS)) {
    const due = await count();
    if (due >= enough) return;
    if (due > before) [before, grownMs] = [due, performance.now()];
    await sleep(COUNT_EVERY_MS);
  }
}
