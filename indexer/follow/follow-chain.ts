/** The leader's loop on one network: poll the head, read what is new, commit it, wait for the next block. */
import type { Hex } from "../../core/domain/networks.ts";
import { RpcResponseError, RpcTransportError } from "../../core/rpc/errors.ts";
import { type FailureLog, openFailureLog } from "../../core/runtime/failure-log.ts";
import { sqlStateOf } from "../../core/runtime/sql-state.ts";
import { pruneBlocks } from "../../db/ledger/blocks.ts";
import { noteError, noteFinalized, noteHead } from "../../db/ledger/cursors.ts";
import {
  findUnjoinedWallets,
  findWaiting,
  joinWallets,
  type Waiting,
} from "../../db/ledger/watched-wallets.ts";
import { FencedError, type Term, watchOf } from "../leader-term.ts";
import {
  collectAfter,
  commitBlocks,
  commitQuietBlocks,
  NEAR_BLOCKS,
  noteProgress,
} from "../settle/commit-blocks.ts";
import { settleRetroactively } from "../settle/settle-retroactively.ts";
import { type AnnouncedTransfers, openAnnouncedTransfers } from "../source/announced-transfers.ts";
import {
  assertChained,
  type BlockHeader,
  headerCall,
  need,
  parseHeader,
  readHeader,
} from "../source/block-header.ts";
import { readBlocks, type Watch } from "../source/block-logs.ts";
import type { BlockContent } from "../source/decode-logs.ts";
import { isQuietRange } from "../source/quiet-range.ts";
import { openWakeUp } from "../wake-up.ts";
import { catchUp } from "./catch-up.ts";
import { catchUpSparse, findSparseEnd } from "./catch-up-sparse.ts";
import { type HeadSource, openHeadSource } from "./head-source.ts";
import { openPollInterval, type PollInterval } from "./poll-interval.ts";
import { lowerLateAcceptances, TooDeepError, undoReorg } from "./undo-reorg.ts";

const POLL_BUSY_MS = 250;
const POLL_IDLE_MS = 1_000;
/** Interval between polls, however long one takes. */
const REST_MIN_MS = 50;
const RETRY_FIRST_MS = 100;
const RETRY_MAX_MS = 5_000;
const RETRY_HOPELESS_MS = 30_000;
const HEARTBEAT_MS = 5_000;
const LATE_EVERY_MS = 200;
/** Blocks read and committed together; full blocks hold hundreds of logs each. Halved by each consecutive failure: fewer requests, fewer failures. */
const BLOCKS_AT_ONCE = 16;
/** Wallets added per statement. */
const JOIN_AT_ONCE = 10_000;
const FINALITY_EVERY_MS = 30_000;
const FINALITY_ECONOMICAL_MS = 300_000;
/** How long nodes may be behind the cursor before that is an error. */
const BEHIND_MAX_MS = 10_000;
/** How long nodes may disagree before that is an error. */
const UNDECIDED_MAX_MS = 10_000;

type Memory = {
  heads: HeadSource;
  transfers: AnnouncedTransfers;
  pollInterval: PollInterval;
  watch: Watch;
  notedMs: number;
  finalityMs: number;
  lateMs: number;
  behindSinceMs: number | undefined;
  /** Since when the next block has not followed the cursor's block (with this hash), although that one is not undone. */
  undecided: { at: Hex; sinceMs: number } | undefined;
  /** The height of the branch that was undone; infinite until it is known that none was by a former leader. */
  undoneTo: number;
  /** Whether booked transfers are waiting for confirmations. */
  hasUndeep: boolean;
  /** Whether payments are waiting that only the logs of their authorizations can settle. */
  needsEveryBlock: boolean;
  /** Polls fail with each block for as long as their cause lasts. */
  logFailure: FailureLog;
  /** Consecutive failed polls. */
  failures: number;
  hasWarnedOfHeaders: boolean;
};

/** Runs until the term ends. Throws FencedError when another leader's term has begun. */
export async function followChain(term: Term): Promise<void> {
  const wakeUp = openWakeUp(term.signal);
  const heads = openHeadSource(term.chain, () => wakeUp.wake());
  heads.listen(true);
  const pollInterval = openPollInterval();
  const transfers = openAnnouncedTransfers(term.chain, (blockNumber) => {
    pollInterval.expect(blockNumber);
    wakeUp.wake();
  });
  const memory: Memory = {
    heads,
    transfers,
    pollInterval,
    watch: watchOf(term.watched),
    notedMs: Number.NEGATIVE_INFINITY,
    finalityMs: Number.NEGATIVE_INFINITY,
    lateMs: 0,
    behindSinceMs: undefined,
    undecided: undefined,
    undoneTo: Number.POSITIVE_INFINITY,
    hasUndeep: false,
    needsEveryBlock: false,
    failures: 0,
    logFailure: openFailureLog(term.log),
    hasWarnedOfHeaders: false,
  };
  try {
    while (!term.signal.aborted) {
      try {
        const startedMs = performance.now();
        const periodMs = await pollOnce(term, memory);
        memory.failures = 0;
        const waitMs = periodMs - (performance.now() - startedMs);
        if (periodMs > 0) await wakeUp.wait(Math.max(waitMs, REST_MIN_MS));
      } catch (error) {
        if (error instanceof FencedError || term.signal.aborted) throw error;
        await wakeUp.wait(await reportFailure(term, memory, error));
      }
    }
  } finally {
    heads.listen(false);
    transfers.listen(undefined);
  }
}

/** One poll: returns when the next begins, counted from this one's start, 0 when there may be more to read immediately. */
async function pollOnce(term: Term, memory: Memory): Promise<number> {
  const { pollInterval } = memory;
  if (term.cursor.number < memory.undoneTo) {
    await lowerLateAcceptances(term);
    if (memory.undoneTo === Number.POSITIVE_INFINITY) memory.undoneTo = term.cursor.number;
  }
  if (!pollInterval.isDue(term.cursor.number)) {
    await noteWaiting(term, memory);
    if (!pollInterval.isDue(term.cursor.number)) return POLL_BUSY_MS;
  }
  const isUrgent = pollInterval.begin(term.cursor.number);
  const startedMs = performance.now();
  const head = await memory.heads.read(term.cursor);
  if (head) noteNewest(term, head, memory);
  const isBlockByBlock = () => isUrgent || !pollInterval.isEconomical();
  const ahead = head && isBlockByBlock() ? readAhead(term, head, memory.watch) : undefined;
  // after the head is known, so that wallets paid in blocks up to it are followed before those are read
  const waiting = await noteWaiting(term, memory);
  const reading = { startedMs, isBlockByBlock: isBlockByBlock(), ahead: waiting.wallets ? undefined : ahead };
  const hasMoved = head !== undefined && (await moveTowards(term, head, memory, reading));
  if (waiting.payments || waiting.claims || waiting.released) await settleLateAtTimes(term, memory);
  if (head) {
    assertNotBehind(term, head, memory);
    term.metrics.polled(term.network);
    await pollFinality(term, memory);
  }
  if (hasMoved && term.cursor.hash !== head.hash) {
    memory.heads.readAgain();
    pollInterval.readNow();
    return 0;
  }
  const { payments, claims, released, transfers, watches } = waiting;
  const isBusy = payments || claims || released || transfers || watches || pollInterval.isEconomical();
  return isBusy ? POLL_BUSY_MS : POLL_IDLE_MS;
}

function noteNewest({ network, log }: Term, head: BlockHeader, memory: Memory): void {
  memory.pollInterval.noteHead(head);
  if (head.isHashProven || memory.hasWarnedOfHeaders) return;
  memory.hasWarnedOfHeaders = true;
  const { number, hash } = head;
  log.warn(
    { network, number, hash },
    "a block header does not make its block's hash: its bloom is not used, and each such block costs more requests; if all are so, the chain has a header field that this version does not know",
  );
}

/** Checks what is waiting for the indexer: follows new wallets, and decides how soon the chain is polled again. */
async function noteWaiting(term: Term, memory: Memory): Promise<Waiting> {
  const waiting = await findWaiting(term.sql, term.network);
  if (waiting.epoch !== term.epoch) throw new FencedError(term.network);
  memory.hasUndeep = waiting.transfers;
  memory.needsEveryBlock = waiting.facilitated;
  memory.watch.wantsAuthorizations = waiting.payments;
  if (waiting.wallets) await joinNewWallets(term);
  const { pollInterval, heads, transfers } = memory;
  pollInterval.note(waiting, transfers.isLive());
  heads.listen(!pollInterval.isEconomical());
  transfers.listen(pollInterval.isEconomical() ? term.watched : undefined);
  return waiting;
}

/** Payments and claims stored after their block can wait a moment; those in a new block must not wait for them. */
async function settleLateAtTimes(term: Term, memory: Memory): Promise<void> {
  if (performance.now() - memory.lateMs < LATE_EVERY_MS) return;
  await settleRetroactively(term);
  memory.lateMs = performance.now();
}

type ReadAhead = { wantsAuthorizations: boolean; blocks: Promise<BlockContent[]> };

/** Reads the next block while the database is queried for waiting work; discarded if that adds a wallet or also needs authorizations. */
function readAhead({ chain, cursor }: Term, head: BlockHeader, watch: Watch): ReadAhead | undefined {
  if (head.number !== cursor.number + 1 || head.parentHash !== cursor.hash) return undefined;
  const blocks = readBlocks(chain, [head], watch);
  // thrown to whoever awaits it, if anyone does
  blocks.catch(() => undefined);
  return { wantsAuthorizations: watch.wantsAuthorizations, blocks };
}

type Reading = { startedMs: number; isBlockByBlock: boolean; ahead: ReadAhead | undefined };

/** Whether the cursor moved. */
async function moveTowards(
  term: Term,
  head: BlockHeader,
  memory: Memory,
  { startedMs, isBlockByBlock, ahead }: Reading,
): Promise<boolean> {
  const { cursor } = term;
  if (head.number === cursor.number && head.hash === cursor.hash) {
    memory.behindSinceMs = undefined;
    await heartbeat(term, head, memory);
    return false;
  }
  if (head.number <= cursor.number) return lookBack(term, memory);
  memory.behindSinceMs = undefined;
  term.metrics.sawHead(term.network, { head: head.number, headTimeS: head.timeS, cursor: cursor.number });
  if (head.number - cursor.number > NEAR_BLOCKS) {
    term.isCatchingUp = true;
    return catchUpFar(term, head, memory).finally(() => {
      term.isCatchingUp = false;
    });
  }
  if (!isBlockByBlock && (await isQuietRange(term.chain, { cursor, head }, memory.watch))) {
    await commitQuietBlocks(term, head, startedMs);
    return true;
  }
  const headers = await readHeadersAfter(term, head);
  if (headers[0]?.parentHash !== cursor.hash) return leaveBranch(term, memory);
  const count = Math.max(1, BLOCKS_AT_ONCE >> memory.failures);
  // a result with authorizations includes everything needed without them
  const isUsable = ahead && (ahead.wantsAuthorizations || !memory.watch.wantsAuthorizations);
  const blocks = isUsable
    ? await ahead.blocks
    : await readBlocks(term.chain, headers.slice(0, count), memory.watch);
  await commitBlocks(term, blocks, head, startedMs);
  collectAfter(blocks);
  return true;
}

async function readHeadersAfter(term: Term, head: BlockHeader): Promise<BlockHeader[]> {
  if (head.number === term.cursor.number + 1) return [head];
  const numbers = Array.from(
    { length: head.number - term.cursor.number - 1 },
    (_, index) => term.cursor.number + 1 + index,
  );
  const outcomes = await term.chain.batch(numbers.map(headerCall));
  const headers = outcomes.map((outcome, index) => {
    const header = parseHeader(need(outcome));
    if (header) return header;
    throw new RpcTransportError("not-ready", `the node does not know block ${numbers[index]}`);
  });
  const all = [...headers, head];
  assertChained(all);
  return all;
}

async function catchUpFar(term: Term, head: BlockHeader, memory: Memory): Promise<boolean> {
  const { watch, hasUndeep, needsEveryBlock } = memory;
  const sparseEnd = needsEveryBlock ? undefined : await findSparseEnd(term, head);
  if (sparseEnd === undefined) return (await catchUp(term, head, watch)) || leaveBranch(term, memory);
  // transfers that are waiting for confirmations need the very next blocks
  if (hasUndeep) return (await catchUp(term, head, watch, term.confirmations)) || leaveBranch(term, memory);
  return (await catchUpSparse(term, head, sparseEnd)) || leaveBranch(term, memory);
}

/**
 * The next block does not follow the cursor's: either that one left the chain, or nodes disagree temporarily. Throws when this
 * lasts too long, so that an operator sees why nothing is read.
 */
async function leaveBranch(term: Term, memory: Memory): Promise<boolean> {
  if (await undo(term, memory)) return true;
  const { number, hash } = term.cursor;
  if (memory.undecided?.at !== hash) memory.undecided = { at: hash, sinceMs: performance.now() };
  if (performance.now() - memory.undecided.sinceMs < UNDECIDED_MAX_MS) return false;
  throw new RpcTransportError(
    "malformed",
    `block ${number + 1} does not follow block ${number} ${hash}, and too few nodes report that this one was replaced`,
  );
}

/**
 * The head is at or below the cursor: another branch, a lagging node, or a chain that lost blocks. Only the first undoes anything, because a
 * node that is restarted or replaced by another can lag for minutes, and blocks that the chain lost are undone once others take their place.
 */
async function lookBack(term: Term, memory: Memory): Promise<boolean> {
  if (await undo(term, memory)) {
    memory.behindSinceMs = undefined;
    return true;
  }
  memory.behindSinceMs ??= performance.now();
  return false;
}

async function undo(term: Term, memory: Memory): Promise<boolean> {
  const { number } = term.cursor;
  const isUndone = await undoReorg(term);
  if (isUndone) memory.undoneTo = Math.max(memory.undoneTo, number);
  return isUndone;
}

/** Thrown after the poll's other work: what the ledger alone decides does not wait for the nodes. */
function assertNotBehind({ cursor }: Term, head: BlockHeader, { behindSinceMs }: Memory): void {
  if (behindSinceMs === undefined || performance.now() - behindSinceMs < BEHIND_MAX_MS) return;
  const { number, hash } = cursor;
  throw new RpcTransportError(
    "not-ready",
    `the newest block of the nodes, ${head.number} ${head.hash}, is not after block ${number} ${hash}, which was read: they lag, or the chain lost blocks. If a block explorer shows newer ones, change the RPC URL; lost blocks are undone once the chain has others in their place`,
  );
}

/**
 * All of them, so that none of what follows is missed, in statements of moderate size. They are watched before they are marked as joined: if the
 * response were lost, a wallet that joined without being watched would be skipped for the rest of the term.
 */
async function joinNewWallets({ sql, network, epoch, watched, signal }: Term): Promise<void> {
  let joined: number;
  do {
    const found = await findUnjoinedWallets(sql, network, JOIN_AT_ONCE);
    for (const { address } of found) watched.add(address);
    joined = await joinWallets(sql, { network, epoch, ids: found.map(({ id }) => id) });
  } while (joined === JOIN_AT_ONCE && !signal.aborted);
}

/** Reports that this leader is alive and what it has seen, while no block is committed. */
async function heartbeat(term: Term, head: BlockHeader, memory: Memory): Promise<void> {
  if (performance.now() - memory.notedMs < HEARTBEAT_MS) return;
  await noteHead(term.sql, { network: term.network, epoch: term.epoch, head });
  memory.notedMs = performance.now();
  noteProgress(term, head, head.timeS);
}

async function pollFinality(term: Term, memory: Memory): Promise<void> {
  const everyMs = memory.pollInterval.isEconomical() ? FINALITY_ECONOMICAL_MS : FINALITY_EVERY_MS;
  if (performance.now() - memory.finalityMs < everyMs) return;
  memory.finalityMs = performance.now();
  const finalized = await readHeader(term.chain, "finalized").catch(() => undefined);
  if (finalized) await noteFinalized(term.sql, { ...term, number: finalized.number });
  await pruneBlocks(term.sql, term.network);
}

/** Returns how long to wait before the next attempt. */
async function reportFailure(term: Term, memory: Memory, error: unknown): Promise<number> {
  const failures = memory.failures++;
  memory.heads.readAgain();
  memory.pollInterval.readNow();
  term.metrics.pollFailed(term.network);
  if (error instanceof RpcTransportError) term.metrics.rejectedAnswer(term.network, error.kind);
  const isHopeless = error instanceof TooDeepError;
  const failure = { network: term.network, err: error };
  if (isHopeless) memory.logFailure("error", failure, "the indexer cannot continue");
  else memory.logFailure("warn", failure, "polling the chain failed");
  const { network, epoch } = term;
  await noteError(term.sql, { network, epoch, message: toShownMessage(error) }).catch(() => undefined);
  return isHopeless
    ? RETRY_HOPELESS_MS
    : Math.min(RETRY_FIRST_MS * 2 ** Math.min(failures, 10), RETRY_MAX_MS);
}

/** Our own messages and those of the RPC pool are safe to show; database messages may contain values, but their SQLSTATE does not. */
function toShownMessage(error: unknown): string {
  const isOurs =
    error instanceof RpcTransportError || error instanceof RpcResponseError || error instanceof TooDeepError;
  if (isOurs) return error.message;
  const name = error instanceof Error ? error.name : "unknown";
  const sqlState = sqlStateOf(error);
  return `the indexer failed (${sqlState ? `${name} ${sqlState}` : name}); its log says why`;
}
