/**
 * Another attempt at the same nonce: the stored bytes again, or bytes with a higher fee, stored before they are sent. For when this happens, see
 * core/domain/raise-fees.ts and monitor-relays.ts.
 */

import { SignerError } from "../../core/chain/remote-signer.ts";
import { nextFees } from "../../core/domain/raise-fees.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { BudgetExceededError, raiseFeeCharge } from "../../db/relays/budgets.ts";
import {
  type InFlightAttempt,
  type InFlightRelay,
  insertAttempt,
  type NewAttempt,
  readRaw,
} from "../../db/relays/relays.ts";
import type { RelayerKey } from "../relayer-keys-env.ts";
import { noopOf, repeatCall } from "./relay-kind.ts";
import type { RelayNetwork } from "./relay-network.ts";
import type { Market } from "./relayer-lanes.ts";
import { sendAttempt, signCall } from "./send-relay.ts";
import { type SigningKey, signAndCommit } from "./sign-and-commit.ts";

export async function resendAttempt(
  { deps, chain }: RelayNetwork,
  relay: InFlightRelay,
  { newest, judgedAtMs }: { newest: InFlightAttempt; judgedAtMs: number | undefined },
): Promise<void> {
  const { txHash } = newest;
  const raw = await readRaw(deps.sql, txHash);
  await sendAttempt(deps, chain, { relayId: relay.id, txHash, raw, judgedAtMs });
}

/**
 * Replaces an attempt with a fee at least an eighth higher, as nodes require. `isReplaced`: its bytes must not be sent and no node may have
 * them, so if a cap leaves no room, one extra wei distinguishes the attempts. False when nothing was sent: a cap or the budget leaves
 * no room, or the relay's kind cannot sign anything new now.
 */
export async function raiseAttempt(
  network: RelayNetwork,
  relay: InFlightRelay,
  { market, isObsolete, isReplaced }: { market: Market; isObsolete: boolean; isReplaced: boolean },
): Promise<boolean> {
  const { deps, chain, lanes } = network;
  const newest = relay.attempts.at(-1);
  const key = lanes.keys.find(({ address }) => address === relay.relayer);
  if (!newest || !key) return false;
  const isNoop = newest.isNoop || isObsolete;
  const previous = {
    maxFeePerGas: BigInt(newest.maxFeePerGas),
    maxPriorityFeePerGas: BigInt(newest.maxPriorityFeePerGas),
  };
  const raised = nextFees({
    baseFeePerGas: market.baseFeePerGas,
    tipPerGas: market.tipPerGas,
    maxFeeWei: deps.config.relayMaxFeeWei,
    previous,
  });
  const isCapped = raised.maxFeePerGas <= previous.maxFeePerGas;
  if (isCapped && !isReplaced) {
    network.metrics.raises.inc({ network: chain.network.id, outcome: "cap" });
    return false;
  }
  const least = { ...previous, maxFeePerGas: previous.maxFeePerGas + 1n };
  const fees = isCapped ? least : raised;
  let stored = await storeAttempt(network, key, relay, { fees, isNoop, market });
  // the smaller contents leave room for one wei
  if (stored === "budget" && isReplaced && !isCapped)
    stored = await storeAttempt(network, key, relay, { fees: least, isNoop, market });
  network.metrics.raises.inc({
    network: chain.network.id,
    outcome: typeof stored === "string" ? stored : "raised",
  });
  if (typeof stored === "string") return false;
  const { txHash, raw, leftOut, judgedAtMs } = stored;
  deps.log.info(
    {
      network: chain.network.id,
      txHash,
      nonce: relay.nonce.toString(),
      isNoop: stored.isNoop,
      ...(leftOut && leftOut.length > 0 ? { leftOut } : {}),
    },
    "raised the fee of a stuck transaction",
  );
  await sendAttempt(deps, chain, { relayId: relay.id, txHash, raw, judgedAtMs });
  return true;
}

type StoredAttempt = NewAttempt & { leftOut?: readonly string[]; judgedAtMs: number | undefined };

/** Stores a replacement with its maximum cost, or returns why not; "known": another worker already stored one with this fee. */
async function storeAttempt(
  network: RelayNetwork,
  key: RelayerKey,
  relay: InFlightRelay,
  { fees, isNoop, market }: { fees: Market["fees"]; isNoop: boolean; market: Market },
): Promise<StoredAttempt | "early" | "known" | "budget" | "signer"> {
  const { deps, chain, kinds, lanes } = network;
  const maximum = deps.config.relayDailyFeeMaxWei ?? null;
  const revise = kinds[relay.kind].revise ?? repeatCall;
  const store = async (tx: Tx, signing: SigningKey) => {
    const judged = newer(market, lanes.lastMarket());
    const revised = isNoop ? noopOf(relay) : await revise(tx, chain.network, relay, judged);
    if (!revised) return "early";
    const { call, ...content } = revised;
    const attempt = { ...signCall(chain, signing, { call, fees, nonce: relay.nonce }), ...content };
    if (!(await insertAttempt(tx, relay.id, attempt))) return "known";
    await raiseFeeCharge(tx, relay.id, { feeWei: call.gas * fees.maxFeePerGas, maximum });
    const isJudged = !revised.isNoop && kinds[relay.kind].revise !== undefined;
    return { ...attempt, judgedAtMs: isJudged ? judged.askedAtMs : undefined };
  };
  try {
    // the commit is checked against the head after signing, not the one before
    return await signAndCommit(network, key, store, { afterSigning: () => lanes.readMarket(0) });
  } catch (error) {
    if (error instanceof BudgetExceededError) return "budget";
    // the stored bytes are resent: that needs no signer
    if (error instanceof SignerError) return "signer";
    throw error;
  }
}

function newer(market: Market, other: Market | undefined): Market {
  return other && other.headNumber >= market.headNumber && other.askedAtMs > market.askedAtMs
    ? other
    : market;
}
