/**
 * Waits while the next batch is gathered, at most until it is full. Payers who got a response pay again within a moment, so most
 * of a batch arrives in a burst after the block of the previous one: due payments are counted only after the next block.
 */
import { countDue, type Drain } from "../../db/payments/drain-lease.ts";
import type { PaymentNetwork } from "./payment-network.ts";

/** Time from the indexer's notification to the first count of new payments, for responses, new requests and their commit. */
const RETURN_MS = 16;
/** Interval between counts. */
const COUNT_EVERY_MS = 8;
/** After this the burst is over. Several API processes on a busy machine take 60 ms to respond and to commit new payments. */
const QUIET_MS = 80;

/** Maximum gathering time after the block: the drain lease must last until the batch is signed. */
const RETURNED_MAX_MS = 100;

/**
 * `gatherMs`: maximum until a block, and again after it, up to RETURNED_MAX_MS. `answered`: payments of the previous batch; once that
 * many have arrived after the block, waiting ends.
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
