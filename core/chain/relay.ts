/** A relay: the one call that carries its payments, its gas limit, and its simulation before anything is signed. */
import type { Authorization } from "../domain/authorization.ts";
import { CONTRACTS, type Hex, type Network } from "../domain/networks.ts";
import { PAYMENT_GAS } from "../domain/relay-budget.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { RpcResponseError, RpcTransportError } from "../rpc/errors.ts";
import type { RpcCall, RpcOutcome } from "../rpc/node.ts";
import { toQuantity } from "../rpc/parse-answers.ts";
import { readContractSignature } from "./contract-signature.ts";
import { decodeAggregate3, encodeAggregate3, type InnerCall, type InnerResult } from "./multicall.ts";
import { explainRevert, type Refusal } from "./revert-reasons.ts";
import { encodeTransferWithBytes, encodeTransferWithVrs } from "./usdc.ts";

/** An accepted payment as it is relayed. EOA: r, s, v (65 bytes). Contract: the bytes as signed, ERC-6492 wrapper included. */
export type RelayItem = {
  readonly isContract: boolean;
  readonly authorization: Authorization;
  readonly signature: Hex;
  /** The tag of the paid link (core/domain/link-tag.ts), appended to the calldata so that the chain alone identifies the link. */
  readonly tag: Hex;
};

export type RelayCall = { readonly to: Hex; readonly data: Hex; readonly gas: bigint };

export type SimulationResult = { readonly ok: true } | ({ readonly ok: false } & Refusal);

/** Maximum gas of a transaction (EIP-7825). */
export const TRANSACTION_GAS_MAX = 16_777_216n;
/** Maximum items under that gas limit; callers send far smaller batches. */
const RELAY_ITEMS_MAX = 150;

/** Measured with USDC's own code: 38,000 + 72,200 an item in a batch, each to a first-time payee. */
const BATCH_BASE_GAS = 60_000n;
const BATCH_ITEM_GAS = 90_000n;
/** Measured with a passkey wallet: 141,000 alone, 358,000 with its deployment. More is cut off here. */
const CONTRACT_GAS = 200_000n;
const CONTRACT_WITH_DEPLOYMENT_GAS = 450_000n;
const NOOP_GAS = 21_000n;
/** For Multicall3 itself, when a call that does not need it is simulated through it. */
const MULTICALL_GAS = 50_000n;

/**
 * One EOA payment goes straight to the token (a batch of one costs 8.5 % more), several through Multicall3. A contract payer
 * is relayed alone: it could burn the gas of the others. Throws RangeError when they are mixed or too many.
 */
export function buildPaymentsCall(network: Network, items: readonly RelayItem[]): RelayCall {
  const calls = innerCalls(network, items);
  const gas = gasOf(items);
  const [only] = calls;
  if (calls.length === 1 && only) return { ...only, gas };
  return { to: CONTRACTS.multicall3, data: encodeAggregate3(calls), gas };
}

/** Gas limit of a relay with this many EOA payers: an upper bound, unused gas is not paid for. */
export function paymentsGas(count: number): bigint {
  return count === 1 ? PAYMENT_GAS : BATCH_BASE_GAS + BATCH_ITEM_GAS * BigInt(count);
}

/** Gas limit of a contract payer's relay; without an item, of a deployed payer. Tight, because the payer decides how much is burnt. */
export function contractPayerGas(item: Pick<RelayItem, "signature"> | undefined): bigint {
  return item && readContractSignature(item.signature)?.deployment
    ? CONTRACT_WITH_DEPLOYMENT_GAS
    : CONTRACT_GAS;
}

/** A transfer of nothing to oneself: uses up a nonce whose payments expired, or fills a nonce gap. */
export function buildNoopCall(relayer: Hex): RelayCall {
  return { to: relayer, data: "0x", gas: NOOP_GAS };
}

/**
 * Simulates the items at `pending` within the gas of a relay. One verdict per item, in order. Throws RpcTransportError when the
 * chain gave no verdict: nothing is known about any of them then.
 */
export async function simulatePayments(
  chain: Chain,
  relayer: Hex,
  items: readonly RelayItem[],
): Promise<SimulationResult[]> {
  const simulation = prepareSimulation(chain.network, relayer, items);
  const [outcome] = await chain.batch([simulation.call]);
  return simulation.read(outcome) ?? simulateHalves(chain, relayer, items);
}

export type Simulation = {
  /** For a batch with other calls to the same node. */
  readonly call: RpcCall;
  /**
   * One verdict per item; undefined when several failed together, so that smaller groups must be simulated. Throws
   * RpcTransportError when there is no verdict.
   */
  readonly read: (outcome: RpcOutcome | undefined) => SimulationResult[] | undefined;
};

/** The call behind `simulatePayments`, and the decoder of its result. */
export function prepareSimulation(network: Network, relayer: Hex, items: readonly RelayItem[]): Simulation {
  const calls = innerCalls(network, items);
  const gas = toQuantity(gasOf(items) + MULTICALL_GAS);
  const call = { from: relayer, to: CONTRACTS.multicall3, data: encodeAggregate3(calls), gas };
  return {
    call: { method: "eth_call", params: [call, "pending"] },
    read(outcome) {
      if (!outcome) throw new RpcTransportError("malformed", "a simulation was not answered");
      if (outcome.ok) {
        const results = decodeAggregate3(outcome.result, calls.length);
        // A deployment's own outcome is ignored: an existing wallet is fine, and the payment's outcome shows the rest.
        return results.slice(-items.length).map((result) => verdictOf(result, items[0]));
      }
      const { error } = outcome;
      if (!(error instanceof RpcResponseError)) throw error;
      if (items.length > 1) return undefined;
      return [verdictOf({ success: false, data: error.data ?? "0x" }, items[0])];
    },
  };
}

/** One item used up the gas of others or of all: bisect, at most log2 of the items deep. */
async function simulateHalves(
  chain: Chain,
  relayer: Hex,
  items: readonly RelayItem[],
): Promise<SimulationResult[]> {
  const middle = Math.ceil(items.length / 2);
  const first = await simulatePayments(chain, relayer, items.slice(0, middle));
  return [...first, ...(await simulatePayments(chain, relayer, items.slice(middle)))];
}

/** A contract payer that reverts without data ran out of gas or rejects its signature: reported as an invalid signature. */
function verdictOf({ success, data }: InnerResult, item: RelayItem | undefined): SimulationResult {
  if (success) return { ok: true };
  const refusal = explainRevert(data);
  const isSilentContract = item?.isContract && refusal.reason === "INTERNAL_ERROR";
  return { ok: false, ...refusal, ...(isSilentContract ? { reason: "INVALID_SIGNATURE" as const } : {}) };
}

function gasOf(items: readonly RelayItem[]): bigint {
  return items[0]?.isContract ? contractPayerGas(items[0]) : paymentsGas(items.length);
}

/** The calls of a relay, in order; a contract payer with a deployment has two, the payment last. */
function innerCalls(network: Network, items: readonly RelayItem[]): InnerCall[] {
  if (items.length === 0 || items.length > RELAY_ITEMS_MAX) {
    throw new RangeError(`a relay carries 1 to ${RELAY_ITEMS_MAX} payments, not ${items.length}`);
  }
  if (items.length > 1 && items.some(({ isContract }) => isContract)) {
    throw new RangeError("a contract payer is relayed alone");
  }
  return items.flatMap(({ isContract, authorization, signature, tag }) => {
    const to = network.usdc.address;
    if (!isContract) return [{ to, data: tagged(encodeTransferWithVrs(authorization, signature), tag) }];
    const read = readContractSignature(signature);
    if (!read) throw new RangeError("a contract payer's ERC-6492 wrapper is broken");
    const payment = { to, data: tagged(encodeTransferWithBytes(authorization, read.signature), tag) };
    return read.deployment ? [read.deployment, payment] : [payment];
  });
}

/** ABI decoding ignores bytes after the arguments; 16 fit into the padding of Multicall3's encoding. */
function tagged(data: Hex, tag: Hex): Hex {
  return `${data}${tag.slice(2)}`;
}
