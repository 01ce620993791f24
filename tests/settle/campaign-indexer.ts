/** The indexer of the ledger campaign: it stops, falls behind, loses its leadership or its connections, and comes back. */
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { mine, type RunningIndexer, startIndexer } from "../support/indexer-lab.ts";
import { executeAny } from "./campaign-payments.ts";
import { anyAmount, anyMerchant, atTheChain, type Stage, sendCall } from "./campaign-stage.ts";

export const CONFIRMATIONS = 2;
/** An indexer that falls behind misses three times as many blocks, with transfers between them. */
const GAP_BLOCKS = 30;
const GAP_PARTS = 3;
/** How many transactions are sent before it comes back, at most. */
export const GAP_SENDERS = 2 * GAP_PARTS;
/** Sooner than in production, so that a node that hangs costs less of a run. */
const NODE_TIMEOUT_MS = 1_000;

export async function stopIndexer(stage: Stage): Promise<void> {
  const { indexer } = stage;
  stage.indexer = undefined;
  await indexer?.stop();
}

export function beginIndexer(stage: Stage): void {
  stage.indexer ??= openIndexer(stage);
}

function openIndexer({ lab, nodes: { mode, urls } }: Pick<Stage, "lab" | "nodes">): RunningIndexer {
  const timeout = mode === "honest" ? {} : { rpcTimeoutMs: NODE_TIMEOUT_MS };
  return startIndexer(lab, { confirmations: CONFIRMATIONS, urls, ...timeout });
}

/** A second indexer waits for the leadership, and the first one stops. */
export async function replaceIndexer(stage: Stage): Promise<void> {
  const { indexer } = stage;
  stage.indexer = openIndexer(stage);
  await indexer?.stop();
}

/** Ends about half of the indexer's database connections, in whatever statement: perhaps the one that holds the leader's lock. */
export async function cutConnections({ lab: { sql }, random }: Stage): Promise<void> {
  const rows = await sql<{ pid: number }[]>`
    select pid
    from pg_stat_activity
    where datname = current_database() and application_name like 'indexer%'
    order by backend_start, pid`;
  for (const { pid } of rows) if (random() < 0.5) await sql`select pg_terminate_backend(${pid}::int)`;
}

export async function fallBehind(stage: Stage): Promise<void> {
  await stopIndexer(stage);
  for (let part = 0; part < GAP_PARTS; part++) {
    await sendCall(stage, encodeTransfer(anyMerchant(stage).address, anyAmount(stage)));
    await atTheChain(stage, () => mine(stage.lab, GAP_BLOCKS));
    await executeAny(stage);
  }
  beginIndexer(stage);
}
