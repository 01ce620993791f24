/**
 * Drains a network's queued payments: lease, simulate, sign and store, send. Payers with keys share one transaction; each payer with code
 * gets its own transaction with a tight gas limit. While one batch is being sent the next one fills, so batches grow with load.
 */
import { findUnknownImplementations } from "../../core/chain/account-implementation.ts";
import { readCode } from "../../core/chain/accounts-with-code.ts";
import { contractPayerGas, paymentsGas } from "../../core/chain/relay.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import { type Drain, releaseDrainLease, takeDrainLease } from "../../db/payments/drain-lease.ts";
import { type LeasedPayment, leaseQueuedPayments } from "../../db/payments/queue.ts";
import type { RelayerKey } from "../relayer-keys-env.ts";
import type { Lanes, NoLane } from "../sender/relayer-lanes.ts";
import { gatherBatch } from "./gather-batch.ts";
import { explainNoLane, limitReached, splitByBudget } from "./payment-budgets.ts";
import type { PaymentNetwork } from "./payment-network.ts";
import { toRelayable } from "./relay-items.ts";
import {
  failUnlessUsed,
  handleRefusals,
  handleUnavailable,
  rejectBeforeSimulation,
  releaseLeases,
} from "./retry-or-fail-payments.ts";
import { SIGNING_MARKET_MS, signPayments } from "./sign-payments.ts";
import { type Simulated, simulateLeasedPayments } from "./simulate-payments.ts";

/** A lease covers simulation, signing and storing; when it expires, a crashed worker's payments are released. */
const LEASE_MS = 5_000;
/** Renewed for each batch. How long a dead or hanging worker can block others. */
const DRAIN_LEASE_MS = 1_000;
const HOLDER = crypto.randomUUID();
/** After this a drain ends even if the queue is not empty, because a stopping worker waits for it. Newly queued payments wake a worker again. */
const DRAIN_MAX_MS = 2_000;
const BUSY_RETRY_MS = 100;
/** Interval and maximum number of checks whether transactions relying on this drain have ended; one may belong to a frozen process. */
const AWAITED_RETRY_MS = 10;
const AWAITED_MAX = 50;
/** Poll interval of a drain on a busy network while nothing is due. */
const KEPT_RETRY_MS = 25;

/** Runs until nothing is due or DRAIN_MAX_MS has passed. Returns early when every lane is full: mined blocks make room and wake it again. */
export async function drainPayments(network: PaymentNetwork): Promise<void> {
  const { deps, chain } = network;
  const sending: Promise<void>[] = [];
  const drain: Drain = {
    ...{ network: chain.network.id, holder: HOLDER, leaseMs: DRAIN_LEASE_MS },
    batchMax: deps.config.relayBatchMax,
  };
  await relayQueued(network, drain, sending);
  await Promise.all(sending);
}

/** Until nothing is due, or another worker drains. */
async function relayQueued(network: PaymentNetwork, drain: Drain, sending: Promise<void>[]): Promise<void> {
  const { deps, chain, timing } = network;
  const endMs = performance.now() + DRAIN_MAX_MS;
  let isOver = false;
  let awaited = 0;
  try {
    while (performance.now() < endMs && awaited < AWAITED_MAX) {
      const turn = await takeDrainLease(deps.asyncCommitSql, drain, { staysOn: timing.isBusy() });
      if (turn === "busy") timing.noteDrainedElsewhere();
      isOver = turn === "idle" || turn === "busy";
      if (isOver) break;
      if (turn === "released") continue;
      if (turn === "kept") {
        await Bun.sleep(KEPT_RETRY_MS);
        continue;
      }
      if (turn === "awaited") {
        awaited += 1;
        await Bun.sleep(AWAITED_RETRY_MS);
        continue;
      }
      awaited = 0;
      const gatherMs = turn === "full" ? 0 : timing.gatherMs(turn === "pending");
      if (gatherMs > 0) await gatherBatch(network, drain, { gatherMs, answered: timing.lastBatch() });
      const leased = await leaseQueuedPayments(
        deps.asyncCommitSql,
        chain.network.id,
        deps.config.relayBatchMax,
        LEASE_MS,
      );
      if (leased.length === 0) break;
      timing.noteBatch(leased.length);
      const startedMs = Date.now();
      try {
        if (!(await relayLeased(network, leased, sending))) break;
      } catch (error) {
        if (!(error instanceof RpcTransportError)) throw error;
        await handleUnavailable(network, leased, { why: error.message, triedMs: Date.now() - startedMs });
      }
    }
  } finally {
    if (!isOver) await releaseDrainLease(deps.asyncCommitSql, drain);
  }
}

/** False when there was no room to send. */
async function relayLeased(
  network: PaymentNetwork,
  leased: readonly LeasedPayment[],
  sending: Promise<void>[],
): Promise<boolean> {
  const { deps, lanes } = network;
  const { headTimeS, isStalled, headAgeS } = await lanes.readMarket();
  const { sound: screened, failures } = rejectBeforeSimulation(leased, headTimeS);
  const { within: sound, spent, held, heldText } = splitByBudget(screened, deps.config);
  await failUnlessUsed(network, [...failures, ...spent]);
  if (held.length > 0) await handleUnavailable(network, held, { ...limitReached(heldText), triedMs: 0 });
  if (sound.length === 0) return true;
  if (isStalled) {
    const why = `the node's newest block is ${Math.round(headAgeS)} s old: the node may not be following the chain (RELAY_HEAD_MAX_AGE_S)`;
    await handleUnavailable(network, sound, { why, triedMs: 0 });
    return true;
  }
  const lane = await selectLane(lanes, sound.length);
  if (typeof lane === "string") return deferPayments(network, sound, lane);
  const keyed = sound.filter(({ payerKind }) => payerKind === "EOA");
  const coded = sound.filter(({ payerKind }) => payerKind === "CONTRACT");
  coded.push(
    ...(await relayTogether(
      network,
      lane,
      keyed.filter(({ alone }) => !alone),
      sending,
    )),
  );
  let hasRoom = true;
  for (const payment of keyed.filter(({ alone }) => alone)) {
    const single = await selectLane(lanes, 1);
    if (typeof single === "string") hasRoom = (await deferPayments(network, [payment], single)) && hasRoom;
    else coded.push(...(await relayTogether(network, single, [payment], sending)));
  }
  return (await relayContracts(network, lane.key, coded, sending)) && hasRoom;
}

/**
 * One transaction for as many of them as the lane can pay for; the others are released immediately. Returns those whose payers have code: the token
 * calls such a payer (ERC-1271), which may burn any amount of gas, so they never share a transaction.
 */
async function relayTogether(
  network: PaymentNetwork,
  { key, count }: Lane,
  payments: readonly LeasedPayment[],
  sending: Promise<void>[],
): Promise<LeasedPayment[]> {
  await releaseLeases(network, payments.slice(count), 0);
  const coded: LeasedPayment[] = [];
  let relayables = payments.slice(0, count).map((payment) => toRelayable(payment, { isContract: false }));
  while (relayables.length > 0) {
    const simulated = await simulateLeasedPayments(network, key, relayables);
    if (simulated.coded.length === 0) {
      await relaySimulated(network, key, simulated, sending);
      break;
    }
    coded.push(...simulated.coded.map(({ payment }) => payment));
    relayables = relayables.filter((relayable) => !simulated.coded.includes(relayable));
  }
  return coded;
}

/** Signs first, because the node requests for refusals would make the head too old. A failing signer must not keep refused payers waiting. */
async function relaySimulated(
  network: PaymentNetwork,
  key: RelayerKey,
  simulated: Simulated,
  sending: Promise<void>[],
): Promise<void> {
  try {
    await signPayments(network, key, simulated, sending);
  } finally {
    await handleUnsigned(network, [simulated]);
  }
}

/** Simulated concurrently, then relayed one by one, each by whichever key has room. */
async function relayContracts(
  network: PaymentNetwork,
  simulator: RelayerKey,
  payments: readonly LeasedPayment[],
  sending: Promise<void>[],
): Promise<boolean> {
  if (payments.length === 0) return true;
  const implementations = await identifyPayers(network.chain, payments);
  const simulated = await Promise.all(
    payments.map((payment) =>
      simulateLeasedPayments(network, simulator, [toRelayable(payment, { isContract: true })]),
    ),
  );
  let hasRoom = true;
  try {
    for (const [index, { passed, simulationHead, askedAtMs }] of simulated.entries()) {
      const [relayable] = passed;
      if (!relayable) continue;
      const key = await network.lanes.choose(contractPayerGas(relayable.item), SIGNING_MARKET_MS);
      if (typeof key === "string")
        hasRoom = (await deferPayments(network, [relayable.payment], key)) && hasRoom;
      else {
        const implementation = implementations[index];
        await signPayments(network, key, { passed, simulationHead, askedAtMs, implementation }, sending);
      }
    }
  } finally {
    await handleUnsigned(network, simulated);
  }
  return hasRoom;
}

/** Handles what is not signed now: refused by the chain, or waiting for the ledger to settle an earlier payment of its link. */
async function handleUnsigned(network: PaymentNetwork, simulated: readonly Simulated[]): Promise<void> {
  await handleRefusals(
    network,
    simulated.flatMap(({ refused }) => refused),
  );
  const undecided = simulated.flatMap((one) => one.undecided.map(({ payment }) => payment));
  if (undecided.length === 0) return;
  const why = "an earlier payment of the link was executed and is not settled in the ledger yet";
  await handleUnavailable(network, undecided, { why, triedMs: 0 });
}

/** A key, and how many payments it can pay for in one transaction. */
type Lane = { key: RelayerKey; count: number };

/** A key for `count` payments together, or for half of them, and so on: a low balance, or the rest of a day's budget, still pays for a few. */
async function selectLane(lanes: Lanes, count: number): Promise<Lane | NoLane> {
  const key = await lanes.choose(paymentsGas(count));
  if (typeof key !== "string") return { key, count };
  const mayFitHalf = key === "insufficient_gas_funds" || key === "daily_budget_exhausted";
  return mayFitHalf && count > 1 ? selectLane(lanes, count >> 1) : key;
}

/** False when only room is missing, which mined blocks free up. */
async function deferPayments(
  network: PaymentNetwork,
  payments: readonly LeasedPayment[],
  why: NoLane,
): Promise<boolean> {
  if (why === "lanes_full") await releaseLeases(network, payments, BUSY_RETRY_MS);
  else await handleUnavailable(network, payments, { ...(await explainNoLane(network, why)), triedMs: 0 });
  return why !== "lanes_full";
}

/** The implementation of each payer with code, in order; undefined for a known one. */
async function identifyPayers(
  chain: Chain,
  payments: readonly LeasedPayment[],
): Promise<(string | undefined)[]> {
  const codes = await readCode(
    chain,
    payments.map(({ payer }) => payer),
  );
  return findUnknownImplementations(
    chain,
    payments.map(({ payer, signature }, index) => ({
      address: payer,
      code: codes[index] ?? "0x",
      signature,
    })),
  );
}
