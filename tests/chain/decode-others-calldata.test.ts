/** Calldata of others, canonical and mutated: read as viem reads it, never thrown at, and at a cost that its own size bounds. */
import { expect, test } from "bun:test";
import { decodeFunctionData, encodeFunctionData, multicall3Abi, parseAbi } from "viem";
import { entryPoint06Abi } from "viem/account-abstraction";
import { hexWord, uintWord } from "../../core/chain/abi-words.ts";
import { carriedOperations } from "../../core/chain/executed-operations.ts";
import { CALLS_MAX, decodeAccountCalls } from "../../core/chain/passkey-account.ts";
import { userOperationHash } from "../../core/chain/user-operation-hash.ts";
import { CONTRACTS, type Hex, NETWORKS } from "../../core/domain/networks.ts";
import { roundsOf } from "../support/depth.ts";
import { fastestMs } from "../support/fastest-ms.ts";
import { seededRandom } from "../support/seeded-random.ts";

const network = NETWORKS["base-sepolia"];
const ABI = parseAbi([
  "function execute(address target, uint256 value, bytes data)",
  "struct Call { address target; uint256 value; bytes data; }",
  "function executeBatch(Call[] calls)",
]);
const ROUNDS = roundsOf({ few: 600, many: 60_000 });
/** Of the largest transaction that nodes pass on. */
const INPUT_BYTES = 128 * 1_024;
const INPUT_DIGITS = 2 + 2 * INPUT_BYTES;
const REFUSED_WITHIN_MS = 100;
const random = seededRandom("calldata");
const below = (end: number) => Math.floor(random() * end);
const pick = <Value>(values: readonly Value[]) => values[below(values.length)] as Value;
const bytes = (count: number): Hex =>
  `0x${Buffer.from(Array.from({ length: count }, () => below(256))).toString("hex")}`;

type Call = { target: Hex; value: bigint; data: Hex };

function someCalls(): Call[] {
  const count = random() < 0.05 ? CALLS_MAX - 5 + below(10) : 1 + below(5);
  return Array.from({ length: count }, () => ({
    ...{ target: bytes(20), value: random() < 0.95 ? 0n : 1n },
    data: bytes(pick([0, 68, 84, 100, below(140)])),
  }));
}

function encodeCalls(calls: readonly Call[]): Hex {
  const [only] = calls;
  return only && calls.length === 1 && random() < 0.8
    ? encodeFunctionData({ abi: ABI, functionName: "execute", args: [only.target, only.value, only.data] })
    : encodeFunctionData({ abi: ABI, functionName: "executeBatch", args: [calls] });
}

/** A flipped bit, a cut end, bytes put in or behind, an offset or a length that is another. */
function mutate(data: Hex): Hex {
  const raw = Buffer.from(data.slice(2), "hex");
  const at = below(raw.length);
  const kind = below(5);
  const cut = (end: number, more: Hex) => `${data.slice(0, 2 + 2 * end)}${more.slice(2)}` as const;
  if (kind === 0) return cut(at, "0x") as Hex;
  if (kind === 1) return cut(raw.length, bytes(below(70))) as Hex;
  if (kind === 2) return `${cut(at, bytes(1 + below(33)))}${data.slice(2 + 2 * at)}` as Hex;
  if (kind === 3) {
    raw[at] = (raw[at] ?? 0) ^ (1 << below(8));
    return `0x${raw.toString("hex")}`;
  }
  const word = 4 + 32 * below(Math.max(1, Math.floor((raw.length - 4) / 32)));
  const value = pick([0n, 32n, 64n, 96n, BigInt(raw.length), 2n ** 31n, 2n ** 53n, 2n ** 256n - 1n]);
  Buffer.from(uintWord(value), "hex").copy(raw, word);
  return `0x${raw.toString("hex")}`;
}

/** By viem alone; undefined where it throws. */
function readByViem(data: Hex): Call[] | undefined {
  try {
    const { functionName, args } = decodeFunctionData({ abi: ABI, data });
    return functionName === "execute" ? [{ target: args[0], value: args[1], data: args[2] }] : [...args[0]];
  } catch {
    return undefined;
  }
}

const allowed = (calls: readonly Call[] | undefined) =>
  calls && calls.length <= CALLS_MAX && calls.every(({ value }) => value === 0n)
    ? calls.map(({ target, data }) => ({ to: target.toLowerCase(), data }))
    : undefined;
/** The digits that calls take where each byte is there once: in an array an offset, three words and a length for each beside its data. */
const sizeOf = (calls: readonly Call[]) => calls.reduce((digits, { data }) => digits + data.length + 318, 0);
const BATCH_SELECTOR = encodeFunctionData({ abi: ABI, functionName: "executeBatch", args: [[]] }).slice(
  0,
  10,
);

test("calls decode as they were encoded, and mutated ones as viem decodes them, unless they share bytes", () => {
  let mutated = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const calls = someCalls();
    const data = encodeCalls(calls);
    expect<unknown>(decodeAccountCalls(data)).toEqual(allowed(calls));
    let other = data;
    for (let left = 1 + below(3); left > 0 && other.length > 10; left--) other = mutate(other);
    const read = decodeAccountCalls(other);
    const expected = readByViem(other);
    if (read) mutated += 1;
    const isShared = other.startsWith(BATCH_SELECTOR) && expected && sizeOf(expected) > other.length;
    if (read || !isShared) expect<unknown>(read).toEqual(allowed(expected));
  }
  // the rounds were about something
  expect(mutated).toBeGreaterThan(ROUNDS / 20);
});

test("operations are found by their hash in bundles and relays, and mutated ones never throw", () => {
  for (let round = 0; round < ROUNDS / 4; round++) {
    const operation = {
      ...{ sender: bytes(20), nonce: BigInt(below(99)), callData: encodeCalls(someCalls()) },
      ...{ initCode: "0x" as Hex, paymasterAndData: "0x" as Hex, signature: bytes(below(200)) },
      ...{ callGasLimit: 1n, verificationGasLimit: 2n, preVerificationGas: 0n },
      ...{ maxFeePerGas: 0n, maxPriorityFeePerGas: 0n },
    };
    const bundle = encodeFunctionData({
      ...{ abi: entryPoint06Abi, functionName: "handleOps", args: [[operation], operation.sender] },
    });
    const calls = Array.from({ length: 1 + below(4) }, () => ({
      ...{ target: bytes(20), allowFailure: true, callData: bytes(below(300)) },
    }));
    calls[below(calls.length)] = { target: CONTRACTS.entryPointV06, allowFailure: true, callData: bundle };
    const relay = encodeFunctionData({ abi: multicall3Abi, functionName: "aggregate3", args: [calls] });
    const hash = userOperationHash(operation, network.chainId);
    for (const [to, input] of [
      [CONTRACTS.entryPointV06, bundle],
      [CONTRACTS.multicall3, relay],
    ] as const) {
      expect([...carriedOperations({ from: to, to, input }, network).keys()]).toEqual([hash]);
      const other = mutate(mutate(input));
      expect(carriedOperations({ from: to, to, input: other }, network).size).toBeLessThanOrEqual(1);
    }
  }
});

/** An array whose elements all lie at the same words and end with the rest of the transaction. `head`: the element's words. */
function shared(
  selector: string,
  count: number,
  { before = "", head }: { before?: string; head: string },
): Hex {
  const offsets = uintWord(32 * count).repeat(count);
  const start = `0x${selector}${uintWord(32 + before.length / 2)}${before}${uintWord(count)}${offsets}${head}`;
  const rest = Math.floor((INPUT_DIGITS - start.length) / 2) - 32;
  return `${start}${uintWord(rest)}${"ab".repeat(rest)}` as Hex;
}

const address = hexWord(CONTRACTS.entryPointV06);
const call = `${address}${uintWord(0)}${uintWord(96)}`;
const operation = [address, uintWord(0), ...[352, 352, 0, 0, 0, 0, 0, 352, 352].map(uintWord)].join("");

test.each([
  ["aggregate3", 256, () => carried(CONTRACTS.multicall3, shared("82ad56cb", 256, { head: call }))],
  [
    "handleOps",
    16,
    () => carried(CONTRACTS.entryPointV06, shared("1fad948c", 16, { before: address, head: operation })),
  ],
  ["executeBatch", 101, () => decodeAccountCalls(shared("34fcd5be", 101, { head: call }))?.length ?? 0],
])(
  "%s of 128 KiB whose %d elements are the same bytes is refused without decoding it",
  (_name, _count, read) => {
    expect(fastestMs(REFUSED_WITHIN_MS, () => expect(read()).toBe(0))).toBeLessThan(REFUSED_WITHIN_MS);
  },
);

function carried(to: Hex, input: Hex): number {
  return carriedOperations({ from: to, to, input }, network).size;
}
