/** Which relayer key may send the next transaction: pending ones have not been paid for yet. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { type Chain, openChain } from "../../core/rpc/chain-client.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import { insertRelay } from "../../db/relays/relays.ts";
import { callRpc } from "../../local/chain/rpc.ts";
import { openLanes } from "../../worker/sender/relayer-lanes.ts";
import { noteSigned, noteSignerFailure } from "../../worker/sender/signer-failures.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { randomHash } from "../support/ledger-lab.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { randomAddress } from "../support/seed.ts";

const NETWORK = "base-sepolia";
const GAS = 100_000n;
const ONE_ETH = 10n ** 18n;
let db: TestDatabase;
let sql: Sql;
let node: TestChain;
let chain: Chain;
/** What a unit of gas is offered: above the base fee, below what would be offered without a cap. */
let feeWei: bigint;
let keys: { address: Hex; privateKey: Hex }[];

beforeAll(async () => {
  [db, node] = await Promise.all([createTestDatabase(), startTestChain()]);
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
  chain = openChain({ network: NETWORK, urls: [node.rpcUrl], timeoutMs: 10_000 });
  const { baseFeePerGas } = await openLanes(sql, chain, [], {
    maxFeeWei: ONE_ETH,
    dailyFeeMaxWei: undefined,
  }).readMarket();
  feeWei = (baseFeePerGas * 3n) / 2n;
});
beforeEach(() => {
  keys = Array.from({ length: 2 }, () => ({ address: randomAddress(), privateKey: randomHash() }));
});
afterAll(async () => {
  chain?.close();
  await sql?.end({ timeout: 5 });
  await Promise.all([db?.drop(), node?.stop()]);
});

/** The key chosen for one more transaction, by its place. */
async function choose(count = 1): Promise<number | string> {
  const own = keys.slice(0, count);
  const lanes = openLanes(sql, chain, own, { maxFeeWei: feeWei, dailyFeeMaxWei: undefined });
  const chosen = await lanes.choose(GAS);
  return typeof chosen === "string" ? chosen : own.findIndex(({ address }) => address === chosen.address);
}

/** Enough for this much gas at what is offered, and no wei more. */
async function fund(key: number, gas: bigint): Promise<void> {
  const balance = `0x${(gas * feeWei).toString(16)}`;
  await callRpc(node.rpcUrl, "anvil_setBalance", [keys[key]?.address, balance]);
}

async function send(key: number, gasLimit: bigint, nonce = 0n): Promise<bigint> {
  const relayer = keys[key]?.address ?? "0x";
  return sql.begin(async (tx) => {
    await ensureLane(tx, { network: NETWORK, relayer }, 0n);
    return insertRelay(tx, {
      ...{ network: NETWORK, relayer, nonce, kind: "PAYMENTS", callTo: randomAddress(), callData: "0x" },
      ...{
        gasLimit,
        attempt: { txHash: randomHash(), raw: "0x", maxFeePerGas: feeWei, maxPriorityFeePerGas: 1n },
      },
    });
  });
}

test("a key with exactly the gas for one transaction sends one; with a unit less, none", async () => {
  await fund(0, GAS);
  expect(await choose()).toBe(0);
  await fund(0, GAS - 1n);
  expect(await choose()).toBe("insufficient_gas_funds");
});

test("a key sends another one only with gas for both, until the first is in a block", async () => {
  await fund(0, 2n * GAS);
  const relayId = await send(0, GAS);
  expect(await choose()).toBe(0);
  await fund(0, 2n * GAS - 1n);
  expect(await choose()).toBe("insufficient_gas_funds");
  await sql`update relays set state = 'MINED', block_number = 1, block_hash = '0x' where id = ${relayId}`;
  expect(await choose()).toBe(0);
});

test("a key whose balance is reserved by pending transactions leaves the next one to another key", async () => {
  await fund(0, GAS);
  await fund(1, GAS);
  await send(0, 1n);
  expect(await choose(2)).toBe(1);
});

test("a key has at most 16 transactions that are not in a block", async () => {
  await fund(0, 100n * GAS);
  for (let nonce = 0n; nonce < 15n; nonce++) await send(0, 1n, nonce);
  expect(await choose()).toBe(0);
  await send(0, 1n, 15n);
  expect(await choose()).toBe("lanes_full");
});

test("nothing is sent at a base fee above the cap, nor beyond the day's budget; at either it is", async () => {
  await fund(0, 2n * GAS);
  const chosen = async (maxFeeWei: bigint, dailyFeeMaxWei?: bigint) => {
    const lanes = openLanes(sql, chain, keys.slice(0, 1), { maxFeeWei, dailyFeeMaxWei });
    const key = await lanes.choose(GAS);
    return typeof key === "string" ? key : key.address;
  };
  const baseFee = (feeWei * 2n + 2n) / 3n;
  const address = keys[0]?.address ?? "0x";
  expect(await chosen(baseFee)).toBe(address);
  expect(await chosen(baseFee - 1n)).toBe("gas_price_above_cap");
  expect(await chosen(feeWei, GAS * feeWei)).toBe(address);
  expect(await chosen(feeWei, GAS * feeWei - 1n)).toBe("daily_budget_exhausted");
});

test("behavior: a key whose signer just failed is chosen only if no other can send, and again once it has signed", async () => {
  await fund(0, 2n * GAS);
  await fund(1, 2n * GAS);
  const [first = { address: randomAddress() }] = keys;
  const remote = {
    ...{ address: first.address, signerUrl: "http://127.0.0.1:1/lanes" },
    signerVariable: "RELAYER_SIGNER_URL",
  };
  const own = [remote, ...keys.slice(1)];
  const lanes = openLanes(sql, chain, own, { maxFeeWei: feeWei, dailyFeeMaxWei: undefined });
  await send(1, GAS);
  const chosen = async () => {
    const key = await lanes.choose(GAS);
    return typeof key === "string" ? key : key.address;
  };
  expect(await chosen()).toBe(remote.address);
  noteSignerFailure(remote);
  expect(await chosen()).toBe(keys[1]?.address ?? "0x");
  await fund(1, GAS);
  expect(await openLanes(sql, chain, own, { maxFeeWei: feeWei, dailyFeeMaxWei: undefined }).choose(GAS)).toBe(
    remote,
  );
  noteSigned(remote);
  expect(await chosen()).toBe(remote.address);
});
