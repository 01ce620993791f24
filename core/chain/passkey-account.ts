/** The smart account a passkey controls (Coinbase Smart Wallet v1.1): its address, owners and calls. */
import { decodeFunctionData } from "viem-modules/utils/abi/decodeFunctionData.js";
import { encodeAbiParameters } from "viem-modules/utils/abi/encodeAbiParameters.js";
import { encodeFunctionData } from "viem-modules/utils/abi/encodeFunctionData.js";
import { CONTRACTS, type Hex } from "../domain/networks.ts";
import type { Chain } from "../rpc/chain-client.ts";
import type { RpcCall } from "../rpc/node.ts";
import { parseQuantity } from "../rpc/parse-answers.ts";
import { hexWord, uintWord } from "./abi-words.ts";
import { isFirstArrayWithin } from "./first-array.ts";
import { keccak256Bytes } from "./keccak.ts";
import type { InnerCall } from "./multicall.ts";
import type { BlockRef } from "./usdc.ts";

/** A point on P-256, each coordinate 32 bytes. */
export type PublicKey = { readonly x: Hex; readonly y: Hex };

/** What determines an account's address. Stored with the account, never recomputed from the current configuration. */
export type AccountOrigin = {
  readonly factory: Hex;
  readonly implementation: Hex;
  /** First owners, as returned by `toOwner` and `toAddressOwner`. */
  readonly owners: readonly Hex[];
  readonly saltNonce: bigint;
};

const CALL = [
  { name: "target", type: "address" },
  { name: "value", type: "uint256" },
  { name: "data", type: "bytes" },
] as const;

/** As the compiler would write it: reading signatures takes 40 ms before code is compiled. */
const ACCOUNT_ABI = [
  accountFunction("createAccount", [
    { name: "owners", type: "bytes[]" },
    { name: "nonce", type: "uint256" },
  ]),
  accountFunction("execute", CALL),
  accountFunction("executeBatch", [{ name: "calls", type: "tuple[]", components: CALL }]),
  accountFunction("addOwnerPublicKey", [
    { name: "x", type: "bytes32" },
    { name: "y", type: "bytes32" },
  ]),
  accountFunction("addOwnerAddress", [{ name: "owner", type: "address" }]),
  accountFunction("removeOwnerAtIndex", [
    { name: "index", type: "uint256" },
    { name: "owner", type: "bytes" },
  ]),
  accountFunction("executeWithoutChainIdValidation", [{ name: "calls", type: "bytes[]" }]),
] as const;

function accountFunction<const Name extends string, const Inputs>(name: Name, inputs: Inputs) {
  return { type: "function", stateMutability: "nonpayable", name, inputs, outputs: [] } as const;
}
const OWNERS_AND_NONCE = [{ type: "bytes[]" }, { type: "uint256" }] as const;
/** Creation code of an ERC-1967 proxy around the implementation's address. */
const PROXY_CODE = [
  "0x603d3d8160223d3973",
  "60095155f3363d3d373d3d363d7f360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc545af43d6000803e6038573d6000fd5b3d6000f3",
] as const;
/** A payout of 100 recipients, and the fee. */
export const CALLS_MAX = 101;
/** Of `executeBatch`: target, value, data. */
const BATCH_CALLS = { elementsMax: CALLS_MAX, words: 3, bytesAt: [2] };
const EXECUTE_SELECTOR = "0xb61d27f6";
const EXECUTE_BATCH_SELECTOR = "0x34fcd5be";
const GET_NONCE_SELECTOR = "0x35567e1a";
const OWNER_AT_INDEX_SELECTOR = "0x8ea69029";
/** Calldata of `nextOwnerIndex()`. */
export const NEXT_OWNER_INDEX_CALL = "0xd948fd2e";
/** Owners that the service adds to an account, counting removed ones. */
export const OWNER_INDEX_MAX = 64;

/** A passkey as an owner: x || y, 64 bytes. */
export function toOwner({ x, y }: PublicKey): Hex {
  if (x.length !== 66 || y.length !== 66) throw new RangeError("a passkey owner is two words of 32 bytes");
  return `${x}${y.slice(2)}`.toLowerCase() as Hex;
}

/** An address as an owner: one word. */
export function toAddressOwner(address: Hex): Hex {
  return `0x${hexWord(address).toLowerCase()}`;
}

/** What determines the address of an account created today. */
export function accountOriginOf(publicKey: PublicKey): AccountOrigin {
  return {
    factory: CONTRACTS.smartWalletFactory,
    implementation: CONTRACTS.smartWalletImplementation,
    owners: [toOwner(publicKey)],
    saltNonce: 0n,
  };
}

/** The account's address, lower case: the same before and after deployment and on every network (CREATE2, EIP-1014). */
export function accountAddress({ factory, implementation, owners, saltNonce }: AccountOrigin): Hex {
  const salt = keccak256Bytes(bytesOf(encodeAbiParameters(OWNERS_AND_NONCE, [owners, saltNonce])));
  const initCodeHash = keccak256Bytes(bytesOf(`${PROXY_CODE[0]}${implementation.slice(2)}${PROXY_CODE[1]}`));
  const preimage = Buffer.concat([Buffer.from([0xff]), bytesOf(factory), salt, initCodeHash]);
  return `0x${Buffer.from(keccak256Bytes(preimage)).toString("hex", 12)}`;
}

/** `createAccount` on the factory: deploys the account; does nothing when it exists. */
export function encodeCreateAccount(owners: readonly Hex[], saltNonce: bigint): Hex {
  return encodeFunctionData({ abi: ACCOUNT_ABI, functionName: "createAccount", args: [owners, saltNonce] });
}

/** The account's calldata for its calls: all succeed or none. No ETH is sent. */
export function encodeAccountCalls(calls: readonly InnerCall[]): Hex {
  const [only] = calls;
  if (!only) throw new RangeError("an account needs at least one call to make");
  if (calls.length === 1) {
    return encodeFunctionData({ abi: ACCOUNT_ABI, functionName: "execute", args: [only.to, 0n, only.data] });
  }
  const args = calls.map(({ to, data }) => ({ target: to, value: 0n, data }));
  return encodeFunctionData({ abi: ACCOUNT_ABI, functionName: "executeBatch", args: [args] });
}

/** The calls in such calldata; undefined when it is none, sends ETH, has more calls than are ever made here, or calls that share bytes. Lower case. */
export function decodeAccountCalls(callData: Hex): InnerCall[] | undefined {
  const isBatch = callData.startsWith(EXECUTE_BATCH_SELECTOR) && isFirstArrayWithin(callData, BATCH_CALLS);
  if (!isBatch && !callData.startsWith(EXECUTE_SELECTOR)) return undefined;
  try {
    const { functionName, args } = decodeFunctionData({ abi: ACCOUNT_ABI, data: callData });
    if (functionName !== "execute" && functionName !== "executeBatch") return undefined;
    const calls = functionName === "execute" ? [{ target: args[0], value: args[1], data: args[2] }] : args[0];
    if (calls.some(({ value }) => value !== 0n)) return undefined;
    return calls.map(({ target, data }) => ({ to: target.toLowerCase() as Hex, data }));
  } catch {
    // viem throws many decoding errors; all of them mean that this is no call of the account's
    return undefined;
  }
}

/** Calls of an account to itself that change its owners. */
export function encodeAddOwner(owner: PublicKey | Hex): Hex {
  return typeof owner === "string"
    ? encodeFunctionData({ abi: ACCOUNT_ABI, functionName: "addOwnerAddress", args: [owner] })
    : encodeFunctionData({ abi: ACCOUNT_ABI, functionName: "addOwnerPublicKey", args: [owner.x, owner.y] });
}

export function encodeRemoveOwner(index: number, owner: Hex): Hex {
  const args = [BigInt(index), owner] as const;
  return encodeFunctionData({ abi: ACCOUNT_ABI, functionName: "removeOwnerAtIndex", args });
}

/** The account's calldata for calls to itself that one signature makes valid on every chain. */
export function encodeAnyChainCalls(calls: readonly Hex[]): Hex {
  return encodeFunctionData({
    abi: ACCOUNT_ABI,
    functionName: "executeWithoutChainIdValidation",
    args: [calls],
  });
}

/** The nonces of the accounts' next user operations of a key (EntryPoint v0.6) at one block, in order. Also defined before deployment. Throws RpcTransportError when one is not answered. */
export async function readAccountNonces(
  chain: Chain,
  accounts: readonly Hex[],
  { key, block }: { key: bigint; block: BlockRef },
): Promise<bigint[]> {
  const outcomes = await chain.batch(accounts.map((account) => nonceCall(account, key, block)));
  return outcomes.map((outcome) => {
    if (!outcome.ok) throw outcome.error;
    return parseQuantity(outcome.result, "getNonce");
  });
}

/** The `eth_call` of one, for callers that put it into a batch with others. */
export function nonceCall(account: Hex, key = 0n, block: BlockRef = "latest"): RpcCall {
  const data = `${GET_NONCE_SELECTOR}${hexWord(account)}${uintWord(key)}`;
  return { method: "eth_call", params: [{ to: CONTRACTS.entryPointV06, data }, block] };
}

export function ownerAtIndexCall(account: Hex, index: number): InnerCall {
  return { to: account, data: `${OWNER_AT_INDEX_SELECTOR}${uintWord(index)}` };
}

function bytesOf(hex: string): Buffer {
  return Buffer.from(hex.slice(2), "hex");
}
