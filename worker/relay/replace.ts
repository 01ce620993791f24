/** The same nonce once more: the stored bytes as they are, or dearer ones, stored before they go out. */
import { nextFees } from "../../core/chain/fees.ts";
import { buildNoopCall } from "../../core/chain/relay.ts";
import { signRelay } from "../../core/chain/sign-relay.ts";
import {
  type InFlightAttempt,
  type InFlightRelay,
  insertAttempt,
  readCallData,
  readRaw,
} from "../../db/relays.ts";
import type { Market } from "./lanes.ts";
import type { RelayNetwork } from "./network.ts";
import { sendAttempt } from "./send.ts";

export async function resendAttempt(
  { deps, chain }: RelayNetwork,
  relay: InFlightRelay,
  attempt: InFlightAttempt,
): Promise<void> {
  const { txHash } = attempt;
  await sendAttempt(deps, chain, { relayId: relay.id, txHash, raw: await readRaw(deps.sql, txHash) });
}

/** A fee at least an eighth higher, as nodes demand of a replacement. False when a cap leaves no room for it: nothing was sent then. */
export async function raiseAttempt(
  network: RelayNetwork,
  relay: InFlightRelay,
  market: Market,
): Promise<boolean> {
  const { deps, chain, lanes } = network;
  const newest = relay.attempts.at(-1);
  const key = lanes.keys.find(({ address }) => address === relay.relayer);
  if (!newest || !key) return false;
  const isNoop = newest.isNoop || isPointless(relay);
  const fees = nextFees({
    baseFeePerGas: market.baseFeePerGas,
    tipPerGas: market.tipPerGas,
    maxFeeWei: deps.config.relayMaxFeeWei,
    previous: {
      maxFeePerGas: BigInt(newest.maxFeePerGas),
      maxPriorityFeePerGas: BigInt(newest.maxPriorityFeePerGas),
    },
  });
  if (fees.maxFeePerGas <= BigInt(newest.maxFeePerGas)) return false;
  const call = isNoop
    ? buildNoopCall(relay.relayer)
    : { to: relay.callTo, data: await readCallData(deps.sql, relay.id), gas: relay.gasLimit };
  const signed = signRelay(key.privateKey, {
    chainId: chain.network.chainId,
    nonce: relay.nonce,
    ...call,
    ...fees,
  });
  const attempt = { txHash: signed.hash, raw: signed.raw, ...fees, isNoop };
  if (!(await insertAttempt(deps.sql, relay.id, attempt))) return false;
  deps.log.info(
    { network: chain.network.id, txHash: signed.hash, nonce: relay.nonce.toString(), isNoop },
    "raised the fee of a stuck transaction",
  );
  await sendAttempt(deps, chain, { relayId: relay.id, txHash: signed.hash, raw: signed.raw });
  return true;
}

/** Every authorization inside is over or settled otherwise: mining it would only burn gas. */
export function isPointless({ kind, validBeforeMax }: InFlightRelay): boolean {
  if (kind !== "PAYMENTS") return false;
  return validBeforeMax === null || validBeforeMax <= BigInt(Math.floor(Date.now() / 1000));
}
