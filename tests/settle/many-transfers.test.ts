/** Any number of transfers may come in one block: they are written in parts, since a statement that takes too long is cancelled. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { confirmTransfers } from "../../db/ledger/confirm-transfers.ts";
import { orphanBlocksAbove } from "../../db/ledger/orphan-blocks.ts";
import { STATEMENT_ROWS } from "../../db/ledger/transfers.ts";
import { type BooksLab, makeTransfer, NETWORK, openBooks, read } from "../support/ledger-lab.ts";

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks();
  // the most events that one statement has written
  await lab.sql`create table largest_statement (rows bigint)`;
  await lab.sql`
    create function note_statement() returns trigger language plpgsql as $$
    begin
      insert into largest_statement select count(*) from added;
      return null;
    end $$`;
  await lab.sql`
    create trigger note_events after insert on events
    referencing new table as added for each statement execute function note_statement()`;
});
afterAll(() => lab?.stop());

const COUNT = STATEMENT_ROWS + 3;
const largest = async () => {
  const [row] = await lab.sql<{ rows: bigint; sum: bigint }[]>`
    select max(rows) as rows, sum(rows)::bigint as sum from largest_statement`;
  await lab.sql`truncate largest_statement`;
  return [Number(row?.rows), Number(row?.sum)];
};

test("more transfers than a statement takes are all stored, all confirmed, and all orphaned", async () => {
  const first = makeTransfer(lab, 101);
  const { block } = first;
  await lab.sql`
    insert into blocks (network, number, hash, parent_hash, block_time)
    values (${NETWORK}, 101, ${block.hash}, ${block.parentHash}, now())`;
  const transfers = Array.from({ length: COUNT }, (_, logIndex) => ({ ...first, logIndex }));
  await read(lab, transfers, [], { isDeep: false });
  expect(await largest()).toEqual([STATEMENT_ROWS, COUNT]);
  await lab.sql.begin((tx) => confirmTransfers(tx, { network: NETWORK, depthNumber: 101, confirmations: 1 }));
  expect(await largest()).toEqual([STATEMENT_ROWS, COUNT]);
  const [row] = await lab.sql<{ count: number }[]>`
    select count(*)::int from transfers join transactions history on history.transfer_id = transfers.id
    where to_address = ${lab.merchant.address} and transfers.status = 'CONFIRMED' and history.status = 'CONFIRMED'`;
  expect(row?.count).toBe(COUNT);
  await lab.sql.begin((tx) => orphanBlocksAbove(tx, { network: NETWORK, ancestor: 100, claimLeaseS: 0 }));
  expect(await largest()).toEqual([STATEMENT_ROWS, COUNT]);
  const orphaned = await lab.sql`
    select from transactions where status = 'ORPHANED' and user_of(owner) = ${lab.merchant.userId}`;
  expect(orphaned.length).toBe(COUNT);
});
