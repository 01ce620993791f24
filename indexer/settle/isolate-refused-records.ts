/**
 * Keeps one account's records from stopping a network. Owners choose what they write on the chain, and the database may refuse the
 * resulting row: a value out of range (SQLSTATE class 22), a constraint (23), an entry too large for an index (54). After a commit was
 * refused several times in a row, it is made without the refused records: transfers, payments and links are settled, the records are logged and
 * counted, and their wallet's nonce shows as a difference at the next reconciliation. Records that could not be confirmed or reported recur in every
 * later commit, so those are isolated from the first attempt.
 */
import postgres from "postgres";
import type { Hex } from "../../core/domain/networks.ts";
import type { Sql, Tx } from "../../db/postgres/client.ts";
import type { Term } from "../leader-term.ts";
import type { RefusableRecord } from "../metrics.ts";

/** Refusals in a row that rule out a race with another transaction. */
const REFUSALS_MIN = 3;
const REFUSAL_CODES = /^(22|23|54)/;

export type RefusedRecord = {
  kind: RefusableRecord;
  txHash?: Hex | undefined;
  userOpHash?: Hex;
  operationId?: string;
};

/** Runs `write` in a savepoint. Undefined, with nothing written, when the database refuses it. */
export type Isolate = <Result>(
  record: RefusedRecord,
  write: (part: Tx) => Promise<Result>,
) => Promise<Result | undefined>;

/** Undefined while commits are not isolated. */
export type IsolateIn = ((tx: OpenTransaction) => Isolate) | undefined;

export type OpenTransaction = Parameters<Parameters<Sql["begin"]>[1]>[0];

/** Consecutive refusals of each commit, per term. */
const refusals = new WeakMap<Term, Map<string, number>>();
/** Terms that have left out records which recur in later commits. */
const areIsolating = new WeakSet<Term>();

/** `commit` identifies what is written, the same for each attempt. */
export async function commitIsolating<Result>(
  term: Term,
  commit: string,
  write: (isolateIn: IsolateIn) => Promise<Result>,
): Promise<Result> {
  const isIsolating = areIsolating.has(term) || (refusals.get(term)?.get(commit) ?? 0) >= REFUSALS_MIN;
  try {
    const result = await write(isIsolating ? (tx) => openIsolation(term, tx) : undefined);
    refusals.get(term)?.delete(commit);
    return result;
  } catch (error) {
    if (isRefusal(error)) {
      const counts = refusals.get(term) ?? new Map<string, number>();
      refusals.set(term, counts.set(commit, (counts.get(commit) ?? 0) + 1));
    }
    throw error;
  }
}

/** For a part of a transaction that is not retried later: first as a whole and, if the database refuses that, again without the refused records. */
export async function writeIsolating<Result>(
  term: Term,
  tx: OpenTransaction,
  write: (part: Tx, isolate?: Isolate) => Promise<Result>,
): Promise<Result> {
  try {
    return (await tx.savepoint((part) => write(part))) as Awaited<Result>;
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return write(tx, openIsolation(term, tx));
  }
}

function openIsolation(term: Term, tx: OpenTransaction): Isolate {
  const { network, log, metrics } = term;
  return async (record, write) => {
    try {
      return (await tx.savepoint((part) => write(part))) as Awaited<ReturnType<typeof write>>;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      log.error({ network, ...record, err: error }, "the database refused this record; committed without it");
      metrics.refusedRecord(network, record.kind);
      if (record.kind === "conclusion" || record.kind === "report") areIsolating.add(term);
      return undefined;
    }
  };
}

function isRefusal(error: unknown): boolean {
  return error instanceof postgres.PostgresError && REFUSAL_CODES.test(error.code);
}
