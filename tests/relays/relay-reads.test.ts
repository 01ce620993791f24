/** What is read of a relay is its own, and what ends one ends no other: the conditions of the statements, one by one. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Hex } from "../../core/domain/networks.ts";
import { insertBlocks } from "../../db/ledger/blocks.ts";
import { markSigned } from "../../db/payments/queue.ts";
import { ensureLane } from "../../db/relays/nonces.ts";
import {
  confirmRelays,
  findInFlight,
  findNonceGaps,
  hasUnfinished,
  insertAttempt,
  insertRelay,
  markLost,
  readCallData,
  readRaw,
} from "../../db/relays/relays.ts";
import {
  findContradictedRelays,
  findPrunedRelays,
  reopenOrphanedRelays,
  reopenRelays,
} from "../../db/relays/reorganised-relays.ts";
import { asLeased } from "../support/as-leased.ts";
import { accepted, type BooksLab, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";
import { randomAddress, seedLink } from "../support/seed.ts";

const READ_TO = 100;
let lab: BooksLab;
let relayer: Hex;
let nonce: bigint;

beforeAll(async () => {
  lab = await openBooks({ readTo: READ_TO });
  await lab.sql`insert into cursors (network, number, hash, head_number) values ('base', 500, ${randomHash()}, 500)`;
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  await lab.sql`delete from relays`;
  relayer = randomAddress();
  nonce = 0n;
});

let fee = 1n;

async function relay(
  given: { raw?: Hex; callData?: Hex; network?: "base" | typeof NETWORK; by?: Hex } = {},
): Promise<{ id: bigint; txHash: Hex }> {
  const { raw = "0x5a", callData = "0x", network = NETWORK, by = relayer } = given;
  const lane = { network, relayer: by };
  const txHash = randomHash();
  await ensureLane(lab.sql, lane, 0n);
  const id = await insertRelay(lab.sql, {
    ...{ ...lane, nonce: nonce++, kind: "NOOP", callTo: relayer, callData, gasLimit: 1n },
    attempt: { txHash, raw, maxFeePerGas: fee++, maxPriorityFeePerGas: 1n },
  });
  return { id, txHash };
}

const set = ({ id }: { id: bigint }, given: object) =>
  lab.sql`update relays set ${lab.sql(given)} where id = ${id}`;
const mine = (of: { id: bigint }, state: string, block: number, hash = randomHash()) =>
  set(of, { state, block_number: block, block_hash: hash, tx_hash: randomHash() });
const stateOf = async ({ id }: { id: bigint }) => {
  const [row] = await lab.sql<{ state: string }[]>`select state from relays where id = ${id}`;
  return row?.state;
};

test("a relay in flight is listed with its own attempts", async () => {
  const [first, second] = [await relay(), await relay()];
  const attempt = { txHash: randomHash(), raw: "0x5b" as Hex, maxFeePerGas: fee++, maxPriorityFeePerGas: 1n };
  await insertAttempt(lab.sql, first.id, attempt);
  const found = await findInFlight(lab.sql, NETWORK, { after: undefined, limit: 10 });
  expect(found.map(({ attempts }) => attempts.map(({ txHash }) => txHash))).toEqual([
    [first.txHash, attempt.txHash],
    [second.txHash],
  ]);
});

describe("the bytes of a relay", () => {
  test("are those of the attempt, and reading them after they were dropped is an error", async () => {
    const [first, second] = [await relay({ raw: "0x01" }), await relay({ raw: "0x02" })];
    expect([await readRaw(lab.sql, first.txHash), await readRaw(lab.sql, second.txHash)]).toEqual([
      "0x01",
      "0x02",
    ]);
    await lab.sql`update relay_attempts set raw = null where tx_hash = ${first.txHash}`;
    await expect(readRaw(lab.sql, first.txHash)).rejects.toThrow("has its bytes");
  });

  test("contain its own call data, else it is an error: nothing is called with another's data, or a part of it", async () => {
    const [first, second] = [
      await relay({ raw: "0xaa1122bb", callData: "0x1122" }),
      await relay({ raw: "0xaa3344bb", callData: "0x3344" }),
    ];
    expect(await readCallData(lab.sql, first.id)).toBe("0x1122");
    expect(await readCallData(lab.sql, second.id)).toBe("0x3344");
    await lab.sql`update relay_attempts set raw = '\\xaa11' where tx_hash = ${first.txHash}`;
    await expect(readCallData(lab.sql, first.id)).rejects.toThrow("no call data");
    const without = await relay({ raw: "0xaabb", callData: "0x1122" });
    await expect(readCallData(lab.sql, without.id)).rejects.toThrow("no call data");
  });
});

describe("a relay that is mined deep enough", () => {
  const confirm = (provenIds: bigint[]) => confirmRelays(lab.sql, NETWORK, { depthBlocks: 3, provenIds });

  test("is CONFIRMED by its own network's cursor, and none of another network, pending or lost", async () => {
    const [deep, unread, elsewhere] = [await relay(), await relay(), await relay({ network: "base" })];
    const [pending, lost] = [await relay(), await relay()];
    await mine(deep, "MINED", 98);
    await mine(unread, "MINED", 200);
    await mine(elsewhere, "MINED", 98);
    await mine(pending, "BROADCAST", 98);
    await mine(lost, "LOST", 98);
    const all = [deep, unread, elsewhere, pending, lost];
    await confirm(all.map(({ id }) => id));
    expect(await Promise.all(all.map(stateOf))).toEqual(["CONFIRMED", "MINED", "MINED", "BROADCAST", "LOST"]);
  });

  test("does not wait for a payment that another relay carries by now", async () => {
    const [first, second] = [await relay(), await relay()];
    const payment = await accepted(lab, await seedLink(lab.sql, lab.merchant));
    await lab.sql.begin(async (tx) => markSigned(tx, first.id, await asLeased(tx, [payment])));
    await lab.sql`update payments set state = 'QUEUED', relay_id = null where id = ${payment.id}`;
    await lab.sql.begin(async (tx) => markSigned(tx, second.id, await asLeased(tx, [payment])));
    await mine(first, "MINED", 98);
    await confirm([first.id]);
    expect(await stateOf(first)).toBe("CONFIRMED");
    await mine(second, "MINED", 98);
    await confirm([second.id]);
    expect(await stateOf(second)).toBe("MINED");
  });
});

test("only the relay that an external transaction replaced is LOST", async () => {
  const [lost, other] = [await relay(), await relay()];
  expect(await markLost(lab.sql, lost.id, 1n)).toBe(true);
  expect([await stateOf(lost), await stateOf(other)]).toEqual(["LOST", "SIGNED"]);
});

test("missing nonces are those of the key's lane on its own network", async () => {
  const lane = { network: NETWORK, relayer } as const;
  await ensureLane(lab.sql, lane, 2n);
  await ensureLane(lab.sql, { ...lane, network: "base" }, 5n);
  expect(await findNonceGaps(lab.sql, lane, 0n, 10)).toEqual([0n, 1n]);
});

test("a payment in flight contradicts its own network's relay, and none once it is settled", async () => {
  await lab.sql`delete from open_payments`;
  const [first, second] = [await relay(), await relay()];
  for (const one of [first, second]) {
    const payment = await accepted(lab, await seedLink(lab.sql, lab.merchant));
    await lab.sql.begin(async (tx) => markSigned(tx, one.id, await asLeased(tx, [payment])));
    await mine(one, "CONFIRMED", 50);
  }
  const contradicted = async (network: "base" | typeof NETWORK) =>
    (await findContradictedRelays(lab.sql, network, { lanes: [], limit: 10 })).map(({ id }) => id);
  expect([await contradicted(NETWORK), await contradicted("base")]).toEqual([[first.id, second.id], []]);
  // still open, but not carried any more
  await lab.sql`update payments set state = 'QUEUED' where relay_id = ${second.id}`;
  expect(await contradicted(NETWORK)).toEqual([first.id]);
  await lab.sql`delete from open_payments`;
});

test("an unused nonce contradicts only relays of its own key", async () => {
  await lab.sql`delete from open_payments`;
  const other = randomAddress();
  const [own, foreign] = [await relay(), await relay({ by: other })];
  for (const one of [own, foreign]) await mine(one, "CONFIRMED", 50);
  const lanes = [{ relayer, chainNonce: 0n, headNumber: 100n }];
  const found = await findContradictedRelays(lab.sql, NETWORK, { lanes, limit: 10 });
  expect(found.map(({ id }) => id)).toEqual([own.id]);
  await lab.sql`update payments set state = 'FAILED', reason = 'NONCE_USED'`;
  expect(await hasUnfinished(lab.sql, NETWORK, lanes)).toBe(true);
  await set(own, { state: "LOST" });
  expect(await hasUnfinished(lab.sql, NETWORK, lanes)).toBe(false);
  await lab.sql.begin((tx) =>
    insertBlocks(tx, NETWORK, [{ number: 50, hash: randomHash(), parentHash: randomHash(), timeS: 1 }]),
  );
  expect(await findContradictedRelays(lab.sql, NETWORK, { lanes, limit: 10 })).toEqual([]);
});

describe("a relay whose block left the chain", () => {
  const keep = (number: number, hash: Hex, network: "base" | typeof NETWORK = NETWORK) =>
    lab.sql.begin((tx) => insertBlocks(tx, network, [{ number, hash, parentHash: randomHash(), timeS: 1 }]));

  beforeEach(async () => {
    await lab.sql`delete from blocks`;
  });

  test("is reopened by its id, and no other, even where the ledger has another block at its height", async () => {
    const [gone, other] = [await relay(), await relay()];
    const blockHash = randomHash();
    for (const one of [gone, other]) await mine(one, "CONFIRMED", 50, blockHash);
    await keep(50, randomHash());
    expect(await reopenRelays(lab.sql, [{ id: gone.id, blockHash }])).toBe(1);
    expect([await stateOf(gone), await stateOf(other)]).toEqual(["BROADCAST", "CONFIRMED"]);
  });

  test("is reopened by its own network's blocks and cursor, while it is MINED", async () => {
    const [gone, confirmed, elsewhere, unread] = [
      await relay(),
      await relay(),
      await relay({ network: "base" }),
      await relay(),
    ];
    await mine(gone, "MINED", 50);
    await mine(confirmed, "CONFIRMED", 50);
    await mine(elsewhere, "MINED", 50);
    await mine(unread, "MINED", 200);
    for (const number of [50, 200]) await keep(number, randomHash());
    await keep(50, randomHash(), "base");
    expect(await reopenOrphanedRelays(lab.sql, NETWORK)).toBe(1);
    const states = await Promise.all([gone, confirmed, elsewhere, unread].map(stateOf));
    expect(states).toEqual(["BROADCAST", "CONFIRMED", "MINED", "MINED"]);
  });

  test("is read on its own network, where the ledger has pruned its block", async () => {
    const [pruned, elsewhere] = [await relay(), await relay({ network: "base" })];
    for (const one of [pruned, elsewhere]) await mine(one, "MINED", 50);
    expect((await findPrunedRelays(lab.sql, NETWORK, 10)).map(({ id }) => id)).toEqual([pruned.id]);
  });
});
