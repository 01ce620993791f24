/** Conditions of the statements that move relays: each with the row that it must leave alone. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import { insertBlocks } from "../../db/ledger/blocks.ts";
import { markSigned } from "../../db/payments/queue.ts";
import { ensureLane, takeNonce } from "../../db/relays/nonces.ts";
import {
  confirmRelays,
  countMiss,
  findInFlight,
  findNonceGaps,
  hasUnfinished,
  insertRelay,
  markLost,
  markMined,
  readLaneLoads,
  recordSend,
} from "../../db/relays/relays.ts";
import {
  findContradictedRelays,
  findPrunedRelays,
  markDropped,
  reopenOrphanedRelays,
  reopenRelays,
} from "../../db/relays/reorganised-relays.ts";
import { asLeased } from "../support/as-leased.ts";
import { accept, type BooksLab, NETWORK, openBooks, randomHash, undoAbove } from "../support/ledger-lab.ts";
import { randomAddress, seedLink } from "../support/seed.ts";

/** The ledger's cursor. */
const READ_TO = 100;
const DEPTH = 3;
/** The newest block that is deep enough. */
const DEEP = READ_TO - DEPTH + 1;
const GAS = 50_000n;
const PENDING = ["SIGNED", "BROADCAST"] as const;
const ENDED = ["MINED", "CONFIRMED", "LOST"] as const;
let lab: BooksLab;
let relayer: Hex;

beforeAll(async () => {
  lab = await openBooks({ readTo: READ_TO });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  await lab.sql`delete from relays`;
  await lab.sql`delete from blocks`;
  relayer = randomAddress();
  await ensureLane(lab.sql, { network: NETWORK, relayer }, 0n);
});

type Relay = { id: bigint; txHash: Hex; blockHash: Hex };
let lastFee = 1n;

/** A transaction of the test's key, in that state; its block is stored only when `isBlockKept`. */
async function relay({
  nonce = 0n,
  state = "SIGNED",
  block = DEEP,
  isBlockKept = true,
  network = NETWORK,
}: {
  nonce?: bigint;
  state?: string;
  block?: number;
  isBlockKept?: boolean;
  network?: NetworkId;
} = {}): Promise<Relay> {
  const [txHash, blockHash] = [randomHash(), randomHash()];
  await ensureLane(lab.sql, { network, relayer }, 0n);
  const id = await insertRelay(lab.sql, {
    ...{ network, relayer, nonce, kind: "NOOP", callTo: relayer, callData: "0x", gasLimit: GAS },
    attempt: { txHash, raw: "0x5a", maxFeePerGas: lastFee++, maxPriorityFeePerGas: 1n },
  });
  const isMined = state === "MINED" || state === "CONFIRMED";
  await lab.sql`
    update relays
    set state = ${state}, tx_hash = ${isMined ? txHash : null}, block_number = ${isMined ? block : null},
      block_hash = ${isMined ? blockHash : null}
    where id = ${id}`;
  if (isMined && isBlockKept) await keepBlock(block, blockHash, network);
  return { id, txHash, blockHash };
}

const keepBlock = (number: number, hash: Hex, network: NetworkId = NETWORK) =>
  lab.sql.begin((tx) => insertBlocks(tx, network, [{ number, hash, parentHash: randomHash(), timeS: 1 }]));

const stateOf = async ({ id }: Relay) => {
  const [row] = await lab.sql<{ state: string }[]>`select state from relays where id = ${id}`;
  return row?.state;
};

/** A payment of the lab's merchant that the relay carries. */
async function carries({ id }: Relay, state: string): Promise<void> {
  const payment = await accept(lab, await seedLink(lab.sql, lab.merchant));
  if (!payment) throw new Error("the link accepted no payment");
  await lab.sql.begin(async (tx) => markSigned(tx, id, await asLeased(tx, [payment])));
  await lab.sql`update payments set state = ${state} where id = ${payment.id}`;
}

describe("a node's answer to a send", () => {
  const answer = ({ id, txHash }: Relay, isAccepted: boolean) =>
    recordSend(lab.sql, id, { txHash, answer: "ok", isAccepted });

  test("an accepted send makes a SIGNED relay BROADCAST, a rejected one leaves it SIGNED; both count as sent", async () => {
    const [accepted, rejected] = [await relay(), await relay({ nonce: 1n })];
    await answer(accepted, true);
    await answer(rejected, false);
    expect([await stateOf(accepted), await stateOf(rejected)]).toEqual(["BROADCAST", "SIGNED"]);
    const rows = await lab.sql`
      select sends from relay_attempts where relay_id in (${accepted.id}, ${rejected.id})`;
    expect([...rows]).toEqual([{ sends: 1 }, { sends: 1 }]);
  });

  test.each(ENDED)("a late answer does not change a relay that is %s", async (state) => {
    const ended = await relay({ state });
    await answer(ended, true);
    expect(await stateOf(ended)).toBe(state);
  });
});

describe("a receipt", () => {
  const receive = ({ id, txHash }: Relay) =>
    markMined(lab.sql, [
      {
        ...{ relayId: id, txHash, blockNumber: 90n, blockHash: randomHash() },
        ...{ succeeded: true, gasUsed: 1n, feeWei: 1n },
      },
    ]);

  test.each(PENDING)("a receipt makes a relay that is %s MINED, and no other of its key", async (state) => {
    const [mined, other] = [await relay({ state }), await relay({ nonce: 1n })];
    await receive(mined);
    expect([await stateOf(mined), await stateOf(other)]).toEqual(["MINED", "SIGNED"]);
  });

  test.each(ENDED)("a late receipt does not change a relay that is %s", async (state) => {
    const ended = await relay({ state });
    const read = () => lab.sql`select state, block_number, block_hash from relays where id = ${ended.id}`;
    const before = [...(await read())];
    await receive(ended);
    expect([...(await read())]).toEqual(before);
  });
});

describe("a nonce that an external transaction used", () => {
  test.each(PENDING)("a relay that is %s is LOST once the ledger has read that far", async (state) => {
    const lost = await relay({ state });
    expect(await markLost(lab.sql, lost.id, BigInt(READ_TO + 1))).toBe(false);
    expect(await stateOf(lost)).toBe(state);
    expect(await markLost(lab.sql, lost.id, BigInt(READ_TO))).toBe(true);
    expect(await stateOf(lost)).toBe("LOST");
  });

  test.each(["MINED", "CONFIRMED"])("a relay that is %s is neither LOST nor missed", async (state) => {
    const mined = await relay({ state });
    expect(await markLost(lab.sql, mined.id, 1n)).toBe(false);
    expect(await countMiss(lab.sql, mined.id)).toBe(0);
    expect(await stateOf(mined)).toBe(state);
  });

  test("a relay is not LOST because the ledger of another network has read that far", async () => {
    const other = await relay({ network: "base" });
    expect(await markLost(lab.sql, other.id, 1n)).toBe(false);
  });

  test("misses of a pending relay are counted", async () => {
    const [one, other] = [await relay({ state: "BROADCAST" }), await relay({ nonce: 1n })];
    expect([await countMiss(lab.sql, one.id), await countMiss(lab.sql, one.id)]).toEqual([1, 2]);
    expect(await countMiss(lab.sql, other.id)).toBe(1);
  });

  test("a relay whose bytes were dropped is LOST while it is pending, not once it is mined", async () => {
    const whole = await relay();
    const dropped = [];
    for (const [index, state] of ["SIGNED", "BROADCAST", "MINED", "CONFIRMED"].entries())
      dropped.push(await relay({ nonce: BigInt(index + 1), state }));
    await lab.sql`update relay_attempts set raw = null where relay_id <> ${whole.id}`;
    const marked: boolean[] = [];
    for (const { id } of [whole, ...dropped]) marked.push(await markDropped(lab.sql, id));
    expect(marked).toEqual([false, true, true, false, false]);
  });
});

describe("the end of a mined relay", () => {
  const confirm = (provenIds: bigint[] = []) =>
    confirmRelays(lab.sql, NETWORK, { depthBlocks: DEPTH, provenIds });

  test("a mined relay is CONFIRMED in a deep block of the ledger, not in the one above", async () => {
    const [deep, above] = [
      await relay({ state: "MINED" }),
      await relay({ nonce: 1n, state: "MINED", block: DEEP + 1 }),
    ];
    await confirm([above.id]);
    expect([await stateOf(deep), await stateOf(above)]).toEqual(["CONFIRMED", "MINED"]);
  });

  test("a mined relay stays MINED while the ledger has another block there, even if a node proved it", async () => {
    const orphaned = await relay({ state: "MINED", isBlockKept: false });
    await keepBlock(DEEP, randomHash());
    await confirm([orphaned.id]);
    expect(await stateOf(orphaned)).toBe("MINED");
  });

  test("a mined relay in a block that is not stored is CONFIRMED only if a node proved it", async () => {
    const [proven, unproven] = [
      await relay({ state: "MINED", isBlockKept: false }),
      await relay({ nonce: 1n, state: "MINED", isBlockKept: false }),
    ];
    await keepBlock(DEEP, randomHash(), "base");
    await confirm([proven.id]);
    expect([await stateOf(proven), await stateOf(unproven)]).toEqual(["CONFIRMED", "MINED"]);
  });

  test.each(PENDING)("a mined relay waits for its payment that is %s", async (state) => {
    const waited = await relay({ state: "MINED" });
    await carries(waited, state);
    await confirm();
    expect(await stateOf(waited)).toBe("MINED");
    await lab.sql`update payments set state = 'CONFIRMED' where relay_id = ${waited.id}`;
    await confirm();
    expect(await stateOf(waited)).toBe("CONFIRMED");
  });

  test("relays of another network, and those not mined, are not CONFIRMED", async () => {
    const others = [
      await relay({ state: "MINED", network: "base" }),
      await relay({ nonce: 1n, state: "BROADCAST" }),
      await relay({ nonce: 2n, state: "LOST" }),
    ];
    await confirm(others.map(({ id }) => id));
    expect(await Promise.all(others.map(stateOf))).toEqual(["MINED", "BROADCAST", "LOST"]);
  });
});

describe("a reorganisation", () => {
  test.each(["MINED", "CONFIRMED"])(
    "a %s relay is pending again above the last common block, not in it",
    async (state) => {
      const [kept, undone] = [
        await relay({ state, block: 90 }),
        await relay({ nonce: 1n, state, block: 91 }),
      ];
      await undoAbove(lab, 90);
      expect([await stateOf(kept), await stateOf(undone)]).toEqual([state, "BROADCAST"]);
    },
  );

  test("a mined relay is pending again when the ledger has another block at its height, up to its cursor", async () => {
    const same = await relay({ state: "MINED", block: 80 });
    const gone = await relay({ nonce: 1n, state: "MINED", block: 81, isBlockKept: false });
    const pruned = await relay({ nonce: 2n, state: "MINED", block: 82, isBlockKept: false });
    const unread = await relay({ nonce: 3n, state: "MINED", block: READ_TO + 1, isBlockKept: false });
    await keepBlock(81, randomHash());
    await keepBlock(READ_TO + 1, randomHash());
    await keepBlock(82, randomHash(), "base");
    expect(await reopenOrphanedRelays(lab.sql, NETWORK)).toBe(1);
    expect(await Promise.all([same, gone, pruned, unread].map(stateOf))).toEqual([
      ...["MINED", "BROADCAST", "MINED", "MINED"],
    ]);
  });

  test.each(["MINED", "CONFIRMED"])(
    "a %s relay that a node disproved is pending again, unless the ledger has its block",
    async (state) => {
      const [gone, kept] = [
        await relay({ state, isBlockKept: false }),
        await relay({ nonce: 1n, state, block: 80 }),
      ];
      expect(await reopenRelays(lab.sql, [gone, kept])).toBe(1);
      expect([await stateOf(gone), await stateOf(kept)]).toEqual(["BROADCAST", state]);
    },
  );

  test("a relay that was mined in another block since is not reopened, nor one that is LOST", async () => {
    const [moved, lost] = [
      await relay({ state: "MINED", isBlockKept: false }),
      await relay({ nonce: 1n, state: "LOST" }),
    ];
    await lab.sql`update relays set block_hash = ${lost.blockHash} where id = ${lost.id}`;
    expect(await reopenRelays(lab.sql, [{ ...moved, blockHash: randomHash() }, lost])).toBe(0);
  });

  test("mined relays up to the cursor are read from a node if their block is not stored", async () => {
    const pruned = await relay({ state: "MINED", block: READ_TO, isBlockKept: false });
    await relay({ nonce: 1n, state: "MINED", block: READ_TO + 1, isBlockKept: false });
    await relay({ nonce: 2n, state: "MINED" });
    await relay({ nonce: 3n, state: "CONFIRMED", block: 80, isBlockKept: false });
    await relay({ state: "MINED", block: 80, isBlockKept: false, network: "base" });
    await keepBlock(READ_TO, randomHash(), "base");
    expect((await findPrunedRelays(lab.sql, NETWORK, 10)).map(({ id }) => id)).toEqual([pruned.id]);
  });

  test("a CONFIRMED relay is contradicted when its nonce is unused on a chain as high as its block", async () => {
    const gone = await relay({ nonce: 5n, state: "CONFIRMED", isBlockKept: false });
    const contradicted = async (chainNonce: bigint, headNumber: number) => {
      const lanes = [{ relayer, chainNonce, headNumber: BigInt(headNumber) }];
      return (await findContradictedRelays(lab.sql, NETWORK, { lanes, limit: 10 })).map(({ id }) => id);
    };
    expect(await contradicted(5n, DEEP)).toEqual([gone.id]);
    expect(await contradicted(6n, DEEP)).toEqual([]);
    expect(await contradicted(5n, DEEP - 1)).toEqual([]);
    await keepBlock(DEEP, gone.blockHash);
    expect(await contradicted(5n, DEEP)).toEqual([]);
    await lab.sql`update relays set state = 'MINED', block_hash = ${randomHash()} where id = ${gone.id}`;
    expect(await contradicted(5n, DEEP)).toEqual([]);
  });

  test.each(PENDING)(
    "a CONFIRMED relay with a payment that is %s is contradicted, and disproved by another block",
    async (state) => {
      const gone = await relay({ state: "CONFIRMED", isBlockKept: false });
      await carries(gone, state);
      const find = () => findContradictedRelays(lab.sql, NETWORK, { lanes: [], limit: 10 });
      expect(await find()).toMatchObject([{ id: gone.id, isDisproved: false }]);
      await keepBlock(DEEP, randomHash());
      expect(await find()).toMatchObject([{ id: gone.id, isDisproved: true }]);
      await lab.sql`update payments set state = 'CONFIRMED' where relay_id = ${gone.id}`;
      expect(await find()).toEqual([]);
    },
  );
});

describe("a key's nonces", () => {
  test("a lane continues at the chain's nonce when that is higher, is never put back, and is one of its network", async () => {
    const lane = { network: NETWORK, relayer } as const;
    await ensureLane(lab.sql, lane, 7n);
    await ensureLane(lab.sql, lane, 3n);
    const elsewhere = { network: "base", relayer } as const;
    await ensureLane(lab.sql, elsewhere, 20n);
    expect([await takeNonce(lab.sql, lane), await takeNonce(lab.sql, lane)]).toEqual([7n, 8n]);
    expect(await takeNonce(lab.sql, elsewhere)).toBe(20n);
  });

  test("nonces from the chain's next to the lane's last without a live relay of this key are gaps", async () => {
    const lane = { network: NETWORK, relayer } as const;
    await ensureLane(lab.sql, lane, 6n);
    await relay({ nonce: 2n, state: "MINED" });
    await relay({ nonce: 3n, state: "LOST" });
    await relay({ nonce: 4n, network: "base" });
    const own = relayer;
    relayer = randomAddress();
    await relay({ nonce: 5n });
    expect(await findNonceGaps(lab.sql, { ...lane, relayer: own }, 1n, 10)).toEqual([1n, 3n, 4n, 5n]);
    expect(await findNonceGaps(lab.sql, { ...lane, relayer: own }, 1n, 2)).toEqual([1n, 3n]);
    expect(await findNonceGaps(lab.sql, { ...lane, relayer: own }, 6n, 10)).toEqual([]);
  });
});

describe("what is pending", () => {
  test("SIGNED and BROADCAST relays count for a key and are listed; a page continues with the next nonce", async () => {
    const [first, second] = [await relay(), await relay({ nonce: 1n, state: "BROADCAST" })];
    await relay({ nonce: 2n, state: "MINED" });
    await relay({ nonce: 3n, state: "LOST" });
    await relay({ network: "base" });
    expect(await readLaneLoads(lab.sql, NETWORK)).toEqual(
      new Map([[relayer, { transactions: 2, gas: 2n * GAS }]]),
    );
    const page = async (after?: bigint) =>
      (
        await findInFlight(lab.sql, NETWORK, {
          ...{ after: after === undefined ? undefined : { relayer, nonce: after }, limit: 10 },
        })
      ).map(({ id }) => id);
    expect(await page()).toEqual([first.id, second.id]);
    expect(await page(0n)).toEqual([second.id]);
    expect(await page(1n)).toEqual([]);
  });

  test.each(["SIGNED", "BROADCAST", "MINED"])(
    "a relay that is %s leaves its network unfinished, and no other",
    async (state) => {
      await lab.sql`update payments set state = 'FAILED', reason = 'NONCE_USED'`;
      await lab.sql`delete from open_payments`;
      await relay({ state });
      expect(await hasUnfinished(lab.sql, NETWORK, [])).toBe(true);
      expect(await hasUnfinished(lab.sql, "base", [])).toBe(false);
    },
  );

  test("a payment leaves its network unfinished until it has ended, and no other", async () => {
    await lab.sql`delete from open_payments`;
    const payment = await accept(lab, await seedLink(lab.sql, lab.merchant));
    expect(await hasUnfinished(lab.sql, NETWORK, [])).toBe(true);
    expect(await hasUnfinished(lab.sql, "base", [])).toBe(false);
    await lab.sql`
      update payments set state = 'FAILED', reason = 'NONCE_USED' where id = ${payment?.id ?? ""}`;
    expect(await hasUnfinished(lab.sql, NETWORK, [])).toBe(false);
  });

  test.each(["CONFIRMED", "LOST"])("a relay that is %s does not count as unfinished", async (state) => {
    await lab.sql`update payments set state = 'FAILED', reason = 'NONCE_USED'`;
    await lab.sql`delete from open_payments`;
    await relay({ state });
    expect(await hasUnfinished(lab.sql, NETWORK, [])).toBe(false);
  });
});
