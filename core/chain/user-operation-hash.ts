/**
 * What a passkey signs: the hash of a user operation, as `getUserOpHash` of EntryPoint v0.6 computes it. It covers sender, nonce, call data,
 * gas limits, fees, EntryPoint and chain, so the signature is valid for exactly the recipients and amounts in the call data, once, on one chain.
 * The API stores the hash as the challenge (api/wallet-ops/prepare-operation.ts) and computes it again from the row before it verifies the
 * signature (api/wallet-ops/confirm-signed.ts). The hash of an owner change for every chain leaves the chain out.
 */
import { CONTRACTS, type Hex } from "../domain/networks.ts";
import { hexWord, uintWord } from "./abi-words.ts";
import { keccakText } from "./keccak.ts";
import type { UserOperation } from "./user-operation.ts";

/** What the hash is made of; also of an operation that others prepared. */
type SignedFields = Omit<UserOperation, "signature" | "initCode" | "paymasterAndData"> & {
  readonly initCode: Hex;
  readonly paymasterAndData: Hex;
};

/** The 32 bytes that are the WebAuthn challenge of a send. Independent of the signature. */
export function userOperationHash(operation: SignedFields, chainId: number): Hex {
  return `0x${keccakText(packedHash(operation) + ENTRY_POINT + uintWord(chainId))}`;
}

/** What an owner signs for an operation of ANY_CHAIN_NONCE_KEY; equal to the account's `getUserOpHashWithoutChainId`. */
export function anyChainHash(operation: SignedFields): Hex {
  return `0x${keccakText(packedHash(operation) + ENTRY_POINT)}`;
}

const ENTRY_POINT = hexWord(CONTRACTS.entryPointV06);

function packedHash(operation: SignedFields): string {
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
  return keccakText(words.join(""));
}

function hashWord(bytes: Hex): string {
  return keccakText(bytes.slice(2));
}
