/**
 * Drains a network's queued payments: lease, simulate, sign and store, send. Payers with keys go together in one transaction,
 * payers with code alone and with a tight gas limit. While one batch is on its way the next gathers, so load makes batches.
 */
import type { Chain } from "../../core/chain/clients.ts";
import {
  buildPaymentsCall,
  contractPayerGas,
  paymentsGas,
  type RelayItem,
  type SimulationResult,
  simulatePayments,
} from "../../core/chain/relay.ts";
import { RpcTransportError } from "../../core/chain/rpc-errors.ts";
import { NO_LINK_TAG } from "../../core/domain/link-tag.ts";
import { type LeasedPayment, leaseQueuedPayments } from "../../db/payment-queue.ts";
import type { RelayerKey } from "../config.ts";
import type { Lanes } from "./lanes.ts";
import type { RelayNetwork } from "./network.ts";
import { endUnlessUsed, giveBack, handleRefusals, handleUnavailable } from "./refusals.ts";
import { screenPayments } from "./screen.ts";
import { LeaseLostError, sendAttempt, storeRelay } from "./send.ts";

/** A lease covers simulation, signing and storing; after it a crashed worker's payments are free again. */
const LEASE_MS = 5_000;
const ROUNDS_MAX = 200;
const BUSY_RETRY_MS = 100;

/** Works until nothing is due. Returns early when every lane is full: mined blocks make room and ring again. */
export async function drainPayments(network: RelayNetwork): Promise<void> {
  const { deps, chain } = network;
  const sending: Promise<void>[] = [];
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const leased = await leaseQueuedPayments(
      deps.notes,
      chain.network.id,
      deps.config.relayBatchMax,
      LEASE_MS,
    );
    if (leased.length === 0) break;
    const startedMs = Date.now();
    try {
      if (!(await relayLeased(network, leased, sending))) break;
    } catch (error) {
      if (!(error instanceof RpcTransportError)) throw error;
      await handleUnavailable(network, leased, { why: error.message, triedMs: Date.now() - startedMs });
    }
  }
  await Promise.all(sending);
}

/** False when there was no room to send. */
async function relayLeased(
  network: RelayNetwork,
  leased: readonly LeasedPayment[],
  sending: Promise<void>[],
): Promise<boolean> {
  const { chain, lanes } = network;
  const { headTimeS } = await lanes.readMarket();
  const { sound, failures } = screenPayments(leased, headTimeS);
  await endUnlessUsed(network, failures);
  if (sound.length === 0) return true;
  const key = await lanes.choose(paymentsGas(1));
  if (typeof key === "string") return turnAway(network, sound, key);
  const { together, alone, contracts } = await splitByCode(chain, sound);
  const groups = [together, ...alone.map((payment) => [payment])].filter((group) => group.length > 0);
  let hasRoom = true;
  for (const group of groups) hasRoom = (await relayTogether(network, group, sending)) && hasRoom;
  return (await relayContracts(network, key, contracts, sending)) && hasRoom;
}

/** One transaction for as many of them as a key can pay for; the others are free again at once. */
async function relayTogether(
  network: RelayNetwork,
  payments: readonly LeasedPayment[],
  sending: Promise<void>[],
): Promise<boolean> {
  const place = await findPlace(network.lanes, payments.length);
  if (typeof place === "string") return turnAway(network, payments, place);
  const { key, count } = place;
  await giveBack(network, payments.slice(count), 0);
  const chosen = payments.slice(0, count);
  const results = await simulatePayments(network.chain, key.address, chosen.map(toItem));
  const { passed, refused } = sortResults(chosen, results);
  await handleRefusals(network, refused);
  if (passed.length === 0) return true;
  const call = buildPaymentsCall(network.chain.network, passed.map(toItem));
  await storeAndSend(network, key, passed, { ...call, gas: paymentsGas(passed.length) }, sending);
  return true;
}

/** Asked all at once, relayed one by one, each by whichever key has room then. */
async function relayContracts(
  network: RelayNetwork,
  asker: RelayerKey,
  payments: readonly LeasedPayment[],
  sending: Promise<void>[],
): Promise<boolean> {
  const items = payments.map((payment) => ({ ...toItem(payment), isContract: true }));
  const results = await Promise.all(
    items.map((item) => simulatePayments(network.chain, asker.address, [item])),
  );
  const { refused } = sortResults(payments, results.flat());
  await handleRefusals(network, refused);
  let hasRoom = true;
  for (const [index, payment] of payments.entries()) {
    const item = items[index];
    if (!item || !results[index]?.[0]?.ok) continue;
    const gas = contractPayerGas(item);
    const key = await network.lanes.choose(gas);
    if (typeof key === "string") {
      hasRoom = (await turnAway(network, [payment], key)) && hasRoom;
      continue;
    }
    const call = buildPaymentsCall(network.chain.network, [item]);
    await storeAndSend(network, key, [payment], { ...call, gas }, sending);
  }
  return hasRoom;
}

/** A key for `count` payments together, or for the half of them, and so on: a poor key still pays for a few. */
async function findPlace(lanes: Lanes, count: number): Promise<{ key: RelayerKey; count: number } | NoPlace> {
  const key = await lanes.choose(paymentsGas(count));
  if (typeof key !== "string") return { key, count };
  return key === "poor" && count > 1 ? findPlace(lanes, count >> 1) : key;
}

type NoPlace = Extract<Awaited<ReturnType<Lanes["choose"]>>, string>;

const WHY_NOT = {
  poor: "no relayer key can pay the gas",
  spent: "the day's gas budget is spent",
  dear: "gas costs more than RELAY_MAX_FEE_GWEI",
};

/** False when only room is missing, which mined blocks make. */
async function turnAway(
  network: RelayNetwork,
  payments: readonly LeasedPayment[],
  why: NoPlace,
): Promise<boolean> {
  if (why === "full") await giveBack(network, payments, BUSY_RETRY_MS);
  else await handleUnavailable(network, payments, { why: WHY_NOT[why], triedMs: 0 });
  return why !== "full";
}

async function storeAndSend(
  { deps, chain, lanes, metrics }: RelayNetwork,
  key: RelayerKey,
  payments: readonly LeasedPayment[],
  call: Parameters<typeof storeRelay>[3]["call"],
  sending: Promise<void>[],
): Promise<void> {
  const { fees } = await lanes.readMarket();
  try {
    const paymentIds = payments.map((payment) => payment.id);
    const relay = await storeRelay(deps.sql, chain, key, { kind: "PAYMENTS", call, fees, paymentIds });
    deps.log.info(
      {
        network: chain.network.id,
        txHash: relay.txHash,
        relayer: key.address,
        nonce: relay.nonce.toString(),
        paymentIds,
        requestIds: payments.map((payment) => payment.requestId),
      },
      "relaying payments",
    );
    sending.push(sendAttempt(deps, chain, relay));
    const label = { network: chain.network.id };
    metrics.batchSize.observe(label, payments.length);
    for (const { createdAt } of payments) {
      metrics.broadcastSeconds.observe(label, (Date.now() - createdAt.getTime()) / 1000);
    }
  } catch (error) {
    if (!(error instanceof LeaseLostError)) throw error;
    deps.log.warn({ network: chain.network.id, err: error }, "payments were taken by another worker");
  }
}

/** Whoever has code at `from` is asked by the token (ERC-1271) and may burn any gas: never in a batch. */
async function splitByCode(chain: Chain, payments: readonly LeasedPayment[]) {
  const outcomes = await chain.batch(
    payments.map(({ payer }) => ({ method: "eth_getCode", params: [payer, "latest"] })),
  );
  const hasCode = payments.map((payment, index) => {
    const outcome = outcomes[index];
    if (!outcome?.ok)
      throw outcome?.error ?? new RpcTransportError("malformed", "eth_getCode was not answered");
    return payment.payerKind === "CONTRACT" || outcome.result !== "0x";
  });
  const keyed = payments.filter((_, index) => !hasCode[index]);
  return {
    together: keyed.filter((payment) => !payment.alone),
    alone: keyed.filter((payment) => payment.alone),
    contracts: payments.filter((_, index) => hasCode[index]),
  };
}

function sortResults(payments: readonly LeasedPayment[], results: readonly SimulationResult[]) {
  const passed: LeasedPayment[] = [];
  const refused: { payment: LeasedPayment; refusal: Extract<SimulationResult, { ok: false }> }[] = [];
  for (const [index, payment] of payments.entries()) {
    const result = results[index];
    if (!result) throw new RpcTransportError("malformed", "a simulation left a payment out");
    if (result.ok) passed.push(payment);
    else refused.push({ payment, refusal: result });
  }
  return { passed, refused };
}

function toItem(payment: LeasedPayment): RelayItem {
  return {
    tag: payment.linkTag ?? NO_LINK_TAG,
    authorization: {
      from: payment.payer,
      to: payment.recipient,
      value: payment.amountUnits,
      validAfter: payment.validAfter,
      validBefore: payment.validBefore,
      nonce: payment.nonce,
    },
    signature: payment.signature,
    isContract: payment.payerKind === "CONTRACT",
  };
}
