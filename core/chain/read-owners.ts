/** The owners of a deployed account, a hundred in a call. */
import { decodeAbiParameters } from "viem";
import { conflict } from "../domain/errors.ts";
import { CONTRACTS, type Hex } from "../domain/networks.ts";
import type { Chain } from "../rpc/chain-client.ts";
import type { RpcCall } from "../rpc/node.ts";
import { decodeAggregate3, encodeAggregate3, type InnerResult } from "./multicall.ts";
import { ownerAtIndexCall } from "./passkey-account.ts";

/** An account's owners add and remove owners without this service, and an index is never used again: nothing else bounds their number. */
export const OWNER_INDEXES_READ_MAX = 1_000;
const PAGE = 100;

/** By index; undefined where an owner was removed. `count`: indexes given so far. Throws CONFLICT beyond OWNER_INDEXES_READ_MAX. */
export async function readOwners(chain: Chain, account: Hex, count: bigint): Promise<(Hex | undefined)[]> {
  if (count > OWNER_INDEXES_READ_MAX) throw tooMany(account, count);
  const calls = Array.from({ length: Number(count) }, (_, index) => ownerAtIndexCall(account, index));
  const pages = Array.from({ length: Math.ceil(calls.length / PAGE) }, (_, page) =>
    calls.slice(page * PAGE, (page + 1) * PAGE),
  );
  const outcomes = await chain.batch(pages.map(toCall));
  return outcomes.flatMap((outcome, page) => {
    if (!outcome.ok) throw outcome.error;
    return decodeAggregate3(outcome.result, pages[page]?.length ?? 0).map(toOwner);
  });
}

function toCall(page: readonly { to: Hex; data: Hex }[]): RpcCall {
  const call = { to: CONTRACTS.multicall3, data: encodeAggregate3(page) };
  return { method: "eth_call", params: [call, "latest"] };
}

function toOwner({ success, data }: InnerResult): Hex | undefined {
  if (!success) throw new Error("the account refused ownerAtIndex");
  const [owner] = decodeAbiParameters([{ type: "bytes" }], data);
  return owner === "0x" ? undefined : owner;
}

function tooMany(account: Hex, count: bigint) {
  return conflict(
    `The wallet ${account} has had ${count} owners, counting those that were removed; the service reads at most ${OWNER_INDEXES_READ_MAX}. Its owners can still use it without the service (docs/LEAVING.md)`,
    { issue: "too_many_owners" },
  );
}
