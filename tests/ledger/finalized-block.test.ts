/** What the leader notes of a network: the finalized block, as nodes report it, the head and errors; each network's alone. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  findCursor,
  moveCursor,
  noteError,
  noteFinalized,
  noteHead,
  startCursor,
} from "../../db/ledger/cursors.ts";
import { beginEpoch, holdEpoch } from "../../db/ledger/leader-epoch.ts";
import { type BooksLab, NETWORK, openBooks, randomHash } from "../support/ledger-lab.ts";

const READ_TO = 100;
let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks({ readTo: READ_TO });
});
afterAll(() => lab?.stop());

test("only goes forward, and never beyond the block that was read", async () => {
  const noted = async (number: number) => {
    await noteFinalized(lab.sql, { network: NETWORK, epoch: 0n, number });
    const [row] = await lab.sql<
      { finalizedNumber: bigint }[]
    >`select finalized_number from cursors where network = ${NETWORK}`;
    return row?.finalizedNumber;
  };
  expect(await noted(40)).toBe(40n);
  expect(await noted(30)).toBe(40n);
  expect(await noted(1_000_000)).toBe(BigInt(READ_TO));
  expect(await noted(40)).toBe(BigInt(READ_TO));
});

test("what a leader notes is its network's and its term's: that of another network has the same number", async () => {
  const OTHER = "base";
  await startCursor(lab.sql, OTHER, { number: READ_TO + 7, hash: randomHash() });
  const list = async () => [
    ...(await lab.sql`
      select network, head_number, finalized_number, last_error from cursors order by network`),
  ];
  const noteAll = async (network: typeof NETWORK | typeof OTHER, epoch: bigint) => {
    await noteHead(lab.sql, { network, epoch, head: { number: READ_TO + 9, timeS: 1 } });
    await noteFinalized(lab.sql, { network, epoch, number: READ_TO + 7 });
    await noteError(lab.sql, { network, epoch, message: `of ${network}` });
  };
  await lab.sql`update cursors set finalized_number = 10 where network = ${NETWORK}`;
  const before = await list();
  const own = before.filter(({ network }) => network === NETWORK);
  await noteAll(OTHER, 1n);
  expect(await list()).toEqual(before);
  await noteAll(OTHER, 0n);
  const noted = { network: OTHER, headNumber: BigInt(READ_TO + 9), finalizedNumber: BigInt(READ_TO + 7) };
  expect(await list()).toEqual([{ ...noted, lastError: `of ${OTHER}` }, ...own]);
  expect(await beginEpoch(lab.sql, NETWORK)).toMatchObject({ network: NETWORK, epoch: 1n });
  await lab.sql`update cursors set epoch = 0 where network = ${NETWORK}`;
  expect(await holdEpoch(lab.sql, OTHER, 0n)).toEqual({ number: READ_TO + 7 });
  expect(await holdEpoch(lab.sql, NETWORK, 0n)).toEqual({ number: READ_TO });
  expect(await holdEpoch(lab.sql, NETWORK, 1n)).toBeUndefined();
});

test("a cursor moves from the very block it is at, in its term, and no other network's with it", async () => {
  const OTHER = "base";
  await startCursor(lab.sql, OTHER, { number: READ_TO, hash: randomHash() });
  const before = await findCursor(lab.sql, OTHER);
  const at = await findCursor(lab.sql, NETWORK);
  expect([before?.network, at?.network]).toEqual([OTHER, NETWORK]);
  const from = { number: READ_TO, hash: at?.hash ?? "0x" };
  const to = { number: READ_TO + 1, hash: randomHash() };
  const move = { network: NETWORK, epoch: 0n, from, to, head: { number: READ_TO + 1, timeS: 1 } } as const;
  expect(await moveCursor(lab.sql, { ...move, epoch: 1n })).toBe(false);
  expect(await moveCursor(lab.sql, { ...move, from: { ...from, number: READ_TO - 1 } })).toBe(false);
  expect(await moveCursor(lab.sql, { ...move, from: { ...from, hash: randomHash() } })).toBe(false);
  expect(await findCursor(lab.sql, NETWORK)).toEqual(at);
  await lab.sql`update cursors set number = ${READ_TO}, hash = ${from.hash} where network = ${OTHER}`;
  expect(await moveCursor(lab.sql, move)).toBe(true);
  expect(await findCursor(lab.sql, NETWORK)).toMatchObject({ number: BigInt(to.number), hash: to.hash });
  expect(await findCursor(lab.sql, OTHER)).toMatchObject({
    number: BigInt(READ_TO),
    headNumber: before?.headNumber,
  });
  expect(await moveCursor(lab.sql, move)).toBe(false);
});
