/** A node's answer about a transaction is trusted only as far as its hash and signature prove it. */
import { beforeAll, describe, expect, test } from "bun:test";
import {
  type AuthorizationList,
  keccak256,
  parseTransaction,
  type SerializeTransactionFn,
  serializeTransaction,
  type TransactionSerializable,
  toHex,
} from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { verifyTransaction } from "../../core/chain/verify-transaction.ts";
import type { Hex } from "../../core/domain/networks.ts";

const TO: Hex = `0x${"7e".repeat(20)}`;
const DATA: Hex = `0xa9059cbb${"00".repeat(64)}${"ab".repeat(16)}`;
const account = privateKeyToAccount(generatePrivateKey());
const sender = account.address.toLowerCase() as Hex;

type RpcAnswer = Record<string, unknown>;

const fees = { maxFeePerGas: 2_000_000_000n, maxPriorityFeePerGas: 7n };
const common = { nonce: 3, gas: 90_000n, to: TO, value: 5n, data: DATA };
let authorizationList: AuthorizationList<number, true>;

beforeAll(async () => {
  const other = privateKeyToAccount(generatePrivateKey());
  authorizationList = [await other.signAuthorization({ address: TO, chainId: 84532, nonce: 0 })];
});

const kinds: [string, () => TransactionSerializable][] = [
  ["legacy without a chain id", () => ({ ...common, type: "legacy", gasPrice: 9n })],
  ["legacy (EIP-155)", () => ({ ...common, type: "legacy", gasPrice: 9n, chainId: 84532 })],
  [
    "type 1 (EIP-2930)",
    () => ({ ...common, type: "eip2930", gasPrice: 9n, chainId: 84532, accessList: access }),
  ],
  ["type 2 (EIP-1559)", () => ({ ...common, type: "eip1559", chainId: 84532, ...fees })],
  [
    "type 3 (EIP-4844)",
    () => ({
      ...{ ...common, type: "eip4844", chainId: 84532, ...fees, maxFeePerBlobGas: 11n },
      blobVersionedHashes: [`0x01${"cd".repeat(31)}` as Hex],
    }),
  ],
  ["type 4 (EIP-7702)", () => ({ ...common, type: "eip7702", chainId: 84532, ...fees, authorizationList })],
];
const access = [{ address: TO, storageKeys: [`0x${"01".repeat(32)}` as Hex] }];

/** A signed transaction's hash, and how a node answers it (execution-apis `eth_getTransactionByHash`). */
async function sign(transaction: TransactionSerializable): Promise<{ hash: Hex; answer: RpcAnswer }> {
  const serializer: SerializeTransactionFn<TransactionSerializable> = serializeTransaction;
  const raw = await account.signTransaction(transaction, { serializer });
  const parsed = parseTransaction(raw) as RpcAnswer;
  const { v, yParity, authorizationList: list, type, data, ...rest } = parsed;
  const numbers = Object.entries(rest).map(([name, value]) => [
    name,
    typeof value === "bigint" || typeof value === "number" ? toHex(value) : value,
  ]);
  const isLegacy = type === "legacy";
  const parity = toHex(Number(yParity ?? 0));
  return {
    hash: keccak256(raw),
    answer: {
      ...{ nonce: "0x0", accessList: isLegacy ? undefined : [] },
      ...Object.fromEntries(numbers),
      ...{ type: TYPE_BYTES[String(type)], input: data, from: sender, hash: keccak256(raw) },
      ...(isLegacy ? { v: toHex(v as bigint) } : { v: parity, yParity: parity }),
      ...(Array.isArray(list) ? { authorizationList: list.map(toRpcAuthorization) } : {}),
    },
  };
}

const TYPE_BYTES: Record<string, string> = {
  ...{ legacy: "0x0", eip2930: "0x1", eip1559: "0x2", eip4844: "0x3", eip7702: "0x4" },
};

function toRpcAuthorization(one: RpcAnswer): RpcAnswer {
  const { address, r, s } = one;
  return {
    ...{ address, r, s, yParity: toHex(Number(one.yParity)) },
    ...{ chainId: toHex(Number(one.chainId)), nonce: toHex(Number(one.nonce)) },
  };
}

describe.each(kinds)("a transaction: %s", (_, make) => {
  test("is verified with the sender recovered from its signature", async () => {
    for (let round = 0; round < 4; round++) {
      const { hash, answer } = await sign({ ...make(), nonce: round });
      const expected = { from: sender, to: TO, input: DATA };
      expect(verifyTransaction(answer, hash)).toEqual(expected);
      // the node's own sender field is not read
      expect(verifyTransaction({ ...answer, from: TO }, hash)).toEqual(expected);
      expect(verifyTransaction({ ...answer, from: undefined }, hash)).toEqual(expected);
    }
  });

  test("with one field changed is not verified", async () => {
    const { hash, answer } = await sign(make());
    const lies: RpcAnswer[] = [
      { input: `${DATA.slice(0, -2)}ac` },
      { input: DATA.slice(0, -2) },
      { to: `0x${"7f".repeat(20)}` },
      { to: null },
      { nonce: "0x4" },
      { value: "0x6" },
      { r: `0x${"11".repeat(32)}` },
      { s: `0x${"11".repeat(32)}` },
      { v: answer.v === "0x0" ? "0x1" : toHex(Number(answer.v) ^ 1), yParity: flip(answer.yParity) },
    ];
    for (const lie of lies)
      expect({ lie, proven: verifyTransaction({ ...answer, ...lie }, hash) }).toEqual({
        lie,
        proven: undefined,
      });
    expect(verifyTransaction(answer, `0x${"00".repeat(32)}`)).toBeUndefined();
  });
});

function flip(yParity: unknown): string | undefined {
  if (yParity === undefined) return undefined;
  return yParity === "0x0" ? "0x1" : "0x0";
}

test("a contract creation has no recipient", async () => {
  const { to: _, ...creation } = common;
  const { hash, answer } = await sign({ ...creation, type: "eip1559", chainId: 84532, ...fees });
  expect(verifyTransaction({ ...answer, to: null }, hash)).toEqual({
    from: sender,
    to: undefined,
    input: DATA,
  });
});

test("error: malformed input is not verified", () => {
  for (const answer of [null, undefined, {}, "0x", [], { type: "0x2" }, { type: "0x9", hash: "0x" }])
    expect(verifyTransaction(answer, `0x${"00".repeat(32)}`)).toBeUndefined();
});

describe("a deposit of the OP stack", () => {
  // rlp([sourceHash, from, to, mint, value, gas, isSystemTx, data]) behind 0x7e, put together by hand from the specification
  const sourceHash: Hex = `0x${"aa".repeat(32)}`;
  const from: Hex = `0x${"bb".repeat(20)}`;
  const body = `a0${"aa".repeat(32)}94${"bb".repeat(20)}94${TO.slice(2)}80058301d4c080820102`;
  const hash = keccak256(`0x7ef8${(body.length / 2).toString(16)}${body}`);
  const answer = {
    ...{ type: "0x7e", sourceHash, from, to: TO, mint: "0x0", value: "0x5", gas: "0x1d4c0", input: "0x0102" },
    ...{ nonce: "0x0", gasPrice: "0x0", r: "0x0", s: "0x0", v: "0x0", isSystemTx: false },
  };

  test("is verified with the hashed sender", () => {
    expect(verifyTransaction(answer, hash)).toEqual({ from, to: TO, input: "0x0102" });
  });

  test("with another sender or input is not verified", () => {
    expect(verifyTransaction({ ...answer, from: TO }, hash)).toBeUndefined();
    expect(verifyTransaction({ ...answer, input: "0x0103" }, hash)).toBeUndefined();
  });
});
