/**
 * Keeps a network's relayed transactions moving until blocks hold them: books receipts, sends again, raises fees, spends the nonce
 * of what has expired, notices stolen nonces and fills gaps. One worker at a time does it; any worker can.
 */
import { buildNoopCall } from "../../core/chain/relay.ts";
import { isPassedOver, keepOnly } from "../../core/domain/fee-raise.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { withWorkLock } from "../../db/postgres/exclusive-work.ts";
import { BudgetExceededError, settleCharges } from "../../db/relays/budgets.ts";
import {
  confirmRelays,
  ensureLane,
  findInFlight,
  findNonceGaps,
  findUnkeptRelays,
  type InFlightAttempt,
  type InFlightRelay,
  markLost,
  markMined,
  noteMiss,
  reopenOrphanedRelays,
  reopenRelays,
} from "../../db/relays/relays.ts";
import type { RelayerKey } from "../config.ts";
import type { Market } from "./lanes.ts";
import type { RelayNetwork } from "./network.ts";
import { findUnproven, readReceipts } from "./receipts.ts";
import type { RelayKind } from "./relay-kind.ts";
import { raiseAttempt, resendAttempt } from "./replace.ts";
import { sendAttempt, storeRelay } from "./send.ts";

/** Relays looked at together, and how often that is done in one pass: enough for hundreds of keys. */
const PAGE_RELAYS = 200;
const PAGES_MAX = 50;
/** The same bytes again after this long without a block. */
const RESEND_AFTER_MS = 2_500;
/** A first send that was not noted by now never happened, or its worker died. */
const UNSENT_AFTER_MS = 1_000;
/** Looks that must find the nonce spent and none of our attempts mined before we believe it was stolen. */
const LOST_AFTER_LOOKS = 8;
const GAPS_PER_PASS = 4;

/** One pass. Returns false when another worker keeps this network now. */
export async function monitorRelays(network: RelayNetwork): Promise<boolean> {
  const { deps, chain } = network;
  return withWorkLock(deps.sql, `keep-relays:${chain.network.id}`, async () => {
    for await (const page of inFlightPages(network)) await bookReceipts(network, page);
    await settleUp(network, await proveUnkept(network));
    const busy = new Set<string>();
    const waiting = new Set<string>();
    for await (const page of inFlightPages(network)) {
      await pushAlong(network, page);
      for (const { relayer, attempts } of page) {
        busy.add(relayer);
        for (const { txHash } of attempts) waiting.add(txHash);
      }
    }
    keepOnly(network.firstHeads, waiting);
    await fillGaps(network, busy);
    for (const kind of kindsOf(network)) await kind.enqueueWaiting?.(deps.sql, chain.network.id);
  });
}

/** Everything that no block holds, page by page: nobody waits behind a key whose transactions are stuck. */
async function* inFlightPages({ deps, chain }: RelayNetwork): AsyncGenerator<InFlightRelay[]> {
  let after: InFlightRelay | undefined;
  for (let count = 0; count < PAGES_MAX; count++) {
    const page = await findInFlight(deps.sql, chain.network.id, { after, limit: PAGE_RELAYS });
    if (page.length > 0) yield page;
    after = page.at(-1);
    if (page.length < PAGE_RELAYS) return;
  }
}

async function bookReceipts(network: RelayNetwork, inFlight: readonly InFlightRelay[]): Promise<void> {
  const { deps, chain } = network;
  const receipts = await readReceipts(chain, inFlight);
  if (receipts.length === 0) return;
  await deps.sql.begin(async (tx) => {
    await markMined(tx, receipts);
    await settleCharges(
      tx,
      receipts.map(({ relayId }) => relayId),
    );
  });
  const label = { network: chain.network.id };
  for (const receipt of receipts) {
    network.metrics.relays.inc({ ...label, outcome: receipt.succeeded ? "succeeded" : "reverted" });
    network.metrics.gasUsed.inc(label, Number(receipt.gasUsed));
    network.metrics.feeWei.inc(label, Number(receipt.feeWei));
    network.metrics.minedSeconds.observe(label, receipt.ageMs / 1000);
    deps.log.info(
      {
        ...label,
        txHash: receipt.txHash,
        block: receipt.blockNumber.toString(),
        succeeded: receipt.succeeded,
        gasUsed: receipt.gasUsed.toString(),
      },
      "relayed transaction mined",
    );
  }
}

/** A block below what the indexer keeps is the chain's only if a node still says so: its receipt may be of a branch that was left. Returns those that are. */
async function proveUnkept({ deps, chain }: RelayNetwork): Promise<bigint[]> {
  const unkept = await findUnkeptRelays(deps.sql, chain.network.id, PAGE_RELAYS);
  const unproven = new Set(await findUnproven(chain, unkept));
  if (unproven.size > 0) {
    const reopened = await reopenRelays(deps.sql, [...unproven]);
    const label = { network: chain.network.id };
    deps.log.warn({ ...label, reopened }, "blocks of relayed transactions are not the chain's");
  }
  return unkept.filter((relay) => !unproven.has(relay)).map(({ id }) => id);
}

/** What the indexer's books say of mined transactions and of windows that are over. */
async function settleUp(network: RelayNetwork, provenIds: readonly bigint[]): Promise<void> {
  const { deps, chain, confirmations } = network;
  const id = chain.network.id;
  await deps.sql.begin(async (tx) => {
    const reopened = await reopenOrphanedRelays(tx, id);
    const unsettledIds: bigint[] = [];
    for (const kind of kindsOf(network)) {
      unsettledIds.push(...((await kind.requeueUnsettled?.(tx, id, { depthBlocks: confirmations })) ?? []));
    }
    await confirmRelays(tx, id, { depthBlocks: confirmations, provenIds });
    await settleCharges(tx, unsettledIds, { areUnsettled: true });
    if (reopened > 0)
      deps.log.warn({ network: id, reopened }, "blocks of relayed transactions were reorganised away");
  });
}

/** Relays no block holds: again, dearer, or given up because their nonce is gone. Keys side by side, each in its nonces' order. */
async function pushAlong(network: RelayNetwork, inFlight: readonly InFlightRelay[]): Promise<void> {
  const market = await network.lanes.readMarket(0);
  const obsolete = await findObsolete(network, inFlight);
  const lanes = Map.groupBy(inFlight, ({ relayer }) => relayer);
  const outcomes = await Promise.allSettled(
    [...lanes.values()].map(async (relays) => {
      for (const relay of relays) {
        await pushOne(network, relay, { market, isObsolete: obsolete.has(relay.id) });
      }
    }),
  );
  const failed = outcomes.find((outcome) => outcome.status === "rejected");
  if (failed) throw failed.reason;
}

async function findObsolete(
  { deps, kinds }: RelayNetwork,
  inFlight: readonly InFlightRelay[],
): Promise<Set<bigint>> {
  const obsolete = new Set<bigint>();
  for (const [kind, relays] of Map.groupBy(inFlight, (relay) => relay.kind)) {
    const relayIds = relays.map(({ id }) => id);
    for (const id of (await kinds[kind].findObsolete?.(deps.sql, relayIds)) ?? []) obsolete.add(id);
  }
  return obsolete;
}

function kindsOf({ kinds }: RelayNetwork): RelayKind[] {
  return Object.values(kinds);
}

async function pushOne(
  network: RelayNetwork,
  relay: InFlightRelay,
  { market, isObsolete }: { market: Market; isObsolete: boolean },
): Promise<void> {
  const chainNonce = market.lanes.find(({ key }) => key.address === relay.relayer)?.chainNonce;
  if (chainNonce !== undefined && relay.nonce < chainNonce)
    return countMiss(network, relay, { ...market, chainNonce });
  const newest = relay.attempts.at(-1);
  if (!newest) return;
  // without its key (it was taken out of use) the stored bytes are all there is, as long as they are good for anything
  const canRaise = chainNonce !== undefined;
  if (!canRaise && isObsolete) return;
  const mayRaise = canRaise && isPassedOver(network.firstHeads, newest, market.headNumber);
  if (mayRaise && (await raiseAttempt(network, relay, { market, isObsolete }))) return;
  if (isDueAgain(newest)) await resendAttempt(network, relay, newest);
}

function isDueAgain({ sinceSentMs, ageMs }: InFlightAttempt): boolean {
  return sinceSentMs === null ? ageMs > UNSENT_AFTER_MS : sinceSentMs > RESEND_AFTER_MS;
}

async function countMiss(
  network: RelayNetwork,
  relay: InFlightRelay,
  { chainNonce, headNumber }: { chainNonce: bigint; headNumber: bigint },
): Promise<void> {
  const { deps, chain, kinds, spentAt } = network;
  const [receipt] = await readReceipts(chain, [relay]);
  if (receipt) {
    spentAt.delete(relay.id);
    return;
  }
  const seenAtBlock = spentAt.get(relay.id) ?? headNumber;
  spentAt.set(relay.id, seenAtBlock);
  const misses = await noteMiss(deps.sql, relay.id);
  if (misses < LOST_AFTER_LOOKS) return;
  const isLost = await deps.sql.begin(async (tx) => {
    if (!(await markLost(tx, relay.id, seenAtBlock))) return false;
    await kinds[relay.kind].requeueLost?.(tx, chain.network.id, relay.id);
    // whatever the stranger used up beyond it is not tried one by one
    await ensureLane(tx, { network: chain.network.id, relayer: relay.relayer }, chainNonce);
    await settleCharges(tx, [relay.id]);
    return true;
  });
  if (!isLost) return;
  spentAt.delete(relay.id);
  deps.log.error(
    { network: chain.network.id, relayer: relay.relayer, nonce: relay.nonce.toString() },
    "a stranger used a relayer nonce; its payments are queued again",
  );
}

/** A nonce nobody's transaction holds would stop all later ones: it is spent on nothing. */
async function fillGaps(network: RelayNetwork, busy: ReadonlySet<string>): Promise<void> {
  const { deps, chain, lanes } = network;
  const market = await lanes.readMarket();
  network.metrics.baseFeeWei.set({ network: chain.network.id }, Number(market.baseFeePerGas));
  for (const { key, chainNonce, balanceWei } of market.lanes) {
    network.metrics.balanceWei.set({ network: chain.network.id, relayer: key.address }, Number(balanceWei));
    const lane = { network: chain.network.id, relayer: key.address };
    const gaps = busy.has(key.address) ? await findNonceGaps(deps.sql, lane, chainNonce, GAPS_PER_PASS) : [];
    for (const nonce of gaps) {
      await fillGap(network, key, { fees: market.fees, nonce });
    }
  }
}

async function fillGap(
  { deps, chain }: RelayNetwork,
  key: RelayerKey,
  { fees, nonce }: { fees: Market["fees"]; nonce: bigint },
): Promise<void> {
  const label = { network: chain.network.id, relayer: key.address, nonce: nonce.toString() };
  const call = buildNoopCall(key.address);
  const dailyFeeMaxWei = deps.config.relayDailyFeeMaxWei;
  try {
    const relay = await deps.sql.begin((tx) =>
      storeRelay(tx, chain, key, { kind: "NOOP", call, fees, nonce, dailyFeeMaxWei }),
    );
    await sendAttempt(deps, chain, relay);
    deps.log.warn(label, "filled a nonce gap");
  } catch (error) {
    if (!(error instanceof BudgetExceededError)) throw error;
    deps.log.error({ ...label, err: error }, "the day's fee budget leaves no room to fill a nonce gap");
  }
}

/** Then the next pass will do. */
export function isNodeUnavailable(error: unknown): boolean {
  return error instanceof RpcTransportError;
}
