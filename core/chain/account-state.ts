/**
 * Reads the state needed for a wallet's next operation, from one node in one batch: nonce, balance, owners, and whether each transfer would
 * succeed.
 */
import { maxUint256 } from "viem";
import type { Hex } from "../domain/networks.ts";
import type { OperationItem } from "../domain/wallet-operation.ts";
import type { Chain } from "../rpc/chain-client.ts";
import { RpcResponseError, RpcTransportError } from "../rpc/errors.ts";
import type { RpcCall, RpcOutcome } from "../rpc/node.ts";
import { parseData, parseQuantity, resultOf } from "../rpc/parse-answers.ts";
import type { InnerCall } from "./multicall.ts";
import { NEXT_OWNER_INDEX_CALL, nonceCall } from "./passkey-account.ts";
import { readOwners } from "./read-owners.ts";
import { explainRevert, type Refusal } from "./revert-reasons.ts";
import { balanceOfCall, encodeTransfer } from "./usdc.ts";

export type AccountState = {
  nonce: bigint;
  /** The node's newest block: what spent the nonces below is in it or under it. */
  headNumber: number;
  balanceUnits: bigint;
  isDeployed: boolean;
  /** By owner index; undefined where an owner was removed. Of an account that is not deployed: empty. */
  owners: (Hex | undefined)[];
  /** One per transfer, in order; undefined when it succeeds on its own. */
  refusals: (Refusal | undefined)[];
  /** Whether each recipient has code. */
  areContracts: boolean[];
};

/** Throws RpcTransportError when no node returns all of it. */
export async function readAccountState(
  chain: Chain,
  account: Hex,
  items: readonly OperationItem[],
): Promise<AccountState> {
  const transfers = items.map(({ to, amountUnits }) => {
    // a larger amount cannot be encoded; no balance covers either
    const units = amountUnits < maxUint256 ? amountUnits : maxUint256;
    return transferCall(account, { to: chain.network.usdc.address, data: encodeTransfer(to, units) });
  });
  const codes = items.map(({ to }): RpcCall => ({ method: "eth_getCode", params: [to, "latest"] }));
  const [nonce, balance, code, next, ...others] = await chain.batch([
    nonceCall(account),
    balanceOfCall(chain, account),
    { method: "eth_getCode", params: [account, "latest"] },
    { method: "eth_call", params: [{ to: account, data: NEXT_OWNER_INDEX_CALL }, "latest"] },
    ...transfers,
    ...codes,
    // last: not below the block that the nonce was read at
    { method: "eth_blockNumber", params: [] },
  ]);
  const head = others.pop();
  const isDeployed = parseData(resultOf(code), "eth_getCode") !== "0x";
  return {
    nonce: parseQuantity(resultOf(nonce), "getNonce"),
    headNumber: Number(parseQuantity(resultOf(head), "eth_blockNumber")),
    balanceUnits: parseQuantity(resultOf(balance), "balanceOf"),
    isDeployed,
    owners: isDeployed
      ? await readOwners(chain, account, parseQuantity(resultOf(next), "nextOwnerIndex"))
      : [],
    refusals: others.slice(0, items.length).map(refusalOf),
    areContracts: others.slice(items.length).map((one) => parseData(resultOf(one), "eth_getCode") !== "0x"),
  };
}

function transferCall(from: Hex, call: InnerCall): RpcCall {
  return { method: "eth_call", params: [{ from, ...call }, "latest"] };
}

function refusalOf(outcome: RpcOutcome | undefined): Refusal | undefined {
  if (outcome?.ok) return undefined;
  if (outcome?.error instanceof RpcResponseError) return explainRevert(outcome.error.data);
  throw outcome?.error ?? new RpcTransportError("malformed", "a transfer's simulation was not answered");
}

/** The transfers of an operation as calls of its account, each with the operation's tag behind its arguments, which the token ignores. */
export function taggedTransfers(usdc: Hex, items: readonly OperationItem[], tag: Hex): InnerCall[] {
  return items.map(({ to, amountUnits }) => ({
    to: usdc,
    data: `${encodeTransfer(to, amountUnits)}${tag.slice(2)}` as Hex,
  }));
}

const BALANCE_OF_SELECTOR = "0x70a08231";

/** A call that only spends the operation's nonce: the account reads its own balance. */
export function emptyCall(usdc: Hex, account: Hex, tag: Hex): InnerCall {
  return { to: usdc, data: `${BALANCE_OF_SELECTOR}${account.slice(2).padStart(64, "0")}${tag.slice(2)}` };
}
