/** What an operation was is read from the transaction that ran it: only from one that makes its hash, and only tagged transfers. */
import { describe, expect, test } from "bun:test";
import { encodeFunctionData, erc20Abi } from "viem";
import { entryPoint06Abi } from "viem/account-abstraction";
import { uintWord } from "../../core/chain/abi-words.ts";
import { taggedTransfers } from "../../core/chain/account-state.ts";
import { carriedOperations, findExecutedOperation } from "../../core/chain/executed-operations.ts";
import { encodeAggregate3, type InnerCall } from "../../core/chain/multicall.ts";
import { encodeAccountCalls } from "../../core/chain/passkey-account.ts";
import { encodeTransfer } from "../../core/chain/usdc.ts";
import { buildBundleCall, buildUserOperation } from "../../core/chain/user-operation.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { fastestMs } from "../support/fastest-ms.ts";

const network = NETWORKS["base-sepolia"];
const USDC = network.usdc.address;
const REFUSED_WITHIN_MS = 1_000;
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

const carried = (to: Hex | undefined, input: Hex, on = network) =>
  carriedOperations({ from: ann as Hex, to, input }, on);

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
    found: findExecutedOperation(carried(to, data), { userOpHash, network }),
  };
}

describe("one of our operations", () => {
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

  test("that is a refund carries its link's tag after its own", () => {
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
    ["that approves instead of paying", [{ to: USDC, data: `${approve}${TAG.slice(2)}` as Hex }]],
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

  test("of one that claims unused gas: the EntryPoint adds it, however much it is, to the gas in its event", () => {
    expect(find([tagged], [], { preVerificationGas: 2n ** 119n }).found).toBeUndefined();
    expect(find([tagged], [], { preVerificationGas: 0n }).found?.tag).toBe(TAG);
  });

  test("of one that the transaction does not contain, or that another contract received", () => {
    const { to, data, userOpHash } = find([tagged]);
    const read = (change: { to?: Hex | undefined; input?: Hex; userOpHash?: Hex }) =>
      findExecutedOperation(carried("to" in change ? change.to : to, change.input ?? data), {
        ...{ userOpHash: change.userOpHash ?? userOpHash, network },
      });
    expect(read({})?.tag).toBe(TAG);
    expect(read({ userOpHash: `0x${"00".repeat(32)}` })).toBeUndefined();
    expect([kim as Hex, CONTRACTS.multicall3, undefined].map((one) => read({ to: one }))).toEqual([
      ...[undefined, undefined, undefined],
    ]);
    expect(["0x", "0xdeadbeef", approve].map((input) => read({ input: input as Hex }))).toEqual([
      ...[undefined, undefined, undefined],
    ]);
    // the same calls on another network are another operation
    const { base } = NETWORKS;
    expect(findExecutedOperation(carried(to, data, base), { userOpHash, network: base })).toBeUndefined();
    const elsewhere = find([tagged], [[tagged]]);
    const { userOpHash: hash, data: input } = elsewhere;
    expect(read({ to: CONTRACTS.multicall3, input, userOpHash: hash })?.tag).toBe(TAG);
    expect(read({ to: kim, input, userOpHash: hash })).toBeUndefined();
    const called = input.replaceAll(CONTRACTS.entryPointV06.slice(2), String(kim).slice(2)) as Hex;
    expect(read({ to: CONTRACTS.multicall3, input: called, userOpHash: hash })).toBeUndefined();
  });
});

/** Whoever owns a wallet chooses the bytes of a transaction that runs its operation. */
describe("of calldata whose elements share the same bytes", () => {
  const calls = taggedTransfers(USDC, items, TAG);
  const words = (count: number, value: number) => uintWord(value).repeat(count);
  const digitsOf = (data: Hex) => data.slice(10);
  /** Calldata of one array with one element becomes one that names this element `count` times; other arguments: `arguments` words. */
  function repeat(data: Hex, count: number, others = 0): Hex {
    const heads = 64 * (1 + others);
    const element = digitsOf(data).slice(heads + 2 * 64);
    return `${data.slice(0, 10)}${digitsOf(data).slice(0, heads)}${uintWord(count)}${words(count, 32 * count)}${element}` as Hex;
  }
  const relayOf = (bundle: Hex, count = 1) =>
    repeat(encodeAggregate3([{ to: CONTRACTS.entryPointV06, data: bundle }]), count);
  const { data, userOpHash } = find(calls);
  const tagOf = (to: Hex, input: Hex) =>
    findExecutedOperation(carried(to, input), { userOpHash, network })?.tag;

  test("an operation is found when it occurs once, but not when it is repeated many times", () => {
    expect(tagOf(CONTRACTS.multicall3, relayOf(data))).toBe(TAG);
    expect(tagOf(CONTRACTS.multicall3, relayOf(data, 2))).toBeUndefined();
    expect(tagOf(CONTRACTS.entryPointV06, repeat(data, 1, 1))).toBe(TAG);
    expect(tagOf(CONTRACTS.entryPointV06, repeat(data, 16, 1))).toBeUndefined();
  });

  test("one without any bytes, whose fields would be decoded each time, is not found either", () => {
    const empty = { ...operationOf(calls), initCode: "0x", callData: "0x", signature: "0x" } as const;
    const { data: bundle } = buildBundleCall([{ operation: empty }], relayer as Hex);
    const hash = userOperationHash(empty, network.chainId);
    for (const input of [bundle, repeat(bundle, 16, 1)])
      expect(carried(CONTRACTS.entryPointV06, input).has(hash)).toBe(input === bundle);
  });

  test.each([
    ["operations", 16],
    ["calls", 256],
  ])("an operation is found among as many %s as %d, and not among more", (what, most) => {
    const operation = carried(CONTRACTS.entryPointV06, data).get(userOpHash);
    if (!operation) throw new Error("no operation");
    const inputOf = (count: number): [Hex, Hex] => {
      if (what === "calls") {
        const others = Array.from({ length: count - 1 }, () => ({ to: ann as Hex, data: "0x" as Hex }));
        return [CONTRACTS.multicall3, encodeAggregate3([{ to: CONTRACTS.entryPointV06, data }, ...others])];
      }
      const args = [Array.from({ length: count }, () => operation), relayer as Hex] as const;
      return [
        CONTRACTS.entryPointV06,
        encodeFunctionData({ abi: entryPoint06Abi, functionName: "handleOps", args }),
      ];
    };
    expect(tagOf(...inputOf(most))).toBe(TAG);
    expect(tagOf(...inputOf(most + 1))).toBeUndefined();
  });

  test("at most 101 calls of an account are read", () => {
    const operation = carried(CONTRACTS.entryPointV06, data).get(userOpHash);
    if (!operation) throw new Error("no operation");
    const found = (count: number) => {
      const given = Array.from({ length: count }, () => ({ to: ann as Hex, amountUnits: 1n }));
      const many = { ...operation, callData: encodeAccountCalls(taggedTransfers(USDC, given, TAG)) };
      const hash = userOperationHash(many, network.chainId);
      return findExecutedOperation(new Map([[hash, many]]), { network, userOpHash: hash });
    };
    expect(found(101)?.items).toHaveLength(101);
    expect(found(102)).toBeUndefined();
  });

  test("a hundred kilobytes are refused without decoding gigabytes of them", () => {
    const big = operationOf([{ to: USDC, data: `0x${"ab".repeat(90_000)}` }]);
    const { data: bundle } = buildBundleCall(
      [{ operation: { ...big, signature: "0x01" as Hex } }],
      relayer as Hex,
    );
    const relay = relayOf(repeat(bundle, 700, 1), 2);
    const read = () => expect(carried(CONTRACTS.multicall3, relay).size).toBe(0);
    expect(fastestMs(REFUSED_WITHIN_MS, read)).toBeLessThan(REFUSED_WITHIN_MS);
  });

  test("a nested array, such as the EntryPoint takes for aggregated operations, is not decoded either", () => {
    const operation = carried(CONTRACTS.entryPointV06, data).get(userOpHash);
    if (!operation) throw new Error("no operation");
    const big = { ...operation, callData: `0x${"ab".repeat(400_000)}` as Hex };
    const given = [{ userOps: [big], aggregator: ann as Hex, signature: "0x" as Hex }];
    const args = [given, relayer as Hex] as const;
    const once = encodeFunctionData({ abi: entryPoint06Abi, functionName: "handleAggregatedOps", args });
    // behind the arguments, the outer array and the three words of its element
    const at = 10 + 64 * (2 + 2 + 3);
    const input = `${once.slice(0, at)}${uintWord(700)}${words(700, 32 * 700)}${once.slice(at + 2 * 64)}`;
    const read = () => expect(carried(CONTRACTS.entryPointV06, input as Hex).size).toBe(0);
    expect(fastestMs(REFUSED_WITHIN_MS, read)).toBeLessThan(REFUSED_WITHIN_MS);
  });
});
