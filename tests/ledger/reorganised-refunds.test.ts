/** A refunded transfer that a reorganisation removed comes back, alone or behind others that fill its block: the refund moves to its place. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newLinkId, newRefundId } from "../../core/domain/ids.ts";
import {
  type BooksLab,
  makeBlock,
  makeTransfer,
  NETWORK,
  openBooks,
  read,
  UNITS,
  undoAbove,
} from "../support/ledger-lab.ts";

setDefaultTimeout(120_000);
let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());

test.each([
  ["alone", 0],
  ["behind more transfers than one statement stores", 2_000],
])("%s", async (_where, others) => {
  const id = newRefundId(new Date());
  const transfer = makeTransfer(lab, 101, { logIndex: 3 });
  await read(lab, [transfer]);
  await lab.sql.begin(async (tx) => {
    // the refund's operation and link are not looked at
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into refunds (
        id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units
      )
      values (
        ${id}, ${lab.merchant.userId}, ${newLinkId()}, ${NETWORK}, ${transfer.txHash}, 3, ${transfer.from},
        'transfer_sender', ${UNITS}
      )`;
  });
  await undoAbove(lab, 100);
  const block = makeBlock(101);
  const dust = Array.from({ length: others }, (_, logIndex) => ({
    ...makeTransfer(lab, 101, { logIndex, amountUnits: 1n }),
    block,
  }));
  await read(lab, [...dust, { ...transfer, block, logIndex: others }]);
  const rows = await lab.sql<{ at: number; waits: boolean }[]>`
    select paid_log_index as at, orphaned_transfer_id is not null as waits from refunds where id = ${id}`;
  expect([...rows]).toEqual([{ at: others, waits: false }]);
  await undoAbove(lab, 100);
});
