/** A refunded transfer that pays another link after a reorganisation: its money went back once, and does not go back again. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { newRefundId } from "../../core/domain/ids.ts";
import { cancelLink } from "../../db/links/links.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { listRefundable } from "../../db/wallet-ops/list-refundable.ts";
import { linkOf, makeTransfer, NETWORK, read, UNITS, undoAbove } from "../support/ledger-lab.ts";
import { type OperationLab, openOperationLab, randomHash } from "../support/operation-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);

let lab: OperationLab;
let sql: Sql;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql } = lab);
});
afterAll(() => lab?.stop());

test("a transfer refunded for one link has nothing left when a reorganisation has it pay another", async () => {
  const merchant = await seedMerchant(sql);
  const books = { sql, merchant } as Parameters<typeof read>[0];
  const first = await seedLink(sql, merchant);
  const transfer = makeTransfer(books, 101);
  await read(books, [transfer]);
  expect(await linkOf(books, first)).toMatchObject({ status: "PAID" });
  const { id: operationId } = await lab.relayed("BROADCAST", 1);
  const id = newRefundId(new Date());
  await sql`
    update wallet_operations
    set id = ${id}, kind = 'REFUND', state = 'CONFIRMED', tx_hash = ${randomHash()}, succeeded = true
    where id = ${operationId}`;
  await sql`
    insert into refunds (
      id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units
    )
    values (
      ${id}, ${merchant.userId}, ${first}, ${NETWORK}, ${transfer.txHash}, ${transfer.logIndex}, ${transfer.from},
      'transfer_sender', ${UNITS}
    )`;
  await undoAbove(books, 100);
  await cancelLink(sql, { id: first, userId: merchant.userId });
  const second = await seedLink(sql, merchant);
  const { block } = makeTransfer(books, 102);
  await read(books, [{ ...transfer, block: { ...block, timeS: block.timeS + 1 } }]);
  expect(await linkOf(books, second)).toMatchObject({ status: "PAID" });
  expect((await listRefundable(sql, second)).map(({ leftUnits }) => leftUnits)).toEqual([0n]);
});
