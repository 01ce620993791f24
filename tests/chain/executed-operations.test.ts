/** What an operation was is read from the transaction that ran it: only from one that makes its hash, and only tagged transfers. */
import { describe, expect, test } from "bun:test";
import { encodeFunctionData, erc20Abi } from "viem";
import { taggedTransfers } from "../../core/chain/account-state.ts";
import { findExecutedOperation } from "../../core/chain/executed-operations.ts";
import type { InnerCall } from "../../core/chain/multicall.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { buildBundleCall, buildUserOperation } from "../../core/chain/user-operation.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";

const network = NETWORKS["base-sepolia"];
const USDC = network.usdc.address;
const [sender, relayer, ann, kim]: Hex[] = ["5c", "7e", "a1", "b2"].map(
  (byte): Hex => `0x${byte.repeat(20)}`,
);
const TAG: Hex = `0x${"3d".repeat(16)}`;
const LINK_TAG = "4e".repeat(16);
const items = [
  { to: ann as Hex, amountUnits: 3_000_000n },
  { to: kim as Hex, amountUnits: 1n },
];

const operationOf = (calls: readonly InnerCall[], nonce = 7n) =>
  buildUserOperation({ sender: sender as Hex, nonce, calls });

/** As the relayer's transaction carries them: by itself, or with others. */
function find(
  calls: readonly InnerCall[],
  others: readonly (readonly InnerCall[])[] = [],
  change: { preVerificationGas?: bigint } = {},
) {
  const [built, ...rest] = [calls, ...others].map((each, nonce) => operationOf(each, BigInt(nonce)));
  if (!built) throw new Error("no operation");
  const operation = { ...built, ...change };
  const { to, data } = buildBundleCall(
    [...rest, operation].map((one) => ({ operation: { ...one, signature: "0x01" as Hex } })),
    relayer as Hex,
  );
  const userOpHash = userOperationHash(operation, network.chainId);
  return {
    to,
    data,
    userOpHash,
    operation,
    found: findExecutedOperation({ from: ann as Hex, to, input: data }, { userOpHash, network }),
  };
}

describe("an operation of ours", () => {
  test.each([
    ["of one transfer", items.slice(0, 1)],
    ["of several", items],
  ])("%s is found with its items, alone and in a relay with others", (_what, given) => {
    const calls = taggedTransfers(USDC, given, TAG);
    for (const others of [[], [taggedTransfers(USDC, items, `0x${"66".repeat(16)}`)]]) {
      const { found, operation } = find(calls, others);
      const { callData, callGasLimit: callGas, verificationGasLimit: verificationGas } = operation;
      expect(found).toEqual({
        ...{ callData, callGas, verificationGas, tag: TAG, linkTag: undefined, items: [...given] },
      });
    }
  });

  test("that is a refund has the tag of its link behind its own", () => {
    const { found } = find(taggedTransfers(USDC, items, `${TAG}${LINK_TAG}`));
    expect([found?.tag, found?.linkTag]).toEqual([TAG, `0x${LINK_TAG}`]);
  });
});

describe("nothing is found", () => {
  const [tagged] = taggedTransfers(USDC, items, TAG) as [InnerCall];
  const approve = encodeFunctionData({ abi: erc20Abi, functionName: "approve", args: [ann as Hex, 5n] });
  test.each([
    ["without a tag", [{ to: USDC, data: encodeTransfer(ann as Hex, 5n) }]],
    ["with a tag of another length", [{ to: USDC, data: `${tagged.data}00` as Hex }]],
    ["of another token", [{ ...tagged, to: kim as Hex }]],
    ["that allows instead of paying", [{ to: USDC, data: `${approve}${TAG.slice(2)}` as Hex }]],
    ["with one call that is no transfer of ours", [tagged, { to: USDC, data: approve }]],
    // a transfer of nothing succeeds; one of more than there is fails, and has its event all the same
    ["that pays nothing", taggedTransfers(USDC, [{ to: ann as Hex, amountUnits: 0n }], TAG)],
    [
      "that pays more than a row holds",
      taggedTransfers(USDC, [{ to: ann as Hex, amountUnits: 2n ** 63n }], TAG),
    ],
    ["with two tags", [tagged, ...taggedTransfers(USDC, items, `0x${"66".repeat(16)}`)]],
  ])("of an operation %s", (_what, calls) => {
    expect(find(calls).found).toBeUndefined();
  });

  test("of one that claims gas which it did not use: the EntryPoint adds it, whatever it is, to the gas of its event", () => {
    expect(find([tagged], [], { preVerificationGas: 2n ** 119n }).found).toBeUndefined();
    expect(find([tagged], [], { preVerificationGas: 0n }).found?.tag).toBe(TAG);
  });

  test("of one that the transaction does not hold, or that another contract was called with", () => {
    const { to, data, userOpHash } = find([tagged]);
    const read = (change: { to?: Hex | undefined; input?: Hex; userOpHash?: Hex }) =>
      findExecutedOperation(
        { from: ann as Hex, to: "to" in change ? change.to : to, input: change.input ?? data },
        { userOpHash: change.userOpHash ?? userOpHash, network },
      );
    expect(read({})?.tag).toBe(TAG);
    expect(read({ userOpHash: `0x${"00".repeat(32)}` })).toBeUndefined();
    expect([kim as Hex, CONTRACTS.multicall3, undefined].map((one) => read({ to: one }))).toEqual([
      ...[undefined, undefined, undefined],
    ]);
    expect(["0x", "0xdeadbeef", approve].map((input) => read({ input: input as Hex }))).toEqual([
      ...[undefined, undefined, undefined],
    ]);
    // the same calls on another network are another operation
    expect(
      findExecutedOperation({ from: ann as Hex, to, input: data }, { userOpHash, network: NETWORKS.base }),
    ).toBeUndefined();
    const elsewhere = find([tagged], [[tagged]]);
    const { userOpHash: hash, data: input } = elsewhere;
    expect(read({ to: CONTRACTS.multicall3, input, userOpHash: hash })?.tag).toBe(TAG);
    expect(read({ to: kim, input, userOpHash: hash })).toBeUndefined();
    const called = input.replaceAll(CONTRACTS.entryPointV06.slice(2), String(kim).slice(2)) as Hex;
    expect(read({ to: CONTRACTS.multicall3, input: called, userOpHash: hash })).toBeUndefined();
  });
});
