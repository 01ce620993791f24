/** The finalized block of a network, as nodes report it. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { noteFinalized } from "../../db/ledger/cursors.ts";
import { type BooksLab, NETWORK, openBooks } from "../support/ledger-lab.ts";

const READ_TO = 100;
let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks({ readTo: READ_TO });
});
afterAll(() => lab?.stop());

test("only goes forward, and never beyond the block that was read", async () => {
  const noted = async (number: number) => {
    await noteFinalized(lab.sql, { network: NETWORK, epoch: 0n, number });
    const [row] = await lab.sql<{ finalizedNumber: bigint }[]>`select finalized_number from cursors`;
    return row?.finalizedNumber;
  };
  expect(await noted(40)).toBe(40n);
  expect(await noted(30)).toBe(40n);
  expect(await noted(1_000_000)).toBe(BigInt(READ_TO));
  expect(await noted(40)).toBe(BigInt(READ_TO));
});
