/**
 * Keeps a network's relayed transactions moving until blocks hold them: books receipts, sends again, raises fees, spends the nonce
 * of what has expired, notices stolen nonces and fills gaps. One worker at a time does it; any worker can.
 */
import { buildNoopCall } from "../../core/chain/relay.ts";
import { RpcTransportError } from "../../core/chain/rpc-errors.ts";
import { withWorkLock } from "../../db/locks.ts";
import { nextQueuedInMs, requeueExpired, requeueUnsettled } from "../../db/payment-queue.ts";
import { enqueue } from "../../db/queue.ts";
import {
  confirmRelays,
  ensureLane,
  findInFlight,
  findNonceGaps,
  type InFlightAttempt,
  type InFlightRelay,
  markLost,
  markMined,
  noteMiss,
  reopenOrphanedRelays,
} from "../../db/relays.ts";
import type { RelayNetwork } from "./network.ts";
import { readReceipts } from "./receipts.ts";
import { raiseAttempt, resendAttempt } from "./replace.ts";
import { sendAttempt, storeRelay } from "./send.ts";

const IN_FLIGHT_LIMIT = 200;
/** The same bytes again after this long without a block. */
const RESEND_AFTER_MS = 2_500;
/** Dearer bytes for the same nonce after this long. */
const RAISE_AFTER_MS = 6_000;
/** A first send that was not noted by now never happened, or its worker died. */
const UNSENT_AFTER_MS = 1_000;
/** Looks that must find the nonce spent and none of our attempts mined before we believe it was stolen. */
const LOST_AFTER_LOOKS = 8;
const GAPS_PER_PASS = 4;

/** One pass. Returns false when another worker keeps this network now. */
export async function keepRelays(network: RelayNetwork): Promise<boolean> {
  const { deps, chain } = network;
  return withWorkLock(deps.sql, `keep-relays:${chain.network.id}`, async () => {
    await bookReceipts(network);
    const inFlight = await findInFlight(deps.sql, chain.network.id, IN_FLIGHT_LIMIT);
    if (inFlight.length > 0) await pushAlong(network, inFlight);
    await fillGaps(network, inFlight);
    await callForQueued(network);
  });
}

async function bookReceipts(network: RelayNetwork): Promise<void> {
  const { deps, chain } = network;
  const id = chain.network.id;
  const inFlight = await findInFlight(deps.sql, id, IN_FLIGHT_LIMIT);
  const receipts = await readReceipts(chain, inFlight);
  await deps.sql.begin(async (tx) => {
    if (receipts.length > 0) await markMined(tx, receipts);
    const reopened = await reopenOrphanedRelays(tx, id);
    const expired = await requeueExpired(tx, id, network.confirmations);
    const requeued = [...expired, ...(await requeueUnsettled(tx, id))];
    if (requeued.length > 0) await enqueue(tx, "relay_payments", { network: id });
    await confirmRelays(tx, id, network.confirmations);
    if (reopened > 0)
      deps.log.warn({ network: id, reopened }, "blocks of relayed transactions were reorganised away");
    if (requeued.length > 0) {
      deps.log.warn(
        { network: id, paymentIds: requeued.map((row) => row.id) },
        "payments not settled by their block, or in time",
      );
    }
  });
  for (const receipt of receipts) {
    const label = { network: id };
    network.metrics.relays.inc({ ...label, outcome: receipt.succeeded ? "succeeded" : "reverted" });
    network.metrics.gasUsed.inc(label, Number(receipt.gasUsed));
    network.metrics.feeWei.inc(label, Number(receipt.feeWei));
    network.metrics.minedSeconds.observe(label, receipt.ageMs / 1000);
    deps.log.info(
      {
        network: id,
        txHash: receipt.txHash,
        block: receipt.blockNumber.toString(),
        succeeded: receipt.succeeded,
        gasUsed: receipt.gasUsed.toString(),
      },
      "relayed transaction mined",
    );
  }
}

/** Relays no block holds: again, dearer, or given up because their nonce is gone. */
async function pushAlong(network: RelayNetwork, inFlight: readonly InFlightRelay[]): Promise<void> {
  const market = await network.lanes.readMarket(0);
  const chainNonces = new Map(market.lanes.map((lane) => [lane.key.address, lane.chainNonce]));
  for (const relay of inFlight) {
    const chainNonce = chainNonces.get(relay.relayer);
    if (chainNonce !== undefined && relay.nonce < chainNonce) {
      await countMiss(network, relay, chainNonce);
      continue;
    }
    const newest = relay.attempts.at(-1);
    if (!newest) continue;
    // without its key (it was taken out of use) the stored bytes are all there is
    const canRaise = chainNonce !== undefined;
    if (canRaise && newest.ageMs > RAISE_AFTER_MS) await raiseAttempt(network, relay, market);
    else if (isDueAgain(newest)) await resendAttempt(network, relay, newest);
  }
}

function isDueAgain({ sinceSentMs, ageMs }: InFlightAttempt): boolean {
  return sinceSentMs === null ? ageMs > UNSENT_AFTER_MS : sinceSentMs > RESEND_AFTER_MS;
}

async function countMiss(network: RelayNetwork, relay: InFlightRelay, chainNonce: bigint): Promise<void> {
  const { deps, chain } = network;
  const [receipt] = await readReceipts(chain, [relay]);
  if (receipt) return;
  const misses = await noteMiss(deps.sql, relay.id);
  if (misses < LOST_AFTER_LOOKS) return;
  await deps.sql.begin(async (tx) => {
    await markLost(tx, relay.id);
    // whatever the stranger used up beyond it is not tried one by one
    await ensureLane(tx, { network: chain.network.id, relayer: relay.relayer }, chainNonce);
    await enqueue(tx, "relay_payments", { network: chain.network.id });
  });
  deps.log.error(
    { network: chain.network.id, relayer: relay.relayer, nonce: relay.nonce.toString() },
    "a stranger used a relayer nonce; its payments are queued again",
  );
}

/** A nonce nobody's transaction holds would stop all later ones: it is spent on nothing. */
async function fillGaps(network: RelayNetwork, inFlight: readonly InFlightRelay[]): Promise<void> {
  const { deps, chain, lanes } = network;
  const market = await lanes.readMarket();
  for (const { key, chainNonce, balanceWei } of market.lanes) {
    network.metrics.balanceWei.set({ network: chain.network.id, relayer: key.address }, Number(balanceWei));
    const lane = { network: chain.network.id, relayer: key.address };
    const hasLater = inFlight.some((relay) => relay.relayer === key.address);
    const gaps = hasLater ? await findNonceGaps(deps.sql, lane, chainNonce, GAPS_PER_PASS) : [];
    for (const nonce of gaps) {
      const call = buildNoopCall(key.address);
      const relay = await storeRelay(deps.sql, chain, key, { kind: "NOOP", call, fees: market.fees, nonce });
      await sendAttempt(deps, chain, relay);
      deps.log.warn({ ...lane, nonce: nonce.toString() }, "filled a nonce gap");
    }
  }
}

/** Queued payments whose job is gone or done get a new one: a job is a bell, the row is the truth. */
async function callForQueued({ deps, chain }: RelayNetwork): Promise<void> {
  const waitMs = await nextQueuedInMs(deps.sql, chain.network.id);
  if (waitMs === undefined) return;
  await enqueue(
    deps.sql,
    "relay_payments",
    { network: chain.network.id },
    waitMs > 0 ? { runAt: new Date(Date.now() + waitMs) } : {},
  );
}

/** Is this only the node being away? Then the next pass will do. */
export function isNodeAway(error: unknown): boolean {
  return error instanceof RpcTransportError;
}
