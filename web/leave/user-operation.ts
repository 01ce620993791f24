/** The transfer as a user operation (ERC-4337, EntryPoint v0.6), its hash, and its transaction, which anybody may send. */
import {
  decodeAbiParameters,
  decodeErrorResult,
  encodeAbiParameters,
  encodeFunctionData,
  keccak256,
  parseAbi,
} from "viem";
import { CONTRACTS, type Hex } from "../chain/networks.ts";
import type { Account } from "./account.ts";
import { RpcRefusal } from "./rpc.ts";
import { Fault } from "./user-error.ts";

export type Transfer = { readonly to: Hex; readonly amountUnits: bigint };

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
};

export type Transaction = { readonly to: Hex; readonly data: Hex; readonly gas: bigint };

const ABI = parseAbi([
  "struct Op { address sender; uint256 nonce; bytes initCode; bytes callData; uint256 callGasLimit; uint256 verificationGasLimit; uint256 preVerificationGas; uint256 maxFeePerGas; uint256 maxPriorityFeePerGas; bytes paymasterAndData; bytes signature; }",
  "function handleOps(Op[] ops, address beneficiary)",
  "function transfer(address to, uint256 amount) returns (bool)",
  "function execute(address target, uint256 value, bytes data)",
  "function createAccount(bytes[] owners, uint256 nonce) returns (address)",
  "struct Call3 { address target; bool allowFailure; bytes callData; }",
  "function aggregate3(Call3[] calls)",
]);
const ERRORS = parseAbi(["error FailedOp(uint256 opIndex, string reason)", "error Error(string reason)"]);

/** Measured on the deployed contracts; less makes the operation fail and spends its nonce. */
const CALL_GAS = 120_000n;
const VERIFICATION_GAS = 150_000n;
const BUNDLE_GAS = 250_000n;
const CREATE_ACCOUNT_GAS = 300_000n;
const EXECUTE_GAS = 120_000n;
/** Receives the operation's fee, which is 0. It must not be the zero address, and has no code. */
const BENEFICIARY = "0x000000000000000000000000000000000000dead";

export function encodeTransfer({ to, amountUnits }: Transfer): Hex {
  return encodeFunctionData({ abi: ABI, functionName: "transfer", args: [to, amountUnits] });
}

/** The account's call: USDC's `transfer`, without ETH. */
export function encodeExecute({ network }: Account, transfer: Transfer): Hex {
  return encodeFunctionData({
    abi: ABI,
    functionName: "execute",
    args: [network.usdc, 0n, encodeTransfer(transfer)],
  });
}

export function buildOperation(account: Account, transfer: Transfer): UserOperation {
  return {
    sender: account.file.address,
    nonce: account.nonce,
    initCode: "0x",
    callData: encodeExecute(account, transfer),
    callGasLimit: CALL_GAS,
    verificationGasLimit: VERIFICATION_GAS,
    preVerificationGas: 0n,
    maxFeePerGas: 0n,
    maxPriorityFeePerGas: 0n,
    paymasterAndData: "0x",
  };
}

const ADDRESS = { type: "address" } as const;
const UINT = { type: "uint256" } as const;
const WORD = { type: "bytes32" } as const;

/** What the passkey signs: bound to the account, its nonce, the EntryPoint and the chain. */
export function operationHash(operation: UserOperation, chainId: number): Hex {
  const packed = encodeAbiParameters(
    [ADDRESS, UINT, WORD, WORD, UINT, UINT, UINT, UINT, UINT, WORD],
    [
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
    ],
  );
  return keccak256(
    encodeAbiParameters([WORD, ADDRESS, UINT], [keccak256(packed), CONTRACTS.entryPoint, BigInt(chainId)]),
  );
}

/** `handleOps`; for an account that does not exist yet, its deployment first in the same transaction, all or nothing. */
export function buildTransaction(account: Account, operation: UserOperation, signature: Hex): Transaction {
  const gas = operation.callGasLimit + operation.verificationGasLimit + BUNDLE_GAS;
  const data = encodeFunctionData({
    abi: ABI,
    functionName: "handleOps",
    args: [[{ ...operation, signature }], BENEFICIARY],
  });
  if (account.isDeployed) return { to: CONTRACTS.entryPoint, data, gas };
  const { owners, saltNonce } = account.file;
  const create = encodeFunctionData({ abi: ABI, functionName: "createAccount", args: [owners, saltNonce] });
  const calls = [
    { target: CONTRACTS.factory, allowFailure: false, callData: create },
    { target: CONTRACTS.entryPoint, allowFailure: false, callData: data },
  ];
  return {
    to: CONTRACTS.multicall3,
    data: encodeFunctionData({ abi: ABI, functionName: "aggregate3", args: [calls] }),
    gas: gas + CREATE_ACCOUNT_GAS,
  };
}

/** The transaction of an address owner: it calls the account itself. */
export function buildOwnersTransaction(account: Account, transfer: Transfer): Transaction {
  return { to: account.file.address, data: encodeExecute(account, transfer), gas: EXECUTE_GAS };
}

/** Throws Fault with the token's reason when the account's own transfer would fail now. */
export async function simulateTransfer({ rpc, network, file }: Account, transfer: Transfer): Promise<void> {
  const call = { from: file.address, to: network.usdc, data: encodeTransfer(transfer) };
  await simulate(() => rpc.call("eth_call", [call, "latest"]), "USDC would refuse this transfer");
}

/** Throws Fault when the chain would refuse the transaction now. It does not show whether the inner transfer would succeed: see above. */
export async function simulateTransaction(
  { rpc }: Account,
  { to, data, gas }: Transaction,
  from?: Hex,
): Promise<void> {
  const call = { to, data, gas: `0x${gas.toString(16)}`, ...(from ? { from } : {}) };
  await simulate(() => rpc.call("eth_call", [call, "latest"]), "The chain would refuse this transaction");
}

async function simulate(call: () => Promise<unknown>, what: string): Promise<void> {
  try {
    await call();
  } catch (error) {
    if (!(error instanceof RpcRefusal)) throw error;
    throw new Fault(`${what}: ${revertReason(error.data) ?? error.message}`, { cause: error });
  }
}

/** The text inside revert data, also inside Multicall3's; undefined when there is none. */
export function revertReason(data: string | undefined): string | undefined {
  if (!data?.startsWith("0x") || data.length < 10) return undefined;
  try {
    const { errorName, args } = decodeErrorResult({ abi: ERRORS, data: data as Hex });
    return errorName === "FailedOp" ? args[1] : args[0];
  } catch {
    // an error of another contract
    return undefined;
  }
}

const REVERT_FIELDS = [UINT, { type: "bytes" }] as const;

/** The reason in the data of a UserOperationRevertReason log. */
export function operationRevertReason(data: string): string | undefined {
  try {
    return revertReason(decodeAbiParameters(REVERT_FIELDS, data as Hex)[1]);
  } catch {
    // not the EntryPoint's encoding
    return undefined;
  }
}
