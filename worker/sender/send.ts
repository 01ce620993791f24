/**
 * One transaction of ours: nonce, signed bytes and hash are committed first, then the bytes go out. Whatever the node says,
 * they may be out; the keeper sends them again until a block holds them.
 */

import { signRelay } from "../../core/chain/sign-relay.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import { RpcResponseError } from "../../core/rpc/errors.ts";
import type { Log } from "../../core/runtime/log.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { insertRelay, type NewAttempt, noteSent, takeNonce } from "../../db/relays/relays.ts";
import type { Relay } from "../../db/schema.ts";
import type { RelayerKey } from "../config.ts";
import { chargeRelay, type RelayLimits } from "./charge-relay.ts";
import type { Market } from "./lanes.ts";
import type { Call } from "./relay-kind.ts";

export type SignedRelay = { relayId: bigint; txHash: Hex; raw: Hex; nonce: bigint };

/** A first attempt for a nonce, with the fees it offers. */
export function signCall(
  chain: Chain,
  key: RelayerKey,
  { call, fees, nonce }: { call: Call; fees: Market["fees"]; nonce: bigint },
): NewAttempt {
  const signed = signRelay(key.privateKey, { chainId: chain.network.chainId, nonce, ...call, ...fees });
  return { txHash: signed.hash, raw: signed.raw, ...fees };
}

/**
 * Stores a signed transaction that carries no payments, with what it may cost. Throws BudgetExceededError when a budget has no room.
 * Those with payments are signed behind the fence (`fenced-relay.ts`).
 */
export async function storeRelay(
  sql: Sql,
  chain: Chain,
  key: RelayerKey,
  relay: {
    kind: Exclude<Relay["kind"], "PAYMENTS">;
    call: Call;
    fees: Market["fees"];
    walletId?: string;
    /** A gap to fill; absent: the lane's next nonce. */
    nonce?: bigint;
    limits: RelayLimits;
  },
): Promise<SignedRelay> {
  const { call, fees, limits } = relay;
  const lane = { network: chain.network.id, relayer: key.address };
  return sql.begin(async (tx) => {
    const nonce = relay.nonce ?? (await takeNonce(tx, lane));
    const attempt = signCall(chain, key, { call, fees, nonce });
    const relayId = await insertRelay(tx, {
      ...lane,
      nonce,
      kind: relay.kind,
      callTo: call.to,
      callData: call.data,
      gasLimit: call.gas,
      ...(relay.walletId === undefined ? {} : { walletId: relay.walletId }),
      attempt,
    });
    await chargeRelay(tx, {
      ...{ relayId, network: lane.network, gas: call.gas, maxFeePerGas: fees.maxFeePerGas },
      ...{ paymentIds: [], limits },
    });
    return { relayId, txHash: attempt.txHash, raw: attempt.raw, nonce };
  });
}

/** Hands an attempt to a node and notes what it said. Never throws: whatever goes wrong here, the keeper sends it again. */
export async function sendAttempt(
  deps: { notes: Sql; log: Log },
  chain: Chain,
  attempt: { relayId: bigint; txHash: Hex; raw: Hex },
): Promise<void> {
  const answer = await handOver(chain, attempt.raw);
  if (!answer.taken) {
    deps.log.warn(
      {
        network: chain.network.id,
        txHash: attempt.txHash,
        relayId: attempt.relayId.toString(),
        answer: answer.text,
      },
      "a node did not take a transaction",
    );
  }
  try {
    const { txHash } = attempt;
    await noteSent(deps.notes, attempt.relayId, { txHash, answer: answer.text, taken: answer.taken });
  } catch (error) {
    deps.log.warn({ relayId: attempt.relayId.toString(), err: error }, "an attempt's answer was not noted");
  }
}

const ANSWER_MAX_CHARS = 300;
/** The node has these very bytes already. */
const ALREADY_KNOWN = /already known|already imported|known transaction|transaction already/i;

async function handOver(chain: Chain, raw: Hex): Promise<{ taken: boolean; text: string }> {
  try {
    await chain.request("eth_sendRawTransaction", [raw]);
    return { taken: true, text: "taken" };
  } catch (error) {
    const text = (error instanceof Error ? error.message : String(error)).slice(0, ANSWER_MAX_CHARS);
    return { taken: error instanceof RpcResponseError && ALREADY_KNOWN.test(text), text };
  }
}
