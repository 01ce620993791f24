/**
 * Sends one transaction: nonce, signed bytes and hash are committed first. Whatever a node responds, the bytes may be public; the monitor
 * resends them until they are mined.
 */

import { signRelay } from "../../core/chain/sign-relay.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcResponseError, RpcTransportError } from "../../core/rpc/errors.ts";
import type { ChainNode } from "../../core/rpc/node.ts";
import type { Log } from "../../core/runtime/log.ts";
import type { Sql, Tx } from "../../db/postgres/client.ts";
import { type Charge, reserveCharges } from "../../db/relays/budgets.ts";
import { takeNonce } from "../../db/relays/nonces.ts";
import { insertRelay, type NewAttempt, recordSend } from "../../db/relays/relays.ts";
import type { Relay } from "../../db/schema.ts";
import type { Call } from "./relay-kind.ts";
import type { RelayNetwork } from "./relay-network.ts";
import type { Market, NoLane } from "./relayer-lanes.ts";
import { type SigningKey, signAndCommit } from "./sign-and-commit.ts";

export type SignedRelay = { relayId: bigint; txHash: Hex; raw: Hex; nonce: bigint };

/** A first attempt for a nonce, with the fees it offers. */
export function signCall(
  chain: Chain,
  key: SigningKey,
  { call, fees, nonce }: { call: Call; fees: Market["fees"]; nonce: bigint },
): NewAttempt {
  const transaction = { chainId: chain.network.chainId, nonce, ...call, ...fees };
  const signed = "privateKey" in key ? signRelay(key.privateKey, transaction) : key.sign(transaction);
  return { txHash: signed.hash, raw: signed.raw, ...fees };
}

export type NewCall = {
  kind: Relay["kind"];
  call: Call;
  fees: Market["fees"];
  walletId?: string;
  /** A nonce reserved by the caller or a gap to fill; absent: the lane's next nonce. */
  nonce?: bigint;
  /** Binds the relay's contents to its row. Returns its charges in addition to the fee. */
  bind?: (tx: Tx, relayId: bigint) => Promise<readonly Charge[]>;
  dailyFeeMaxWei: bigint | undefined;
  /** Charged to the daily fee budget also when that is exhausted. */
  mayExceedFeeBudget?: boolean;
};

/**
 * Stores a signed transaction with its maximum cost. Locks its lane, then what `bind` touches, and the budgets last. Throws
 * BudgetExceededError when a budget has no room: the caller must roll back.
 */
export async function storeRelay(
  tx: Tx,
  chain: Chain,
  key: SigningKey,
  { call, fees, bind, dailyFeeMaxWei, mayExceedFeeBudget = false, ...relay }: NewCall,
): Promise<SignedRelay> {
  const lane = { network: chain.network.id, relayer: key.address };
  const nonce = relay.nonce ?? (await takeNonce(tx, lane));
  const attempt = signCall(chain, key, { call, fees, nonce });
  const relayId = await insertRelay(tx, {
    ...{ ...lane, ...relay, nonce, attempt },
    callTo: call.to,
    callData: call.data,
    gasLimit: call.gas,
  });
  const fee: Charge = {
    scope: "FEES",
    subject: lane.network,
    items: 1,
    amount: call.gas * fees.maxFeePerGas,
    maximum: dailyFeeMaxWei ?? null,
    isAdvisory: mayExceedFeeBudget,
  };
  const charges = [fee, ...((await bind?.(tx, relayId)) ?? [])];
  await reserveCharges(tx, { relayId, network: lane.network, charges });
  return { relayId, txHash: attempt.txHash, raw: attempt.raw, nonce };
}

/** Signs a call with whichever key can pay for it, and sends it. If no key can, returns why. Throws BudgetExceededError. */
export async function sendCall(
  network: RelayNetwork,
  relay: Omit<NewCall, "fees" | "nonce" | "dailyFeeMaxWei">,
): Promise<SignedRelay | NoLane> {
  const { deps, chain, lanes } = network;
  const key = await lanes.choose(relay.call.gas);
  if (typeof key === "string") return key;
  const { fees } = await lanes.readMarket();
  const dailyFeeMaxWei = deps.config.relayDailyFeeMaxWei;
  const stored = await signAndCommit(network, key, (tx, signing) =>
    storeRelay(tx, chain, signing, { ...relay, fees, dailyFeeMaxWei }),
  );
  await sendAttempt(deps, chain, stored);
  return stored;
}

/**
 * Sends an attempt to a node and records the response. Never throws: the monitor resends it. `judgedAtMs`: when the node was queried for the
 * head against which the payments were checked. Nothing is sent with a head older than HEAD_VALID_MS: the monitor checks again and sends.
 */
export async function sendAttempt(
  deps: { asyncCommitSql: Sql; log: Log },
  chain: Chain,
  attempt: { relayId: bigint; txHash: Hex; raw: Hex; judgedAtMs?: number | undefined },
): Promise<void> {
  const { judgedAtMs } = attempt;
  const isOutdated = () => judgedAtMs !== undefined && performance.now() - judgedAtMs > HEAD_VALID_MS;
  const answer = await sendRaw(chain, attempt.raw, isOutdated);
  if (!answer.isAsked) {
    const { relayId, txHash } = attempt;
    const label = { network: chain.network.id, txHash, relayId: relayId.toString() };
    deps.log.info({ ...label, answer: answer.text }, "transaction not sent yet");
    return;
  }
  if (!answer.isAccepted) {
    deps.log.warn(
      {
        network: chain.network.id,
        txHash: attempt.txHash,
        relayId: attempt.relayId.toString(),
        answer: answer.text,
      },
      "node rejected transaction",
    );
  }
  try {
    const { txHash } = attempt;
    await recordSend(deps.asyncCommitSql, attempt.relayId, {
      txHash,
      answer: answer.text,
      isAccepted: answer.isAccepted,
    });
  } catch (error) {
    deps.log.warn(
      { relayId: attempt.relayId.toString(), err: error },
      "the node's response to an attempt could not be recorded",
    );
  }
}

/** How long a head may represent the chain: newer blocks may already pay what the bytes would pay again. */
export const HEAD_VALID_MS = 3_000;
const ANSWER_MAX_CHARS = 300;
/** After this the next node is tried. */
const ANSWER_MS = 1_000;
/** The node already has these bytes. */
const ALREADY_KNOWN = /already known|already imported|known transaction|transaction already/i;

/** One node after another, until one has the bytes or `isOutdated`: a node may accept no transactions at all, or none at this fee. */
async function sendRaw(
  chain: Chain,
  raw: Hex,
  isOutdated: () => boolean,
): Promise<{ isAsked: boolean; isAccepted: boolean; text: string }> {
  const asked = new Set<ChainNode>();
  const isKnown = (error: unknown) => error instanceof RpcResponseError && ALREADY_KNOWN.test(error.message);
  try {
    await chain.withNode(async (node) => {
      if (isOutdated()) throw new RpcTransportError("closed", "the head it was checked against is too old");
      asked.add(node);
      const sent = chain.requestOn(node, "eth_sendRawTransaction", [raw]);
      await (chain.nodes.length > 1 ? answeredInTime(sent) : sent).catch((error: unknown) => {
        const isLast = asked.size === chain.nodes.length;
        if (!(error instanceof RpcResponseError) || isKnown(error) || isLast) throw error;
        throw new RpcTransportError("node-error", error.message);
      });
    });
    return { isAsked: true, isAccepted: true, text: "accepted" };
  } catch (error) {
    const text = (error instanceof Error ? error.message : String(error)).slice(0, ANSWER_MAX_CHARS);
    return { isAsked: asked.size > 0, isAccepted: isKnown(error), text };
  }
}

/** An unresponsive node must not use up all the time for trying another one: the same bytes at two nodes are one transaction. */
async function answeredInTime(sent: Promise<unknown>): Promise<void> {
  const { promise: tooLate, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new RpcTransportError("timeout", `no answer within ${ANSWER_MS} ms`)),
    ANSWER_MS,
  );
  try {
    await Promise.race([sent, tooLate]);
  } finally {
    clearTimeout(timer);
    // its late response is ignored
    sent.catch(() => undefined);
  }
}
