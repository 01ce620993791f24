/** Converts a stored operation to the user operation that the EntryPoint takes. */
import type { UserOperation } from "../../core/chain/user-operation.ts";
import type { OperationView } from "../../db/wallet-ops/operations.ts";

export function toUserOperation(operation: OperationView): UserOperation {
  return {
    sender: operation.walletAddress,
    nonce: operation.accountNonce,
    initCode: "0x",
    callData: operation.callData,
    callGasLimit: operation.callGas,
    verificationGasLimit: operation.verificationGas,
    preVerificationGas: 0n,
    maxFeePerGas: 0n,
    maxPriorityFeePerGas: 0n,
    paymasterAndData: "0x",
    signature: operation.signature ?? "0x",
  };
}
