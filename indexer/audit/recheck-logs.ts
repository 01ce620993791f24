/**
 * Reads every block's logs a second time, a little later and if possible from another node: whatever a node omitted the
 * first time is booked and reported.
 */
import { authorizationKey } from "../../core/domain/authorization.ts";
import type { Hex } from "../../core/domain/networks.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { findHighestBlocks } from "../../db/ledger/blocks.ts";
import {
  findBookedLogs,
  findRecheckedNumber,
  noteRechecked,
  recordReconciliation,
} from "../../db/ledger/reconciliation.ts";
import { findFollowedSince } from "../../db/ledger/watched-wallets.ts";
import { findUnsettledFacilitated } from "../../db/payments/facilitated-payments.ts";
import { findRecordedEvents } from "../../db/wallet-ops/missed-events.ts";
import type { Term } from "../leader-term.ts";
import { applyMissedBlocks } from "../settle/apply-missed-blocks.ts";
import { type BlockHeader, headerCall, need, parseHeader } from "../source/block-header.ts";
import {
  type BlockContent,
  decodeBlock,
  followedLogs,
  type PlacedLog,
  type SpentAuthorization,
  selectFollowedLogs,
} from "../source/decode-logs.ts";
import { placeOf, placeOfSeen } from "../source/log-place.ts";
import { readRangeLogs } from "../source/range-logs.ts";
import { readProvenLogs } from "../source/verified-block.ts";
import { readProvenBlock } from "./read-proven-block.ts";

/** Blocks near the head that are not reread yet. */
const BEHIND_BLOCKS = 8;
const BLOCKS_MIN = 8;
/** With fewer blocks due, they are read only after a while. */
const BLOCKS_WORTH_READING = 64;
const REST_MS = 60_000;
const BLOCKS_MAX = 2_000;
const LOGS_WANTED = 5_000;
const DETAILS_MAX = 50;

/** After a response with omissions, this many blocks are read with proofs. */
const PROVEN_BLOCKS = 16;

/** Size of the next range, adapted to what nodes accept. Doubted: the last response omitted something that the ledger contains. */
export type RecheckProgress = { blocks: number; isDoubted?: boolean; readMs?: number };

/** A transfer or operation of one of our wallets: its position and owner. */
type SeenLog = { block: Pick<BlockHeader, "number" | "hash">; logIndex: number; wallets: readonly Hex[] };

type Answered = { answered: SeenLog[]; spent: SpentAuthorization[] };

/** Reads the next range again. False when there is none yet. */
export async function recheckLogs(term: Term, progress: RecheckProgress): Promise<boolean> {
  const { network, epoch, sql } = term;
  // both would write the cursor's row and read the same blocks; caught-up blocks are reread afterwards
  if (term.isCatchingUp) return false;
  const from = (await findRecheckedNumber(sql, network)) + 1;
  const to = await findEnd(
    term,
    from,
    Math.min(term.cursor.number - BEHIND_BLOCKS, from + progress.blocks - 1),
  );
  if (to - from + 1 < Math.min(BLOCKS_MIN, progress.blocks)) return false;
  // at the head, rereading few blocks at a time would cost as many queries as following it
  const open = term.cursor.number - BEHIND_BLOCKS - from + 1;
  const restMs = performance.now() - (progress.readMs ?? Number.NEGATIVE_INFINITY);
  if (open < BLOCKS_WORTH_READING && restMs < REST_MS) return false;
  progress.readMs = performance.now();
  const read = await (progress.isDoubted
    ? readProven(term, { from, to })
    : readAgain(term, { from, to }, progress));
  if (!read) return true;
  const { answered, spent, last } = read;
  const booked = await findRecorded(term, { from, to });
  const missing = await followedOnly(
    term,
    answered.filter((log) => !booked.has(placeOfSeen(log))),
  );
  const places = new Set(answered.map(placeOfSeen));
  const unconfirmed = [...booked].filter((place) => !places.has(place));
  const unsettled = await findUnsettled(term, spent);
  const { booked: bookedNow, settled } = await book(term, missing, unsettled);
  const repaired = bookedNow + settled.length;
  const surplus = await notOnChain(term, unconfirmed);
  const differences = repaired + surplus.length;
  await recordReconciliation(sql, {
    network,
    kind: "LOGS",
    fromBlock: from,
    toBlock: to,
    checked: answered.length,
    repaired,
    differences,
    details: [
      ...missing.map(({ block, logIndex }) => ({ missing: `${block.number}:${logIndex}` })),
      ...settled.map(({ blockNumber, transfer }) => ({ missing: `${blockNumber}:${transfer.logIndex}` })),
      ...surplus.map((place) => ({ notOnChain: place })),
    ].slice(0, DETAILS_MAX),
  });
  // the omitted records are on the chain, and there may be more omissions
  progress.isDoubted = surplus.length < unconfirmed.length;
  if (progress.isDoubted) {
    progress.blocks = Math.min(progress.blocks, PROVEN_BLOCKS);
    term.metrics.rejectedAnswer(network, "malformed");
  } else await noteRechecked(sql, { network, epoch, from, to: last });
  if (differences > 0) {
    term.log.error(
      { network, from, to, repaired, surplus: surplus.length },
      "the ledger differed from the chain",
    );
  }
  return true;
}

type SettlingTransfer = SpentAuthorization & { transfer: NonNullable<SpentAuthorization["transfer"]> };

/** The authorizations of this range that may settle a facilitated payment: it is open or FAILED, and this transfer is its own. */
async function findUnsettled(
  { sql, network, chain }: Term,
  spent: readonly SpentAuthorization[],
): Promise<SettlingTransfer[]> {
  const token = chain.network.usdc.address;
  const payments = await findUnsettledFacilitated(sql, { network, token }, spent);
  const byKey = new Map(payments.map((one) => [authorizationKey(one.payer, one.nonce), one]));
  return spent.flatMap((one) => {
    const { payer, nonce, transfer } = one;
    const payment = byKey.get(authorizationKey(payer, nonce));
    const isItsOwn = transfer?.to === payment?.recipient && transfer?.amountUnits === payment?.amountUnits;
    return payment && transfer && isItsOwn ? [{ ...one, transfer }] : [];
  });
}

/** Positions of the transfers and operations in the database. */
async function findRecorded(
  { sql, network }: Term,
  range: { from: number; to: number },
): Promise<Set<string>> {
  const [transfers, operations] = await Promise.all([
    findBookedLogs(sql, network, range),
    findRecordedEvents(sql, network, range),
  ]);
  return new Set([...transfers, ...operations].map(placeOf));
}

/** Ends at a stored block if one is far enough: its hash shows that the range was read on the cursor's branch. */
async function findEnd({ sql, network }: Term, from: number, to: number): Promise<number> {
  const [stored] = await findHighestBlocks(sql, network, { to, limit: 1 });
  return stored && stored.number - from + 1 >= BLOCKS_MIN ? stored.number : to;
}

/** Transfers and operations of our wallets in a range, and its last block, from the least used node. Undefined when there is no node. */
async function readAgain(
  term: Term,
  { from, to }: { from: number; to: number },
  progress: RecheckProgress,
): Promise<(Answered & { last: BlockHeader }) | undefined> {
  const { chain } = term;
  const { address } = chain.network.usdc;
  const node = chain.nodesByHealth().at(-1);
  if (!node) return undefined;
  const { logs, headers } = await readRangeLogs(
    chain,
    node,
    { from, to },
    {
      filters: [followedLogs(address)],
      headerCalls: [headerCall(to)],
    },
  );
  const last = parseHeader(need(headers.at(-1)));
  if (!last) throw new RpcTransportError("not-ready", `${node.label} does not know block ${to}`);
  const isSparse = logs.length < LOGS_WANTED && to - from + 1 === progress.blocks;
  if (isSparse) progress.blocks = Math.min(BLOCKS_MAX, progress.blocks * 2);
  if (logs.length > LOGS_WANTED * 2) progress.blocks = Math.max(1, progress.blocks >> 1);
  return { ...decodeByBlock(term, logs), last };
}

/** The same with proofs, block by block: read concurrently, full blocks would delay each other past their timeouts. */
async function readProven(
  term: Term,
  { from, to }: { from: number; to: number },
): Promise<Answered & { last: BlockHeader }> {
  const blocks: BlockContent[] = [];
  for (let number = from; number <= to; number++) blocks.push(await readProvenBlock(term, number));
  const last = blocks.at(-1)?.block;
  if (!last) throw new Error(`there is no block from ${from} to ${to}`);
  return { ...contentsOf(blocks), last };
}

function contentsOf(blocks: readonly BlockContent[]): Answered {
  return { answered: blocks.flatMap(logsOf), spent: blocks.flatMap(({ spent }) => spent) };
}

function logsOf({ transfers, operations }: BlockContent): SeenLog[] {
  return [
    ...transfers.map(({ block, logIndex, from, to }) => ({ block, logIndex, wallets: [from, to] })),
    ...operations.map(({ block, logIndex, sender }) => ({ block, logIndex, wallets: [sender] })),
  ];
}

function decodeByBlock(term: Term, logs: readonly PlacedLog[]): Answered {
  const byHash = new Map<string, PlacedLog[]>();
  for (const log of logs) {
    const group = byHash.get(log.blockHash);
    if (group) group.push(log);
    else byHash.set(log.blockHash, [log]);
  }
  const blocks = [...byHash.values()].flatMap((group) => {
    const own = selectFollowedLogs(group, term.chain.network.usdc.address);
    const [first] = own;
    if (!first) return [];
    // only its position is compared; missing records are read again with the whole header
    const block = { number: first.blockNumber, hash: first.blockHash } as BlockHeader;
    return decodeBlock(block, own, (wallet) => term.watched.has(wallet));
  });
  return contentsOf(blocks);
}

/** A wallet's blocks before it joined are read by its backfill, not by us. */
async function followedOnly(term: Term, logs: readonly SeenLog[]): Promise<SeenLog[]> {
  if (logs.length === 0) return [];
  const addresses = logs.flatMap(({ wallets }) => wallets);
  const since = await findFollowedSince(term.sql, term.network, [...new Set(addresses)]);
  return logs.filter(({ block, wallets }) =>
    wallets.some((address) => (since.get(address) ?? Number.POSITIVE_INFINITY) <= block.number),
  );
}

/**
 * Books missing records from the blocks' proven logs. Returns the number of transfers and operations booked, and whose payments are settled now:
 * not those that were shown here after their block.
 */
async function book(
  term: Term,
  missing: readonly SeenLog[],
  unsettled: readonly SettlingTransfer[],
): Promise<{ booked: number; settled: SettlingTransfer[] }> {
  const numbers = [
    ...new Set([
      ...missing.map(({ block }) => block.number),
      ...unsettled.map(({ blockNumber }) => blockNumber),
    ]),
  ].sort((a, b) => a - b);
  if (numbers.length === 0) return { booked: 0, settled: [] };
  const blocks: BlockContent[] = [];
  for (const number of numbers) blocks.push(await readProvenBlock(term, number));
  const keys = new Set(unsettled.map(({ payer, nonce }) => authorizationKey(payer, nonce)));
  const booked = await applyMissedBlocks(term, blocks, (address) => term.watched.has(address), keys);
  const keyOf = ({ payer, nonce }: SpentAuthorization) => authorizationKey(payer, nonce);
  const left = new Set((await findUnsettled(term, unsettled)).map(keyOf));
  const settled = unsettled.filter((one) => !left.has(keyOf(one)));
  return { booked, settled };
}

/** Booked positions that are not in their block's proven logs. */
async function notOnChain(term: Term, places: readonly string[]): Promise<string[]> {
  const hashes = new Set(places.map((place) => place.slice(0, place.indexOf(":"))));
  const wanted = new Set(places);
  const proven = new Set<string>();
  for (const hash of hashes) {
    const header = parseHeader(await term.chain.request("eth_getBlockByHash", [hash, false]));
    if (!header) throw new RpcTransportError("not-ready", `the node does not know block ${hash}`);
    const isKept = (log: PlacedLog) => wanted.has(placeOf(log));
    for (const log of await readProvenLogs(term.chain, header, isKept)) proven.add(placeOf(log));
  }
  return places.filter((place) => !proven.has(place));
}
