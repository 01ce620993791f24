/** Another attempt at the same nonce: the stored bytes again, or bytes with a higher fee, stored before they are sent. */
import { nextFees } from "../../core/chain/fees.ts";
import { BudgetExceededError, raiseFeeCharge } from "../../db/relays/budgets.ts";
import {
  type InFlightAttempt,
  type InFlightRelay,
  insertAttempt,
  type NewAttempt,
  readRaw,
} from "../../db/relays/relays.ts";
import type { RelayerKey } from "../config.ts";
import type { Market } from "./lanes.ts";
import type { RelayNetwork } from "./network.ts";
import { noopOf, repeatCall } from "./relay-kind.ts";
import { sendAttempt, signCall } from "./send.ts";

export async function resendAttempt(
  { deps, chain }: RelayNetwork,
  relay: InFlightRelay,
  attempt: InFlightAttempt,
): Promise<void> {
  const { txHash } = attempt;
  await sendAttempt(deps, chain, { relayId: relay.id, txHash, raw: await readRaw(deps.sql, txHash) });
}

/**
 * Replaces an attempt at a fee at least an eighth higher, as nodes demand. False when nothing was sent: a cap or the budget leaves no room,
 * or the relay's kind cannot sign anything new now.
 */
export async function raiseAttempt(
  network: RelayNetwork,
  relay: InFlightRelay,
  { market, isObsolete }: { market: Market; isObsolete: boolean },
): Promise<boolean> {
  const { deps, chain, lanes } = network;
  const newest = relay.attempts.at(-1);
  const key = lanes.keys.find(({ address }) => address === relay.relayer);
  if (!newest || !key) return false;
  const isNoop = newest.isNoop || isObsolete;
  const fees = nextFees({
    baseFeePerGas: market.baseFeePerGas,
    tipPerGas: market.tipPerGas,
    maxFeeWei: deps.config.relayMaxFeeWei,
    previous: {
      maxFeePerGas: BigInt(newest.maxFeePerGas),
      maxPriorityFeePerGas: BigInt(newest.maxPriorityFeePerGas),
    },
  });
  if (fees.maxFeePerGas <= BigInt(newest.maxFeePerGas)) {
    network.metrics.raises.inc({ network: chain.network.id, outcome: "cap" });
    return false;
  }
  const stored = await storeAttempt(network, key, relay, { fees, isNoop, headNumber: market.headNumber });
  network.metrics.raises.inc({
    network: chain.network.id,
    outcome: typeof stored === "string" ? stored : "raised",
  });
  if (typeof stored === "string") return false;
  const { txHash, raw, leftOut } = stored;
  deps.log.info(
    {
      ...{ network: chain.network.id, txHash, nonce: relay.nonce.toString(), isNoop: stored.isNoop },
      ...(leftOut && leftOut.length > 0 ? { leftOut } : {}),
    },
    "raised the fee of a stuck transaction",
  );
  await sendAttempt(deps, chain, { relayId: relay.id, txHash, raw });
  return true;
}

type StoredAttempt = NewAttempt & { leftOut?: readonly string[] };

/** Stores a replacement with what it may cost, or says why not; "known": another worker stored one of this fee. */
async function storeAttempt(
  { deps, chain, kinds }: RelayNetwork,
  key: RelayerKey,
  relay: InFlightRelay,
  { fees, isNoop, headNumber }: { fees: Market["fees"]; isNoop: boolean; headNumber: bigint },
): Promise<StoredAttempt | "early" | "known" | "budget"> {
  const maximum = deps.config.relayDailyFeeMaxWei ?? null;
  const revise = kinds[relay.kind].revise ?? repeatCall;
  try {
    return await deps.sql.begin(async (tx) => {
      const revised = isNoop ? noopOf(relay) : await revise(tx, chain.network, relay, { headNumber });
      if (!revised) return "early";
      const { call, ...content } = revised;
      const attempt = { ...signCall(chain, key, { call, fees, nonce: relay.nonce }), ...content };
      if (!(await insertAttempt(tx, relay.id, attempt))) return "known";
      await raiseFeeCharge(tx, relay.id, { feeWei: call.gas * fees.maxFeePerGas, maximum });
      return attempt;
    });
  } catch (error) {
    if (error instanceof BudgetExceededError) return "budget";
    throw error;
  }
}
