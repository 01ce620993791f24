/** Relays whose block the ledger or the chain contradicts, without a worker: each beside one that nothing contradicts. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { insertBlocks } from "../../db/ledger/blocks.ts";
import type { LocalKey } from "../../worker/relayer-keys-env.ts";
import { followLedger } from "../../worker/sender/follow-ledger.ts";
import type { RelayNetwork } from "../../worker/sender/relay-network.ts";
import { NETWORK, randomHash, readUpTo } from "../support/ledger-lab.ts";
import { newKey, openSenderLab, type SenderLab, send, stateOf } from "../support/sender-lab.ts";

/** Above every block of these tests. */
const READ_TO = 1_000;
let lab: SenderLab;
let key: LocalKey;
let network: RelayNetwork;

beforeAll(async () => {
  lab = await openSenderLab();
});
beforeEach(async () => {
  await lab.sql`truncate relays, relay_budgets, blocks cascade`;
  await readUpTo(lab, READ_TO);
  key = await newKey(lab);
  network = lab.openNetwork({ keys: [key] });
  lab.warnings.length = 0;
});
afterAll(() => lab?.stop());

/** A relay in a block of the chain; its row says another block with `isOrphaned`. */
async function mined({ state = "MINED", isOrphaned = false } = {}) {
  const relay = await send(network, key);
  await lab.rpc("evm_mine");
  const receipt = (await lab.rpc("eth_getTransactionReceipt", [relay.txHash])) as {
    blockHash: Hex;
    blockNumber: Hex;
  };
  const [number, hash] = [Number(receipt.blockNumber), isOrphaned ? randomHash() : receipt.blockHash];
  await lab.sql`
    update relays
    set state = ${state}, tx_hash = ${relay.txHash}, block_number = ${number}, block_hash = ${hash},
      succeeded = false, gas_used = 1, fee_wei = 1
    where id = ${relay.id}`;
  return { ...relay, number };
}

/** As the chain sees it after a reorganisation: a nonce that it has not used yet. */
const freeNonce = ({ id }: { id: bigint }) => lab.sql`update relays set nonce = nonce + 100 where id = ${id}`;

const ledgerHas = (number: number) =>
  lab.sql.begin((tx) =>
    insertBlocks(tx, NETWORK, [{ number, hash: randomHash(), parentHash: randomHash(), timeS: 1 }]),
  );

test("below what the ledger keeps, a relay in a block of the chain is CONFIRMED, and one in another block pending again", async () => {
  const [canonical, orphaned] = [await mined(), await mined({ isOrphaned: true })];
  await followLedger(network);
  expect([await stateOf(lab, canonical), await stateOf(lab, orphaned)]).toEqual(["CONFIRMED", "BROADCAST"]);
  expect(lab.warnings).toEqual(["blocks of relayed transactions are not canonical"]);
});

test("a relay in a block that the ledger has replaced is pending again", async () => {
  const relay = await mined();
  await ledgerHas(relay.number);
  await followLedger(network);
  expect(await stateOf(lab, relay)).toBe("BROADCAST");
  expect(lab.warnings).toEqual(["blocks of relayed transactions were reorganised away"]);
});

test("a CONFIRMED relay whose nonce is free is pending again unless a node shows it in its block", async () => {
  const proven = await mined({ state: "CONFIRMED" });
  const removed = await mined({ state: "CONFIRMED", isOrphaned: true });
  await Promise.all([freeNonce(proven), freeNonce(removed)]);
  await followLedger(network);
  expect([await stateOf(lab, proven), await stateOf(lab, removed)]).toEqual(["CONFIRMED", "BROADCAST"]);
  expect(lab.warnings).toEqual(["confirmed transactions were reorganised away; pending again"]);
});

test("where the ledger has another block, a CONFIRMED relay whose nonce is free is pending again, whatever a node shows", async () => {
  const relay = await mined({ state: "CONFIRMED" });
  await Promise.all([freeNonce(relay), ledgerHas(relay.number)]);
  await followLedger(network);
  expect(await stateOf(lab, relay)).toBe("BROADCAST");
});

test("without a contradiction no reorganisation is reported", async () => {
  const relay = await mined();
  await followLedger(network);
  await followLedger(network);
  expect(await stateOf(lab, relay)).toBe("CONFIRMED");
  expect(lab.warnings).toEqual([]);
});
