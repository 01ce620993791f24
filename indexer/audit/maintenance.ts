/**
 * Background tasks of the leader, each at its own interval: backfills, second readings of blocks, reconciliation of balances. A
 * failed task is retried after a pause.
 */

import { countDifferences } from "../../db/ledger/reconciliation.ts";
import { endAbandonedTransactions } from "../../db/postgres/abandoned-transactions.ts";
import { FencedError, type Term } from "../leader-term.ts";
import { sleep } from "../leadership.ts";
import { OtherBranchError } from "../settle/same-branch.ts";
import { backfillWallets } from "./backfill-wallets.ts";
import { recheckLogs } from "./recheck-logs.ts";
import { reconcileBalances, recountSums } from "./reconcile-balances.ts";
import { reconcileNonces } from "./reconcile-nonces.ts";
import { searchAccountLogs } from "./search-account-logs.ts";

const LOOK_EVERY_MS = 500;
const RECHECK_EVERY_MS = 2_000;
const RECONCILE_EVERY_MS = 60_000;
/** Balances also reveal a wrong sum, unless a missing transfer cancels it out. */
const RECOUNT_EVERY_MS = 600_000;
/** Rows locked by a stopped process would block the indexer and everything else that changes them. */
const ABANDONED_EVERY_MS = 10_000;
const RETRY_MS = 5_000;
const RECHECK_FIRST_BLOCKS = 16;

/** Runs until the term ends. */
export async function runMaintenance(
  term: Term,
  { accountLogsEveryMs }: { accountLogsEveryMs: number },
): Promise<void> {
  const progress = { blocks: RECHECK_FIRST_BLOCKS };
  // a takeover must not clear the alarm before the next comparison; if this fails, that comparison reports them
  await reportDifferences(term).catch(() => undefined);
  await Promise.all([
    repeat(term, "backfill", LOOK_EVERY_MS, () => backfillWallets(term)),
    repeat(term, "recheck", RECHECK_EVERY_MS, () => recheckLogs(term, progress)),
    repeat(term, "account logs", accountLogsEveryMs, async () => {
      while (await searchAccountLogs(term)) if (term.signal.aborted) return;
    }),
    repeat(term, "reconcile", RECONCILE_EVERY_MS, async () => {
      await reconcileBalances(term);
      await reconcileNonces(term);
      await reportDifferences(term);
    }),
    repeat(term, "abandoned transactions", ABANDONED_EVERY_MS, () => endAbandoned(term)),
    repeat(term, "recount", RECOUNT_EVERY_MS, () => recountSums(term)),
  ]);
}

async function reportDifferences({ sql, network, metrics }: Term): Promise<void> {
  const found = await countDifferences(sql, network);
  if (found !== undefined) metrics.reconciled(network, found);
}

async function endAbandoned({ sql, network, log }: Term): Promise<void> {
  const ended = await endAbandonedTransactions(sql);
  if (ended > 0) log.warn({ network, ended }, "ended transactions whose client had stopped");
}

async function repeat(
  term: Term,
  name: string,
  everyMs: number,
  work: () => Promise<unknown>,
): Promise<void> {
  while (!term.signal.aborted) {
    await sleep(everyMs, term.signal);
    if (term.signal.aborted) return;
    try {
      await work();
    } catch (error) {
      if (error instanceof FencedError || term.signal.aborted) return;
      if (!(error instanceof OtherBranchError))
        term.log.warn({ network: term.network, work: name, err: error }, "maintenance task failed; retrying");
      await sleep(RETRY_MS, term.signal);
    }
  }
}
