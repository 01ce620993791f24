/**
 * Simulates signed user operations before a relayer pays for them. `handleOps` succeeds although the calls inside fail, so both are
 * simulated: the EntryPoint for signature and nonce, and the account's own calls for the transfers.
 */
import { CONTRACTS, type Hex } from "../domain/networks.ts";
import type { OperationFailure, OperationItem } from "../domain/wallet-operation.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { RpcResponseError, RpcTransportError } from "../rpc/errors.ts";
import type { RpcCall, RpcOutcome } from "../rpc/node.ts";
import { parseData, resultOf, toQuantity } from "../rpc/parse-answers.ts";
import { implementationCall, isKnownAccount } from "./account-implementation.ts";
import { decodeAggregate3, encodeAggregate3, type InnerCall } from "./multicall.ts";
import { explainRevert } from "./revert-reasons.ts";
import { encodeTransfer } from "./usdc.ts";
import {
  type BundleItem,
  bundleItemCalls,
  bundleItemGas,
  explainFailedOperation,
  type UserOperation,
} from "./user-operation.ts";

export type SimulatedOperation = {
  operation: UserOperation;
  /** Makes the account, for one that has no code yet. */
  deployment: InnerCall;
  items: readonly OperationItem[];
  /** Signed operations of the account that run before it. */
  before: readonly UserOperation[];
};

/**
 * `wait`: it may pass later, or the ledger has to say why not. `unsigned`: the signer is no owner at this block. `text` is the chain's own
 * word, for logs.
 */
export type OperationVerdict =
  | { ok: true; bundleItem: BundleItem }
  | { ok: false; action: "fail"; reason: OperationFailure; text: string }
  | { ok: false; action: "retry"; reason: OperationFailure; text: string }
  | { ok: false; action: "unsigned"; reason: OperationFailure; text: string }
  | { ok: false; action: "wait"; text: string };

/** For Multicall3 itself. */
const MULTICALL_GAS = 100_000n;

/** One verdict an operation, in order. Throws RpcTransportError when the chain gave none of any of them. */
export async function simulateOperations(
  chain: Chain,
  relayer: Hex,
  given: readonly SimulatedOperation[],
): Promise<OperationVerdict[]> {
  const accounts = await chain.batch(
    given.flatMap(({ operation: { sender } }): RpcCall[] => [
      { method: "eth_getCode", params: [sender, "latest"] },
      implementationCall(sender),
    ]),
  );
  const prepared = given.map((one, index) => {
    const code = parseData(resultOf(accounts[2 * index]), "eth_getCode");
    const slot = parseData(resultOf(accounts[2 * index + 1]), "eth_getStorageAt");
    const deployment = code === "0x" ? one.deployment : undefined;
    const isForeign = code !== "0x" && !isKnownAccount(code, slot);
    const bundleItem: BundleItem = { operation: one.operation, deployment, before: one.before };
    return { isForeign, bundleItem, calls: callsOf(chain, relayer, one, bundleItem) };
  });
  const outcomes = await chain.batch(prepared.flatMap(({ calls }) => calls));
  let at = 0;
  const verdicts = prepared.map(({ isForeign, bundleItem, calls }): OperationVerdict | RpcTransportError => {
    const own = outcomes.slice(at, at + calls.length);
    at += calls.length;
    if (isForeign)
      return { ok: false, action: "fail", reason: "ACCOUNT_CHANGED", text: "the account runs other code" };
    return judgeAlone(bundleItem, own);
  });
  const [first] = verdicts;
  if (first instanceof RpcTransportError && verdicts.every((one) => one instanceof RpcTransportError))
    throw first;
  return verdicts.map((verdict) =>
    verdict instanceof RpcTransportError ? { ok: false, action: "wait", text: verdict.message } : verdict,
  );
}

/** An operation that nodes cannot simulate, such as one that is too much for their limits, must not hold up the others. */
function judgeAlone(
  bundleItem: BundleItem,
  outcomes: readonly RpcOutcome[],
): OperationVerdict | RpcTransportError {
  try {
    return judge(bundleItem, outcomes);
  } catch (error) {
    if (error instanceof RpcResponseError) return { ok: false, action: "wait", text: error.message };
    if (error instanceof RpcTransportError) return error;
    throw error;
  }
}

/** First the bundle, then the account's calls: whole where it exists, one by one where it does not. */
function callsOf(
  chain: Chain,
  relayer: Hex,
  { operation, items }: SimulatedOperation,
  bundleItem: BundleItem,
): RpcCall[] {
  const { sender, callData } = operation;
  const bundle = {
    from: relayer,
    to: CONTRACTS.multicall3,
    data: encodeAggregate3(bundleItemCalls(bundleItem, relayer)),
    gas: toQuantity(bundleItemGas(bundleItem) + MULTICALL_GAS),
  };
  const inner = bundleItem.deployment
    ? items.map(({ to, amountUnits }) => ({
        from: sender,
        to: chain.network.usdc.address,
        data: encodeTransfer(to, amountUnits),
      }))
    : [{ from: CONTRACTS.entryPointV06, to: sender, data: callData }];
  return [bundle, ...inner].map((call) => ({ method: "eth_call", params: [call, "pending"] }));
}

function judge(bundleItem: BundleItem, [bundle, ...inner]: readonly RpcOutcome[]): OperationVerdict {
  const { deployment, before = [] } = bundleItem;
  const results = decodeAggregate3(resultOf(bundle), (deployment ? 2 : 1) + before.length);
  const handled = results.at(-1);
  if (!handled?.success) return refusalOfEntryPoint(handled?.data);
  for (const outcome of inner) {
    if (outcome.ok) continue;
    if (!(outcome.error instanceof RpcResponseError)) throw outcome.error;
    const { reason, text } = explainRevert(outcome.error.data);
    if (reason === "INSUFFICIENT_FUNDS") return { ok: false, action: "retry", reason, text };
    if (reason === "PAYMENT_NOT_ALLOWED") return { ok: false, action: "fail", reason, text };
    return { ok: false, action: "retry", reason: "REVERTED", text };
  }
  return { ok: true, bundleItem };
}

/** AA25: the nonce is spent; the ledger says by which operation. AA23 and AA24: the signer is no longer an owner. */
function refusalOfEntryPoint(data: Hex | undefined): OperationVerdict {
  const text = explainFailedOperation(data) ?? explainRevert(data).text;
  if (/^AA25/.test(text)) return { ok: false, action: "wait", text };
  if (/^AA2[34]/.test(text)) return { ok: false, action: "unsigned", reason: "SIGNATURE_REFUSED", text };
  return { ok: false, action: "wait", text };
}
