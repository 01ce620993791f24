/**
 * User operations (ERC-4337, EntryPoint v0.6) that our own relayer bundles: zero fees, no paymaster, no initCode. What a passkey signs
 * of one: user-operation-hash.ts.
 */

import { entryPoint06Abi } from "viem-modules/account-abstraction/constants/abis.js";
import { decodeAbiParameters } from "viem-modules/utils/abi/decodeAbiParameters.js";
import { decodeErrorResult } from "viem-modules/utils/abi/decodeErrorResult.js";
import { encodeFunctionData } from "viem-modules/utils/abi/encodeFunctionData.js";
import { CONTRACTS, type Hex } from "../domain/networks.ts";
import { encodeAggregate3, type InnerCall } from "./multicall.ts";
import { CALLS_MAX, encodeAccountCalls } from "./passkey-account.ts";
import type { RelayCall } from "./relay.ts";
import type { RawLog } from "./usdc.ts";

export type UserOperation = {
  readonly sender: Hex;
  readonly nonce: bigint;
  readonly initCode: "0x";
  readonly callData: Hex;
  readonly callGasLimit: bigint;
  readonly verificationGasLimit: bigint;
  readonly preVerificationGas: bigint;
  readonly maxFeePerGas: bigint;
  readonly maxPriorityFeePerGas: bigint;
  readonly paymasterAndData: "0x";
  readonly signature: Hex;
};

/** An operation's outcome; `success` false inside a successful transaction means that the payment did not happen. */
export type UserOperationOutcome = {
  readonly userOpHash: Hex;
  readonly sender: Hex;
  readonly nonce: bigint;
  readonly success: boolean;
  readonly gasUsed: bigint;
};

/** `UserOperationEvent(bytes32 indexed userOpHash, address indexed sender, address indexed paymaster, uint256 nonce, bool success, uint256 actualGasCost, uint256 actualGasUsed)` */
export const USER_OPERATION_EVENT_TOPIC =
  "0x49628fd1471006c1482da88028e9ce4dbb080b815c9b0344d39e5a8e6ec1419f";
/** `UserOperationRevertReason(bytes32 indexed userOpHash, address indexed sender, uint256 nonce, bytes revertReason)` */
export const USER_OPERATION_REVERT_TOPIC =
  "0x1c4fada7374c0a9ee8841fc38afe82932dc0f8e69012e927f061a8bae611a201";

const REVERT_FIELDS = [{ type: "uint256" }, { type: "bytes" }] as const;
const FAILED_OP_ABI = [
  {
    type: "error",
    name: "FailedOp",
    inputs: [
      { name: "opIndex", type: "uint256" },
      { name: "reason", type: "string" },
    ],
  },
] as const;
const FIRST_CALL_GAS = 120_000n;
const FURTHER_CALL_GAS = 45_000n;
const VERIFICATION_GAS = 150_000n;
/** Calldata, EntryPoint and the 1/64 of gas it retains, on top of the limits it requires up front. */
const BUNDLE_GAS = 250_000n;
/** The EntryPoint copies and hashes the call data; without this a long batch reverts whole. */
const GAS_A_CALL_DATA_BYTE = 30n;
/** Measured: 217,000 with the audited factory. */
const CREATE_ACCOUNT_GAS = 300_000n;

/** An unsigned operation of up to 101 calls. */
export function buildUserOperation(operation: {
  readonly sender: Hex;
  readonly nonce: bigint;
  readonly calls: readonly InnerCall[];
}): UserOperation {
  const { sender, nonce, calls } = operation;
  if (calls.length > CALLS_MAX)
    throw new RangeError(`${calls.length} calls, at most ${CALLS_MAX} fit an operation`);
  return unsignedOperation({
    sender,
    nonce,
    callData: encodeAccountCalls(calls),
    callGasLimit: FIRST_CALL_GAS + FURTHER_CALL_GAS * BigInt(calls.length - 1),
  });
}

/** Its fees are 0: the relayer pays as the sender of the transaction. */
export function unsignedOperation(
  given: Pick<UserOperation, "sender" | "nonce" | "callData" | "callGasLimit">,
): UserOperation {
  return {
    ...given,
    initCode: "0x",
    verificationGasLimit: VERIFICATION_GAS,
    preVerificationGas: 0n,
    maxFeePerGas: 0n,
    maxPriorityFeePerGas: 0n,
    paymasterAndData: "0x",
    signature: "0x",
  };
}

/** A signed operation and, for an account that does not exist yet, the factory call that makes it. */
export type BundleItem = {
  readonly operation: UserOperation;
  readonly deployment?: InnerCall | undefined;
  /** Signed operations of the same account that run before it. */
  readonly before?: readonly UserOperation[];
};

/**
 * The relayer's transaction for operations of different accounts. Each has a `handleOps` of its own that may fail alone: in one
 * `handleOps` a single bad operation would revert all.
 */
export function buildBundleCall(items: readonly BundleItem[], relayer: Hex): RelayCall {
  const gas = items.reduce((sum, item) => sum + bundleItemGas(item), 0n);
  const calls = items.flatMap((item) => bundleItemCalls(item, relayer));
  const [only] = calls;
  if (calls.length === 1 && only) return { ...only, gas };
  return { to: CONTRACTS.multicall3, data: encodeAggregate3(calls), gas };
}

/** The calls of one operation, its `handleOps` last. */
export function bundleItemCalls(
  { operation, deployment, before = [] }: BundleItem,
  relayer: Hex,
): InnerCall[] {
  const calls = [...before, operation].map((one) => {
    const args = [[one], relayer] as const;
    const data = encodeFunctionData({ abi: entryPoint06Abi, functionName: "handleOps", args });
    return { to: CONTRACTS.entryPointV06, data };
  });
  return deployment ? [deployment, ...calls] : calls;
}

/** What one operation needs of its transaction's gas limit. A bundle with less succeeds although its last operation did not run. */
export function bundleItemGas({ operation, deployment, before = [] }: BundleItem): bigint {
  const earlier = before.reduce((sum, one) => sum + operationGas(one), 0n);
  return earlier + operationGas(operation, { deploys: deployment !== undefined });
}

/** `deploys`: the account does not exist yet. */
export function operationGas(
  { callGasLimit, verificationGasLimit, callData }: UserOperation,
  { deploys = false }: { deploys?: boolean } = {},
): bigint {
  const dataGas = GAS_A_CALL_DATA_BYTE * BigInt((callData.length - 2) / 2);
  return callGasLimit + verificationGasLimit + BUNDLE_GAS + dataGas + (deploys ? CREATE_ACCOUNT_GAS : 0n);
}

/** The outcome of an operation in an EntryPoint log; undefined for every other log. */
export function decodeUserOperationLog(
  log: RawLog & { readonly address: string },
): UserOperationOutcome | undefined {
  const [topic, userOpHash, sender] = log.topics;
  if (topic !== USER_OPERATION_EVENT_TOPIC || log.address.toLowerCase() !== CONTRACTS.entryPointV06)
    return undefined;
  if (!userOpHash || !sender || log.data.length !== 2 + 4 * 64) return undefined;
  const word = (index: number) => BigInt(`0x${log.data.slice(2 + 64 * index, 66 + 64 * index)}`);
  const success = word(1) === 1n;
  return {
    userOpHash: userOpHash as Hex,
    sender: `0x${sender.slice(26)}`,
    nonce: word(0),
    success,
    gasUsed: word(3),
  };
}

/** What the calls of a failed operation reverted with; undefined for every other log. */
export function decodeRevertLog(
  log: RawLog & { readonly address: string },
): { userOpHash: Hex; data: Hex } | undefined {
  const [topic, userOpHash] = log.topics;
  if (topic !== USER_OPERATION_REVERT_TOPIC || log.address.toLowerCase() !== CONTRACTS.entryPointV06)
    return undefined;
  if (!userOpHash) return undefined;
  try {
    const [, data] = decodeAbiParameters(REVERT_FIELDS, log.data as Hex);
    return { userOpHash: userOpHash as Hex, data };
  } catch {
    // not the EntryPoint's encoding: the operation's own event says that it failed
    return undefined;
  }
}

/** The EntryPoint's reason for rejecting a bundle ("AA24 signature error"); undefined when there is none. */
export function explainFailedOperation(data: Hex | undefined): string | undefined {
  if (!data?.startsWith("0x220266b6")) return undefined;
  try {
    return decodeErrorResult({ abi: FAILED_OP_ABI, data }).args[1];
  } catch {
    // Only the selector of FailedOp, without a reason.
    return undefined;
  }
}
