/**
 * User operations that change an account's owners. Those for every chain are signed over a hash without the chain's id, under a nonce
 * key of their own: the same signature is valid wherever the account has that nonce (Coinbase Smart Wallet v1.1).
 */
import type { Hex } from "../domain/networks.ts";
import { CONTRACTS } from "../domain/networks.ts";
import { hexWord, uintWord } from "./abi-words.ts";
import { keccak256Bytes } from "./keccak.ts";
import { encodeAccountCalls, encodeAnyChainCalls } from "./passkey-account.ts";
import type { UserOperation } from "./user-operation.ts";

/** `REPLAYABLE_NONCE_KEY` of the account: nonces of this key, and only these, belong to operations for every chain. */
export const ANY_CHAIN_NONCE_KEY = 8453n;
/** Adding a passkey as an account's first operation uses 110,000 inside the call; unused gas is not paid for. */
const CALL_GAS = 250_000n;
const VERIFICATION_GAS = 150_000n;

/** The account calls itself, on one chain. `call` is what `encodeAddOwner` or `encodeRemoveOwner` returned, `tag` stands behind it. */
export function buildOwnerOperation(given: {
  sender: Hex;
  nonce: bigint;
  call: Hex;
  tag: Hex;
}): UserOperation {
  const { sender, nonce, call, tag } = given;
  return toOperation(sender, nonce, encodeAccountCalls([{ to: sender, data: tagged(call, tag) }]));
}

/** The same for every chain. `nonce` is of ANY_CHAIN_NONCE_KEY. */
export function buildAnyChainOperation(given: {
  sender: Hex;
  nonce: bigint;
  call: Hex;
  tag: Hex;
}): UserOperation {
  const { sender, nonce, call, tag } = given;
  if (nonce >> 64n !== ANY_CHAIN_NONCE_KEY)
    throw new RangeError(`nonce ${nonce} is not of the key for every chain`);
  return toOperation(sender, nonce, encodeAnyChainCalls([tagged(call, tag)]));
}

/** What an owner signs for an operation of ANY_CHAIN_NONCE_KEY; equal to the account's `getUserOpHashWithoutChainId`. */
export function anyChainHash(operation: UserOperation): Hex {
  const words = [
    hexWord(operation.sender),
    uintWord(operation.nonce),
    hashWord(operation.initCode),
    hashWord(operation.callData),
    uintWord(operation.callGasLimit),
    uintWord(operation.verificationGasLimit),
    uintWord(operation.preVerificationGas),
    uintWord(operation.maxFeePerGas),
    uintWord(operation.maxPriorityFeePerGas),
    hashWord(operation.paymasterAndData),
  ];
  return `0x${hashWord(`0x${hashWord(`0x${words.join("")}`)}${hexWord(CONTRACTS.entryPointV06)}`)}`;
}

function toOperation(sender: Hex, nonce: bigint, callData: Hex): UserOperation {
  return {
    sender,
    nonce,
    initCode: "0x",
    callData,
    callGasLimit: CALL_GAS,
    verificationGasLimit: VERIFICATION_GAS,
    preVerificationGas: 0n,
    maxFeePerGas: 0n,
    maxPriorityFeePerGas: 0n,
    paymasterAndData: "0x",
    signature: "0x",
  };
}

/** The account's functions ignore what stands behind their arguments. */
function tagged(call: Hex, tag: Hex): Hex {
  return `${call}${tag.slice(2)}`;
}

function hashWord(bytes: Hex): string {
  return Buffer.from(keccak256Bytes(Buffer.from(bytes.slice(2), "hex"))).toString("hex");
}
