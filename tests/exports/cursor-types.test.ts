/**
 * What is read with each row of an export. Exports of every kind take turns on a connection, which prepares `fetch` once and reads all rows by
 * the types it had then.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newLinkId, newUserId } from "../../core/domain/ids.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { insertUser } from "../../db/accounts/users.ts";
import { fetchExportRows, openExportCursor, type RowDetail } from "../../db/exports/export-rows.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { bookDocuments } from "../documents/book-documents.ts";
import { type OperationLab, openOperationLab, randomHash } from "../support/operation-lab.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { insertHistory } from "../transactions/history.ts";

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
}, 120_000);
afterAll(() => db?.drop());

test("the rows of every export have the same columns of the same types", async () => {
  const userId = newUserId();
  const sql = openDatabase(db.url, { name: "test", maxConnections: 1 });
  await insertUser(sql, { id: userId, email: "types@example.com" });
  await insertHistory(sql, userId, [{}]);
  await sql.end({ timeout: 1 });
  const typesOf = async (detail: RowDetail) => {
    const fresh = openDatabase(db.url, { name: "test", maxConnections: 1 });
    const types = await fresh.begin(async (tx) => {
      await openExportCursor(tx, { userId, filter: NO_FILTER, limit: 10 }, { detail, order: "oldest" });
      const rows = await fetchExportRows(tx, 10);
      expect(rows).toHaveLength(1);
      const { columns } = rows as unknown as { columns: { name: string; type: number }[] };
      return columns.map(({ name, type }) => `${name} ${type}`);
    });
    await fresh.end({ timeout: 1 });
    return types;
  };
  const accounting = await typesOf("accounting");
  expect(accounting).toContain("orderMetadata 3802");
  expect(await typesOf("movements")).toEqual(accounting);
  expect(await typesOf("list")).toEqual(accounting);
});

describe("a row", () => {
  let lab: OperationLab;
  let sql: Sql;
  let merchant: SeededMerchant;
  let link: string;
  beforeAll(async () => {
    lab = await openOperationLab();
    ({ sql } = lab);
  }, 120_000);
  afterAll(() => lab?.stop());
  beforeEach(async () => {
    merchant = await seedMerchant(sql);
    link = await seedLink(sql, merchant);
  });
  const { set, paid, refunded } = bookDocuments(() => ({ lab, sql, merchant, link }));

  const read = () =>
    sql.begin(async (tx) => {
      const reading = { detail: "accounting", order: "oldest" } as const;
      await openExportCursor(tx, { userId: merchant.userId, filter: NO_FILTER, limit: 100 }, reading);
      return fetchExportRows(tx, 100);
    });
  const rowOf = async (id: string) => (await read()).find((row) => row.id === id);
  const idOf = async (given: { operationId: string; isFee: boolean } | { txHash: string }) => {
    const [row] = await sql<{ id: string }[]>`
      select history.id
      from transactions history
      left join wallet_operation_items item on item.id = history.operation_item_id
      left join transfers on transfers.id = history.transfer_id
      where ${
        "txHash" in given
          ? sql`transfers.tx_hash = ${given.txHash}`
          : sql`history.operation_id = ${given.operationId} and item.is_fee = ${given.isFee}`
      }`;
    return row?.id ?? "";
  };

  test("of a refund names the payment it returns, by that transfer's position, while the chain has it", async () => {
    const txHash = await paid();
    const { id } = await refunded(txHash);
    // of which nothing is known here
    await refunded(randomHash());
    const [payment, refund] = [await idOf({ txHash }), await idOf({ operationId: id, isFee: false })];
    const [sent = ""] = await insertHistory(sql, merchant.userId, [{ type: "SEND" }]);
    const names = async () => (await rowOf(refund))?.refundOf;
    expect(await names()).toBe(payment);
    expect((await read()).filter(({ refundOf }) => refundOf !== null)).toHaveLength(2);
    expect((await rowOf(sent))?.refundOf).toBeNull();
    expect((await rowOf(payment))?.walletAddress).toBe(merchant.address);
    for (const [table, change, before] of [
      ["refunds", { paid_log_index: 7 }, { paid_log_index: 1 }],
      ["refunds", { network: "base" }, { network: "base-sepolia" }],
      ["transfers", { status: "ORPHANED" }, { status: "CONFIRMED" }],
      // as it is in the payer's own history
      ["transactions", { type: "SEND" }, { type: "PAYMENT_LINK" }],
    ] as const) {
      const where =
        table === "refunds" ? { id } : table === "transfers" ? { tx_hash: txHash } : { id: payment };
      await set(table, where, change);
      expect([table, await names()]).toEqual([table, null]);
      await set(table, where, before);
    }
    expect(await names()).toBe(payment);
  });

  test("of a send includes its fee with the first recipient only; the fee is a row of its own", async () => {
    const { id } = await refunded(await paid());
    const [first, fee] = [
      await idOf({ operationId: id, isFee: false }),
      await idOf({ operationId: id, isFee: true }),
    ];
    const [second = "", received = ""] = await insertHistory(sql, merchant.userId, [{ type: "SEND" }, {}]);
    await sql`
      with item as (
        insert into wallet_operation_items (operation_id, position, to_address, amount_units)
        values (${id}, 2, ${merchant.address}, 1)
        returning id
      )
      update transactions set operation_item_id = item.id from item where transactions.id = ${second}`;
    await set("transactions", { operation_id: id }, { operation_id: null });
    const rows = await Promise.all([first, second, fee, received].map(rowOf));
    expect(rows.map((row) => [row?.kind, row?.feeUnits])).toEqual([
      ["SEND", 5n],
      ["SEND", null],
      ["FEE", null],
      ["RECEIVE", null],
    ]);
    // a fee that is the first item, as in no operation of ours
    await sql`update wallet_operation_items set position = 9 - position where operation_id = ${id}`;
    await sql`update wallet_operation_items set position = 0 where operation_id = ${id} and is_fee`;
    expect((await rowOf(fee))?.feeUnits).toBeNull();
  });

  test("of a payment includes its part of the fee of the relay that carried it, shared by those it settled", async () => {
    const payments = ["one", "two", "three"].map((name) => `pay_${name}`);
    for (const id of payments)
      await sql`
        insert into payments (
          id, link_id, network, token, payer, payer_kind, recipient, amount_units, valid_after, valid_before, nonce,
          signature, state
        )
        values (
          ${id}, ${newLinkId()}, 'base-sepolia', substr(sha256('token'), 1, 20), substr(sha256('payer'), 1, 20), 'EOA',
          substr(sha256('payee'), 1, 20), 1, 0, 4102444800, ${randomHash()}, '', 'BROADCAST'
        )`;
    const [txHash, again] = [randomHash(), randomHash()];
    const relays = [await lab.makeRelay("CONFIRMED", 50), await lab.makeRelay("CONFIRMED", 51)];
    for (const [n, hash] of [txHash, again].entries())
      await sql`update relays set tx_hash = ${hash}, fee_wei = 100 where id = ${relays[n] ?? 0n}`;
    await sql`update payments set relay_id = ${relays[0] ?? 0n} where id = any(${payments}::text[])`;
    // the first transaction did not settle this one
    await sql`update payments set relay_id = ${relays[1] ?? 0n} where id = 'pay_three'`;
    const [one = "", stranger = ""] = await insertHistory(sql, merchant.userId, [
      { type: "PAYMENT_LINK", txHash },
      { type: "PAYMENT_LINK", txHash: randomHash() },
    ]);
    await sql`update transactions set payment_id = 'pay_one' where id = ${one}`;
    await sql`update transactions set payment_id = 'pay_two' where id = ${stranger}`;
    expect((await rowOf(one))?.feeWei).toBe(50n);
    expect((await rowOf(stranger))?.feeWei).toBeNull();
  });
});
