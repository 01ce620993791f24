/** Receipts of our own transactions: which attempt was mined, whether it succeeded, and what it cost. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import type { LocalKey } from "../../worker/relayer-keys-env.ts";
import { findUnproven, readReceipts } from "../../worker/sender/record-receipts.ts";
import type { RelayNetwork } from "../../worker/sender/relay-network.ts";
import { raiseAttempt } from "../../worker/sender/replace-relay.ts";
import { randomHash } from "../support/ledger-lab.ts";
import { FEES, inFlight, newKey, openSenderLab, type SenderLab, send } from "../support/sender-lab.ts";

let lab: SenderLab;
let key: LocalKey;
let network: RelayNetwork;

beforeAll(async () => {
  lab = await openSenderLab();
});
beforeEach(async () => {
  await lab.sql`truncate relays, relay_budgets cascade`;
  key = await newKey(lab);
  network = lab.openNetwork({ keys: [key] });
});
afterEach(() => {
  lab.proxy.fault = () => undefined;
});
afterAll(() => lab?.stop());

type Receipt = { blockHash: Hex; gasUsed: Hex; effectiveGasPrice: Hex };
const receiptOf = (txHash: Hex) => lab.rpc("eth_getTransactionReceipt", [txHash]) as Promise<Receipt>;

type Answer = { id: number; result: unknown };

/** The node's answers, changed one by one. */
function edit(change: (answer: Answer, place: number) => object): void {
  lab.proxy.fault = () => ({
    kind: "edit",
    edit: (answers) => (Array.isArray(answers) ? answers.map(change) : change(answers as Answer, 0)),
  });
}

test("of two attempts, the one in a block is recorded; a relay that is in none has no receipt", async () => {
  const replaced = await send(network, key, { kind: "NOOP", fees: { ...FEES, maxPriorityFeePerGas: 1n } });
  const market = await network.lanes.readMarket();
  const first = await inFlight(lab, replaced);
  await raiseAttempt(network, first, { market, isObsolete: false, isReplaced: false });
  const relay = await inFlight(lab, replaced);
  await lab.rpc("evm_mine");
  const pending = await inFlight(lab, await send(network, key));
  const receipts = await readReceipts(network.chain, [relay, pending]);
  const [, second] = relay.attempts;
  expect(receipts).toHaveLength(1);
  expect(receipts[0]).toMatchObject({ relayId: relay.id, txHash: second?.txHash, succeeded: true });
  expect(receipts[0]?.ageMs).toBe(relay.attempts[0]?.ageMs);
});

test("a transaction costs its gas at the price of its block, and what the chain charges for its data", async () => {
  const sent = await send(network, key);
  const relay = await inFlight(lab, sent);
  await lab.rpc("evm_mine");
  const { gasUsed, effectiveGasPrice } = await receiptOf(sent.txHash);
  const gasWei = BigInt(gasUsed) * BigInt(effectiveGasPrice);
  const [receipt] = await readReceipts(network.chain, [relay]);
  expect(receipt).toMatchObject({ gasUsed: BigInt(gasUsed), feeWei: gasWei, succeeded: false });
  edit((answer) => ({ ...answer, result: { ...(answer.result as object), l1Fee: "0x3e8" } }));
  expect((await readReceipts(network.chain, [relay]))[0]?.feeWei).toBe(gasWei + 1_000n);
});

test("a node's error about one transaction does not hide the receipt of another", async () => {
  const [one, other] = [await send(network, key), await send(network, key)];
  const relays = [await inFlight(lab, one), await inFlight(lab, other)];
  await lab.rpc("evm_mine");
  edit(({ id, ...answer }, place) =>
    place === 0
      ? { id, jsonrpc: "2.0", error: { code: 3, message: "this transaction is not available" } }
      : { id, ...answer },
  );
  expect((await readReceipts(network.chain, relays)).map(({ relayId }) => relayId)).toEqual([other.id]);
});

test("a receipt is unproven when the node has another block for it, or none, and nothing is said without an answer", async () => {
  const [mined, pending] = [await send(network, key), randomHash()];
  await lab.rpc("evm_mine");
  const { blockHash } = await receiptOf(mined.txHash);
  const proven = { ...mined, blockHash };
  const moved = { ...mined, blockHash: randomHash() };
  const absent = { id: 0n, txHash: pending, blockHash };
  expect(await findUnproven(network.chain, [proven, moved, absent])).toEqual([moved, absent]);
  expect(await findUnproven(network.chain, [])).toEqual([]);
  edit(({ id }) => ({
    id,
    jsonrpc: "2.0",
    error: { code: 3, message: "this transaction is not available" },
  }));
  await expect(findUnproven(network.chain, [proven])).rejects.toThrow("not available");
});
