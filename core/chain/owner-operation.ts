/**
 * User operations that change an account's owners. Those for every chain are signed over a hash without the chain's id, under a nonce
 * key of their own: the same signature is valid wherever the account has that nonce (Coinbase Smart Wallet v1.1).
 */
import type { Hex } from "../domain/networks.ts";
import { encodeAccountCalls, encodeAnyChainCalls } from "./passkey-account.ts";
import { type UserOperation, unsignedOperation } from "./user-operation.ts";

/** `REPLAYABLE_NONCE_KEY` of the account: nonces of this key, and only these, belong to operations for every chain. */
export const ANY_CHAIN_NONCE_KEY = 8453n;
/** Adding a passkey as an account's first operation uses 110,000 inside the call; unused gas is not paid for. */
const CALL_GAS = 250_000n;

/** `call`: as `encodeAddOwner` or `encodeRemoveOwner` returns it; `tag` is appended to it. */
type OwnerCall = { sender: Hex; nonce: bigint; call: Hex; tag: Hex };

/** The account calls itself, on one chain. */
export function buildOwnerOperation({ sender, nonce, call, tag }: OwnerCall): UserOperation {
  const callData = encodeAccountCalls([{ to: sender, data: tagged(call, tag) }]);
  return unsignedOperation({ sender, nonce, callData, callGasLimit: CALL_GAS });
}

/** The same for every chain. `nonce` is of ANY_CHAIN_NONCE_KEY. */
export function buildAnyChainOperation({ sender, nonce, call, tag }: OwnerCall): UserOperation {
  if (nonce >> 64n !== ANY_CHAIN_NONCE_KEY)
    throw new RangeError(`nonce ${nonce} does not belong to the key for every chain`);
  const callData = encodeAnyChainCalls([tagged(call, tag)]);
  return unsignedOperation({ sender, nonce, callData, callGasLimit: CALL_GAS });
}

/** The account's functions ignore what stands behind their arguments. */
function tagged(call: Hex, tag: Hex): Hex {
  return `${call}${tag.slice(2)}`;
}
