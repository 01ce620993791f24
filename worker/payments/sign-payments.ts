/**
 * Signs simulated payments as soon as their links are known to be unpaid: the ledger must have read the blocks they were simulated on, and
 * nothing else may have paid their links. Payments that come too early are held until the indexer's next notification; others don't wait for
 * them.
 */
import { buildPaymentsCall, contractPayerGas, paymentsGas } from "../../core/chain/relay.ts";
import { RpcTransportError } from "../../core/rpc/errors.ts";
import {
  checkUnpaidBeforeSigning,
  lockForSigning,
  type SigningVerdict,
  type SimulationHead,
} from "../../db/payments/check-unpaid-before-signing.ts";
import { type LeasedPayment, markSigned } from "../../db/payments/queue.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { BudgetExceededError } from "../../db/relays/budgets.ts";
import { takeNonce } from "../../db/relays/nonces.ts";
import type { RelayerKey } from "../relayer-keys-env.ts";
import { HEAD_VALID_MS, type SignedRelay, sendAttempt, storeRelay } from "../sender/send-relay.ts";
import { type SigningKey, signAndCommit } from "../sender/sign-and-commit.ts";
import { traceRelay } from "../sender/trace-relay.ts";
import { chargesOf, refuseOverBudget } from "./payment-budgets.ts";
import type { PaymentNetwork } from "./payment-network.ts";
import type { Relayable } from "./relay-items.ts";
import {
  failUnlessUsed,
  handleUnavailable,
  releaseLeases,
  UNAVAILABLE_AFTER_MS,
} from "./retry-or-fail-payments.ts";

/** After this the lease is released and the payment is simulated again. */
const HOLD_MS = 2_000;
/** The same without the node's logs of the unread blocks, which the next simulation requests. */
const HOLD_BLIND_MS = 500;
/** Fallback for notifications lost with their connection, and for wallets that were just backfilled. */
const POLL_MS = 250;
/**
 * Maximum age of fees and balances for signing. A drain reads them before simulating, because a slow node between simulation
 * and signature would use up the time for which the head is valid.
 */
export const SIGNING_MARKET_MS = 10_000;

/** Signs and sends what may be signed now and holds the rest. Sends still waiting for a node's response are added to `sending`. */
export async function signPayments(
  network: PaymentNetwork,
  key: RelayerKey,
  batch: Batch,
  sending: Promise<void>[],
): Promise<void> {
  const { passed, simulationHead } = batch;
  const ready = isTooEarly(network, passed, simulationHead) ? [] : passed;
  const later =
    ready.length > 0 ? await signAndSend(network, key, { ...batch, passed: ready }, sending) : passed;
  if (later.length > 0) hold(network, { ...batch, passed: later });
}

/** Uses the available hints to avoid a transaction that would sign nothing. */
function isTooEarly(
  { ledger }: PaymentNetwork,
  passed: readonly Relayable[],
  simulationHead: SimulationHead,
): boolean {
  const readNumber = passed[0]?.payment.readNumber ?? -1n;
  const isBehind = ledger.readNumber < simulationHead.headNumber && readNumber < simulationHead.headNumber;
  return (
    isBehind && simulationHead.unread === undefined && passed.every(({ payment }) => payment.linkId !== null)
  );
}

/** `implementation`: of a contract payer whose code is not known to be harmless. */
type Batch = {
  passed: readonly Relayable[];
  simulationHead: SimulationHead;
  /** When the node of simulationHead was queried, by `performance.now()`. */
  askedAtMs: number;
  implementation?: string | undefined;
};

/** Returns the payments that are too early. */
async function signAndSend(
  network: PaymentNetwork,
  key: RelayerKey,
  batch: Batch,
  sending: Promise<void>[],
): Promise<Relayable[]> {
  const { deps, chain } = network;
  const { passed } = batch;
  const startMs = Date.now();
  const { relay, judgedAtMs, verdicts, overBudget } = await sign(network, key, batch);
  const having = (wanted: SigningVerdict) =>
    passed.filter(({ payment }) => (verdicts.get(payment.id) ?? "gone") === wanted);
  const gone = having("gone");
  if (gone.length > 0) {
    const paymentIds = gone.map(({ payment }) => payment.id);
    deps.log.warn({ network: chain.network.id, paymentIds }, "payments were taken by another worker");
  }
  if (relay) {
    recordRelayed(network, key, relay, having("free"));
    const subjects = having("free").map(({ payment }) => payment);
    const sent = sendAttempt(deps, chain, { ...relay, judgedAtMs });
    sending.push(traceRelay(network, relay, { subjects, startMs, sent }));
  }
  if (overBudget) {
    const payments = having("free").map(({ payment }) => payment);
    await refuseOverBudget(network, payments, overBudget);
  }
  const paid = having("paid").map(({ payment }) => ({ payment, reason: "LINK_ALREADY_PAID" }));
  await failUnlessUsed(network, paid);
  return having("early");
}

/** Thrown to roll back, so that no nonce is wasted. */
class NothingFreeError extends Error {
  readonly verdicts: Map<string, SigningVerdict>;
  constructor(verdicts: Map<string, SigningVerdict>) {
    super("none of the payments may be signed now");
    this.verdicts = verdicts;
  }
}

/** Without `relay` nothing was stored; `overBudget`: because a budget has no room for the signable ones. */
type Signing = {
  relay?: SignedRelay;
  /** When the node was queried for the head that permitted signing, by `performance.now()`. */
  judgedAtMs?: number;
  verdicts: Map<string, SigningVerdict>;
  overBudget?: BudgetExceededError;
};

/** Commits nonce, signed bytes and hash of one transaction for all payments that may be signed; without `relay` there were none. */
async function sign(network: PaymentNetwork, key: RelayerKey, batch: Batch): Promise<Signing> {
  const { deps, chain, lanes } = network;
  const { passed, implementation } = batch;
  const { fees } = await lanes.readMarket(SIGNING_MARKET_MS);
  let known = new Map<string, SigningVerdict>();
  const lane = { network: chain.network.id, relayer: key.address };
  const paymentIds = passed.map(({ payment }) => payment.id);
  try {
    const work = async (tx: Tx, signing: SigningKey) => {
      const judged = judgedBy(network, key, batch);
      // the verdicts are read after the locks are held, by statement order on the connection
      const [, verdicts, nonce] = await Promise.all([
        lockForSigning(tx, paymentIds),
        checkUnpaidBeforeSigning(tx, judged.simulationHead, { paymentIds, state: "QUEUED" }),
        takeNonce(tx, lane),
      ]);
      known = verdicts;
      const free = passed.filter(({ payment }) => verdicts.get(payment.id) === "free");
      if (free.length === 0) throw new NothingFreeError(verdicts);
      const call = buildPaymentsCall(
        chain.network,
        free.map(({ item }) => item),
      );
      const charges = chargesOf(
        free.map(({ payment }) => payment),
        { gas: call.gas, implementation, limits: deps.config },
      );
      const relay = await storeRelay(tx, chain, signing, {
        ...{ kind: "PAYMENTS", call, fees, nonce, dailyFeeMaxWei: deps.config.relayDailyFeeMaxWei },
        bind: async (tx, relayId) => {
          await bindPayments(tx, relayId, { payments: free.map(({ payment }) => payment), verdicts });
          return charges;
        },
      });
      // checked last, since waiting for locks may have taken time
      if (performance.now() - judged.askedAtMs <= HEAD_VALID_MS)
        return { relay, verdicts, judgedAtMs: judged.askedAtMs };
      for (const { payment } of free) verdicts.set(payment.id, "early");
      throw new NothingFreeError(verdicts);
    };
    return await signAndCommit(network, key, work, { afterSigning: () => lanes.readMarket(0) });
  } catch (error) {
    if (error instanceof NothingFreeError) return { verdicts: error.verdicts };
    if (error instanceof BudgetExceededError) return { verdicts: known, overBudget: error };
    throw error;
  }
}

/**
 * The head against which payments are checked, and when it was requested. A remote signer may take seconds, during which blocks arrive that the
 * simulation did not see: then the ledger must have read the newest known head, and earlier node data about unread blocks is too old to
 * substitute for it.
 */
function judgedBy(
  { lanes }: PaymentNetwork,
  key: RelayerKey,
  { simulationHead, askedAtMs }: Batch,
): { simulationHead: SimulationHead; askedAtMs: number } {
  if ("privateKey" in key) return { simulationHead, askedAtMs };
  const market = lanes.lastMarket();
  if (!market || market.headNumber < simulationHead.headNumber)
    return { simulationHead: { ...simulationHead, unread: undefined }, askedAtMs };
  return {
    simulationHead: {
      ...simulationHead,
      headNumber: market.headNumber,
      headHash: market.headHash,
      unread: undefined,
    },
    askedAtMs: market.askedAtMs,
  };
}

/** Throws NothingFreeError when another worker has one of them, because a facilitated payment's row is only locked now. */
async function bindPayments(
  tx: Tx,
  relayId: bigint,
  { payments, verdicts }: { payments: readonly LeasedPayment[]; verdicts: Map<string, SigningVerdict> },
): Promise<void> {
  const bound = new Set(await markSigned(tx, relayId, payments));
  if (bound.size === payments.length) return;
  for (const { id } of payments) verdicts.set(id, bound.has(id) ? "early" : "gone");
  throw new NothingFreeError(verdicts);
}

function recordRelayed(
  { deps, chain, metrics }: PaymentNetwork,
  key: RelayerKey,
  relay: SignedRelay,
  relayables: readonly Relayable[],
): void {
  deps.log.info(
    {
      network: chain.network.id,
      txHash: relay.txHash,
      relayer: key.address,
      nonce: relay.nonce.toString(),
      paymentIds: relayables.map(({ payment }) => payment.id),
      requestIds: relayables.map(({ payment }) => payment.requestId),
    },
    "relaying payments",
  );
  const label = { network: chain.network.id };
  metrics.batchSize.observe(label, relayables.length);
  for (const { payment } of relayables) {
    metrics.broadcastSeconds.observe(label, (Date.now() - payment.createdAt.getTime()) / 1000);
  }
}

/** Runs concurrently with the drain, so that payments that need nothing from the indexer proceed. */
function hold(network: PaymentNetwork, batch: Batch): void {
  const held = waitAndSign(network, batch)
    .catch((error) => {
      const networkId = network.chain.network.id;
      network.deps.log.error(
        { network: networkId, err: error },
        "signing leased payments failed; their leases will expire",
      );
    })
    .finally(() => network.held.delete(held));
  network.held.add(held);
}

async function waitAndSign(network: PaymentNetwork, batch: Batch): Promise<void> {
  const { ledger, metrics } = network;
  const { passed, simulationHead } = batch;
  const startedMs = performance.now();
  const untilMs = Math.min(
    startedMs + (simulationHead.unread ? HOLD_MS : HOLD_BLIND_MS),
    batch.askedAtMs + HEAD_VALID_MS,
    ...passed.map((relayable) => startedMs + untilGivenUpMs(relayable)),
  );
  const label = { network: network.chain.network.id };
  const sending: Promise<void>[] = [];
  let waiting = passed;
  let why = "the indexer has not read the blocks that payments were simulated on";
  try {
    while (waiting.length > 0 && !ledger.isClosed && performance.now() < untilMs) {
      const isNotified = await ledger.nextBlock(POLL_MS);
      if (isNotified && ledger.readNumber < simulationHead.headNumber) continue;
      const key = ledger.isClosed ? "closed" : await network.lanes.choose(gasOf(waiting), SIGNING_MARKET_MS);
      if (typeof key === "string") continue;
      const before = waiting.length;
      waiting = await signAndSend(network, key, { ...batch, passed: waiting }, sending);
      metrics.signingWaits.inc({ ...label, outcome: "signed" }, before - waiting.length);
    }
  } catch (error) {
    if (!(error instanceof RpcTransportError)) throw error;
    why = error.message;
  }
  await Promise.all(sending);
  if (waiting.length === 0) return;
  const payments = waiting.map(({ payment }) => payment);
  if (ledger.isClosed) return releaseLeases(network, payments, 0);
  metrics.signingWaits.inc({ ...label, outcome: "returned" }, waiting.length);
  await handleUnavailable(network, payments, {
    ...{ why, triedMs: performance.now() - startedMs },
    ...(simulationHead.unread ? {} : { delayMs: 0 }),
  });
}

/** The time left until its caller gets a retryable error, unless it is signed by then. */
function untilGivenUpMs({ payment: { unavailableSince } }: Relayable): number {
  return unavailableSince === null
    ? Number.POSITIVE_INFINITY
    : unavailableSince.getTime() + UNAVAILABLE_AFTER_MS - Date.now();
}

function gasOf(relayables: readonly Relayable[]): bigint {
  const [first] = relayables;
  return first?.item.isContract ? contractPayerGas(first.item) : paymentsGas(relayables.length);
}
