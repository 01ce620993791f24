/**
 * Waits while the next batch is gathered, and no longer than until it is full. Payers who were answered pay again within a moment, so
 * that most of a batch comes in a burst after the block of the one before it: due payments are counted only after the next block.
 */
import { countDue, type Drain } from "../../db/payments/drain-lease.ts";
import type { PaymentNetwork } from "./payment-network.ts";

/** From the indexer's notification to the first count: answers, new requests and their commit. */
const RETURN_MS = 16;
/** Between two counts. */
const COUNT_EVERY_MS = 8;
/** Then the burst is over. */
const QUIET_MS = 40;

export async function gatherBatch(
  { deps, ledger }: Pick<PaymentNetwork, "deps" | "ledger">,
  drain: Drain,
  gatherMs: number,
): Promise<void> {
  const endMs = performance.now() + gatherMs;
  const sleep = (ms: number) => Bun.sleep(Math.max(0, Math.min(ms, endMs - performance.now())));
  if (!(await ledger.nextBlock(gatherMs))) return;
  await sleep(RETURN_MS);
  let [before, grownMs] = [0, performance.now()];
  while (performance.now() < Math.min(endMs, grownMs + QUIET_MS)) {
    const due = await countDue(deps.asyncCommitSql, drain);
    if (due >= drain.batchMax) return;
    if (due > before) [before, grownMs] = [due, performance.now()];
    await sleep(COUNT_EVERY_MS);
  }
}
