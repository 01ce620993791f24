/** Which links of a month's payments and refunds have no document yet, and what is read for that. */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { findUndocumentedLinks } from "../../db/documents/month-documents.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { NETWORK } from "../support/indexer-lab.ts";
import { type OperationLab, openOperationLab, randomHash } from "../support/operation-lab.ts";
import { countRowsRead } from "../support/rows-read.ts";
import { randomAddress, type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { bookDocuments } from "./book-documents.ts";

setDefaultTimeout(120_000);

let lab: OperationLab;
let sql: Sql;
let merchant: SeededMerchant;
let link: string;

beforeAll(async () => {
  lab = await openOperationLab();
  ({ sql } = lab);
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  merchant = await seedMerchant(sql);
  link = await seedLink(sql, merchant);
});

const { set, paid, refunded, issue } = bookDocuments(() => ({ lab, sql, merchant, link }));

describe("links of a period are without a document", () => {
  const PERIOD = { from: new Date("2026-06-01T00:00:00Z"), before: new Date("2026-07-01T00:00:00Z") };
  const find = (userId = merchant.userId) => findUndocumentedLinks(sql, { userId, ...PERIOD }, 10);
  const at = (linkId: string, type: "PAYMENT_LINK" | "SEND", time: string) =>
    sql`update transactions set detected_at = ${time} where link_id = ${linkId} and type = ${type}`;
  const INSIDE = "2026-06-15T00:00:00Z";

  test("when a confirmed payment within it has no receipt, until it has", async () => {
    const txHash = await paid();
    await at(link, "PAYMENT_LINK", INSIDE);
    expect(await find()).toEqual([link]);
    expect(await find((await seedMerchant(sql)).userId)).toEqual([]);
    for (const outside of ["2026-05-31T23:59:59.999Z", "2026-07-01T00:00:00Z"]) {
      await at(link, "PAYMENT_LINK", outside);
      expect(await find()).toEqual([]);
    }
    await at(link, "PAYMENT_LINK", "2026-06-01T00:00:00Z");
    await set("transactions", { link_id: link }, { status: "DETECTED" });
    expect(await find()).toEqual([]);
    await set("transactions", { link_id: link }, { status: "CONFIRMED" });
    await set("transfers", { tx_hash: txHash }, { pays: false });
    expect(await find()).toEqual([]);
    await set("transfers", { tx_hash: txHash }, { pays: true });
    await set("payment_links", { id: link }, { status: "PENDING", paid_at: null });
    expect(await find()).toEqual([]);
    await set("payment_links", { id: link }, { status: "PAID", paid_at: new Date() });
    expect(await find()).toEqual([link]);
    await issue(link);
    expect(await find()).toEqual([]);
  });

  test("when a confirmed refund within it has no credit note, until it has", async () => {
    const { id } = await refunded(await paid());
    await issue(link);
    await at(link, "PAYMENT_LINK", INSIDE);
    await at(link, "SEND", INSIDE);
    expect(await find()).toEqual([]);
    await set("documents", { refund_id: id }, { voided_at: new Date(), void_reason: "REORGANISED" });
    expect(await find()).toEqual([link]);
    expect(await find((await seedMerchant(sql)).userId)).toEqual([]);
    for (const outside of ["2026-05-31T23:59:59.999Z", "2026-07-01T00:00:00Z"]) {
      await at(link, "SEND", outside);
      expect(await find()).toEqual([]);
    }
    await at(link, "SEND", INSIDE);
    await set("wallet_operations", { id }, { state: "MINED" });
    expect(await find()).toEqual([]);
    await set("wallet_operations", { id }, { state: "CONFIRMED" });
    await set("transactions", { operation_id: id }, { status: "DETECTED" });
    expect(await find()).toEqual([]);
  });

  test("when a refund's transfer has moved, until its new place has a credit note", async () => {
    const { id, txHash } = await refunded(await paid());
    await issue(link);
    await at(link, "SEND", INSIDE);
    expect(await find()).toEqual([]);
    await set("transfers", { tx_hash: txHash }, { block_hash: randomHash() });
    await sql`update transfers set log_index = 7 where tx_hash = ${txHash} and log_index = 2`;
    expect(await find()).toEqual([link]);
    await set("transfers", { tx_hash: txHash }, { status: "DETECTED" });
    expect(await find()).toEqual([]);
    await set("transfers", { tx_hash: txHash }, { status: "CONFIRMED" });
    await issue(link);
    expect(await find()).toEqual([]);
    const notes = await sql`
      select log_index, voided_at is not null as is_void from documents where refund_id = ${id} order by log_index`;
    expect([...notes]).toEqual([
      { logIndex: 2, isVoid: true },
      { logIndex: 7, isVoid: false },
    ]);
  });

  test("by reading neither other merchants' documents nor refunds of other times", async () => {
    await refunded(await paid());
    await issue(link);
    await at(link, "PAYMENT_LINK", INSIDE);
    await at(link, "SEND", INSIDE);
    const other = await seedMerchant(sql);
    await sql`
      insert into documents (
        id, user_id, kind, is_test, year, number, link_id, network, tx_hash, log_index, block_hash, amount_units, happened_at, facts
      )
      select
        'doc_' || n || ${other.userId}, ${other.userId}, 'RECEIPT', true, 2026, n, 'link_', ${NETWORK}, sha256(n::text::bytea), 1,
        sha256(n::text::bytea), 5, ${INSIDE}, '[]'
      from generate_series(1, 500) n`;
    await sql`
      insert into refunds (id, user_id, link_id, network, paid_tx_hash, paid_log_index, to_address, to_source, amount_units)
      select
        'rfd_' || encode(substr(sha256(n::text::bytea), 1, 22), 'hex'), ${merchant.userId}, ${link}, ${NETWORK}, '0x', 1,
        ${randomAddress()}, 'given', 5
      from generate_series(1, 300) n`;
    await sql`analyze documents, refunds, wallet_operations, transactions`;
    const read = (table: string) =>
      countRowsRead(sql, table, (tx) =>
        findUndocumentedLinks(tx, { userId: merchant.userId, ...PERIOD }, 10),
      );
    expect(await read("documents")).toBeLessThan(10);
    expect(await read("refunds")).toBeLessThan(10);
  });

  test("sorted by when their payment or refund happened", async () => {
    const later = await seedLink(sql, merchant);
    await paid(later);
    await paid();
    await at(later, "PAYMENT_LINK", "2026-06-20T00:00:00Z");
    await at(link, "PAYMENT_LINK", INSIDE);
    expect(await find()).toEqual([link, later]);
  });
});
