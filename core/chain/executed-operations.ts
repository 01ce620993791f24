/**
 * One of our user operations, recovered from the transaction that executed it, for a database that has lost the row. Trusted only when its
 * fields make the hash that the EntryPoint's event names, and its calls are tagged transfers as we build them.
 */

import { entryPoint06Abi } from "viem-modules/account-abstraction/constants/abis.js";
import { multicall3Abi } from "viem-modules/constants/abis.js";
import { decodeFunctionData } from "viem-modules/utils/abi/decodeFunctionData.js";
import { getAbiItem } from "viem-modules/utils/abi/getAbiItem.js";
import { TAG_BYTES } from "../domain/link-tag.ts";
import { CONTRACTS, type Hex, type Network } from "../domain/networks.ts";
import type { OperationItem } from "../domain/wallet-operation.ts";
import { isFirstArrayWithin } from "./first-array.ts";
import type { InnerCall } from "./multicall.ts";
import { decodeAccountCalls } from "./passkey-account.ts";
import { encodeTransfer } from "./usdc.ts";
import { userOperationHash } from "./user-operation-hash.ts";
import type { VerifiedTransaction } from "./verify-transaction.ts";

export type ExecutedOperation = {
  callData: Hex;
  callGas: bigint;
  verificationGas: bigint;
  /** The 16 random bytes of the operation's id. */
  tag: Hex;
  /** The tag of the refunded link. */
  linkTag: Hex | undefined;
  items: OperationItem[];
};

/** Alone: of other functions, arrays within arrays would be decoded before the name says what they are. */
const HANDLE_OPS_ABI = [getAbiItem({ abi: entryPoint06Abi, name: "handleOps" })];
const AGGREGATE3_ABI = [getAbiItem({ abi: multicall3Abi, name: "aggregate3" })];
const TAG_DIGITS = 2 * TAG_BYTES;
const ADDRESS_AT = 10 + 24;
const AMOUNT_AT = 10 + 64;
const TRANSFER_DIGITS = 10 + 128;
/** Of all operations that are prepared here (user-operation.ts). */
const PRE_VERIFICATION_GAS = 0n;
/** Micro-USDC, exclusive: the amount of an item is a bigint, and the supply is below it. */
const AMOUNT_END_UNITS = 2n ** 63n;

/** Calls of a relay, at most 40 operations with what deploys their accounts and the owner changes before them: target, allowFailure, callData. */
const RELAY_CALLS = { elementsMax: 256, words: 3, bytesAt: [2] };
/** A relay has one in each `handleOps`; who sends a signature on by other means may have more. initCode, callData, paymasterAndData, signature. */
const BUNDLE_OPERATIONS = { elementsMax: 16, words: 11, bytesAt: [2, 3, 9, 10] };

export type CarriedOperation = ReturnType<typeof operationsOf>[number];

/**
 * The operations that a transaction runs, by their hashes. Whoever owns a wallet can send one, so what would be decoded into more than the transaction
 * has is left out: the encoding of a relay has each byte once. Each is hashed once, for a transaction may run thousands that it does not carry.
 */
export function carriedOperations(
  transaction: VerifiedTransaction,
  { chainId }: Pick<Network, "chainId">,
): ReadonlyMap<Hex, CarriedOperation> {
  const operations = bundlesOf(transaction).flatMap(operationsOf);
  return new Map(operations.map((operation) => [userOperationHash(operation, chainId), operation]));
}

/** Undefined for operations that were not prepared here, and for those that carry no transfers. */
export function findExecutedOperation(
  carried: ReadonlyMap<Hex, CarriedOperation>,
  { userOpHash, network }: { userOpHash: Hex; network: Network },
): ExecutedOperation | undefined {
  const operation = carried.get(userOpHash);
  // its event's gas would be whatever it claims
  if (operation?.preVerificationGas !== PRE_VERIFICATION_GAS) return undefined;
  const { callData, callGasLimit: callGas, verificationGasLimit: verificationGas } = operation;
  const calls = decodeAccountCalls(callData) ?? [];
  const transfers = calls.map((call) => readTaggedTransfer(call, network.usdc.address));
  const [first] = transfers;
  const items = transfers.flatMap((transfer) =>
    transfer && transfer.tail === first?.tail ? [transfer] : [],
  );
  if (!first || items.length < transfers.length) return undefined;
  const [tag, linkTag] = [first.tail.slice(0, TAG_DIGITS), first.tail.slice(TAG_DIGITS)];
  return {
    ...{ callData, callGas, verificationGas, tag: `0x${tag}` },
    linkTag: linkTag === "" ? undefined : `0x${linkTag}`,
    items: items.map(({ to, amountUnits }) => ({ to, amountUnits })),
  };
}

/** The `handleOps` calls of a relay: the call itself, or those that Multicall3 makes. */
function bundlesOf({ to, input }: VerifiedTransaction): Hex[] {
  if (to === CONTRACTS.entryPointV06) return [input];
  if (to !== CONTRACTS.multicall3 || !isFirstArrayWithin(input, RELAY_CALLS)) return [];
  try {
    const { args } = decodeFunctionData({ abi: AGGREGATE3_ABI, data: input });
    const bundles = args[0].filter(({ target }) => target.toLowerCase() === CONTRACTS.entryPointV06);
    return bundles.map(({ callData }) => callData);
  } catch {
    // not aggregate3, so not one of our relays
    return [];
  }
}

function operationsOf(bundle: Hex) {
  if (!isFirstArrayWithin(bundle, BUNDLE_OPERATIONS)) return [];
  try {
    return decodeFunctionData({ abi: HANDLE_OPS_ABI, data: bundle }).args[0];
  } catch {
    // no call of the EntryPoint
    return [];
  }
}

function readTaggedTransfer(
  { to: target, data }: InnerCall,
  usdc: Hex,
): (OperationItem & { tail: string }) | undefined {
  const tail = data.slice(TRANSFER_DIGITS);
  if (target !== usdc || (tail.length !== TAG_DIGITS && tail.length !== 2 * TAG_DIGITS)) return undefined;
  const to: Hex = `0x${data.slice(ADDRESS_AT, AMOUNT_AT)}`;
  const amountUnits = BigInt(`0x${data.slice(AMOUNT_AT, TRANSFER_DIGITS)}`);
  // never prepared here: what no row can hold would stop the indexer at its block
  if (amountUnits === 0n || amountUnits >= AMOUNT_END_UNITS) return undefined;
  return data.startsWith(encodeTransfer(to, amountUnits)) ? { to, amountUnits, tail } : undefined;
}
