/**
 * What a passkey signs: the hash of a user operation, as `getUserOpHash` of EntryPoint v0.6 computes it. It covers sender, nonce, call data,
 * gas limits, fees, EntryPoint and chain, so the signature is valid for exactly the recipients and amounts in the call data, once, on one chain.
 * The API stores the hash as the challenge (api/wallet-ops/prepare-operation.ts) and computes it again from the row before it verifies the
 * signature (api/wallet-ops/confirm-operation.ts). Owner changes on every chain leave the chain out: owner-operation.ts.
 */
import { encodeAbiParameters } from "viem-modules/utils/abi/encodeAbiParameters.js";
import { keccak256 } from "viem-modules/utils/hash/keccak256.js";
import { CONTRACTS, type Hex } from "../domain/networks.ts";
import type { UserOperation } from "./user-operation.ts";

/** What the hash is made of; also of an operation that others prepared. */
type SignedFields = Omit<UserOperation, "signature" | "initCode" | "paymasterAndData"> & {
  readonly initCode: Hex;
  readonly paymasterAndData: Hex;
};

/** Encoded here and not by viem, whose function loads everything that viem has. */
const PACKED_FIELDS = [
  { type: "address" },
  { type: "uint256" },
  { type: "bytes32" },
  { type: "bytes32" },
  { type: "uint256" },
  { type: "uint256" },
  { type: "uint256" },
  { type: "uint256" },
  { type: "uint256" },
  { type: "bytes32" },
] as const;
const HASHED_FIELDS = [{ type: "bytes32" }, { type: "address" }, { type: "uint256" }] as const;

/** The 32 bytes that are the WebAuthn challenge of a send. Independent of the signature. */
export function userOperationHash(operation: SignedFields, chainId: number): Hex {
  const packed = encodeAbiParameters(PACKED_FIELDS, [
    operation.sender,
    operation.nonce,
    keccak256(operation.initCode),
    keccak256(operation.callData),
    operation.callGasLimit,
    operation.verificationGasLimit,
    operation.preVerificationGas,
    operation.maxFeePerGas,
    operation.maxPriorityFeePerGas,
    keccak256(operation.paymasterAndData),
  ]);
  const fields = [keccak256(packed), CONTRACTS.entryPointV06, BigInt(chainId)] as const;
  return keccak256(encodeAbiParameters(HASHED_FIELDS, fields));
}
