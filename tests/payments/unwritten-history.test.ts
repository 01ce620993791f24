/** What is PENDING of a payment is read from the payment: its history row is written once, by its block or by its end. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { assignTransaction, unassignTransaction } from "../../api/transactions/assign-or-unassign.ts";
import { NO_FILTER, type TransactionFilter } from "../../core/domain/transaction.ts";
import { fetchExportRows, openExportCursor } from "../../db/exports/export-rows.ts";
import { dropChainRows } from "../../db/ledger/rebuild.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import { requeuePayment } from "../../db/payments/accept-payments.ts";
import { openDatabase } from "../../db/postgres/client.ts";
import { sumTransactions } from "../../db/transactions/summary.ts";
import {
  findPosition,
  findTransaction,
  listTransactions,
  type Page,
} from "../../db/transactions/transactions.ts";
import {
  accept,
  type BooksLab,
  claim,
  fail,
  lookBack,
  makeBlock,
  makeTransfer,
  NETWORK,
  openBooks,
  randomHash,
  read,
  UNITS,
  undoAbove,
} from "../support/ledger-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks();
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
});

async function acceptOne(): Promise<NewPayment> {
  const payment = await accept(lab, await seedLink(lab.sql, lab.merchant));
  if (!payment) throw new Error("the link did not accept the payment");
  return payment;
}

const inSnapshot = <Result>(work: Parameters<typeof lab.sql.begin<Result>>[1]) =>
  lab.sql.begin("isolation level repeatable read", work);
const list = (filter: Partial<TransactionFilter> = {}, page: Page = { limit: 50, offset: 0 }) =>
  inSnapshot((tx) => listTransactions(tx, lab.merchant.userId, { ...NO_FILTER, ...filter }, page));
const written = ({ id }: NewPayment) => lab.sql<{ id: string; status: string; createdAt: Date }[]>`
  select id, status, created_at from transactions where payment_id = ${id}`;
const historyEvents = (id: string) => lab.sql<{ type: string; data: Record<string, unknown> }[]>`
  select type, data from events where subject_id = ${id} order by id`;

/** As the version before opens it. */
const writeRow = (payment: NewPayment) => lab.sql`
  insert into transactions (
    id, owner, network, type, status, amount_units, counterparty, description, link_id, payment_id, detected_at
  )
  select id, owner, network, type, status, amount_units, counterparty, description, link_id, payment_id, detected_at
  from unwritten_transactions
  where payment_id = ${payment.id}`;

async function pendingRow(payment: NewPayment) {
  const { rows } = await list({ statuses: ["PENDING"] });
  const row = rows.find(({ paymentId }) => paymentId === payment.id);
  if (!row) throw new Error("the payment is not PENDING in the history");
  return row;
}

describe("an open payment", () => {
  test("is PENDING only in its merchant's history, without a row", async () => {
    const payment = await acceptOne();
    expect([...(await written(payment))]).toEqual([]);
    const row = await pendingRow(payment);
    expect(row).toMatchObject({
      ...{ type: "PAYMENT_LINK", status: "PENDING", amountUnits: UNITS, network: NETWORK, txHash: null },
      ...{ counterparty: payment.payer, linkId: payment.linkId, paymentId: payment.id, failureReason: null },
    });
    const { userId } = lab.merchant;
    expect(await findTransaction(lab.sql, { id: row.id, userId })).toMatchObject({
      ...row,
      owner: userId.slice("user_".length),
    });
    const other = await seedMerchant(lab.sql);
    expect(await findTransaction(lab.sql, { id: row.id, userId: other.userId })).toBeUndefined();
    lab.merchant = other;
    expect((await list()).rows).toEqual([]);
  });

  test("reads the same in lists, totals and sums whether its row is written or not", async () => {
    const payments: NewPayment[] = [];
    for (let made = 0; made < 6; made++) payments.push(await acceptOne());
    await read(lab, [makeTransfer(lab, 120), makeTransfer(lab, 121), makeTransfer(lab, 122)]);
    const { userId } = lab.merchant;
    const row = await pendingRow(payments[2] ?? (await acceptOne()));
    const positionOf = (id: string) => findPosition(lab.sql, { id, userId });
    const filters: Partial<TransactionFilter>[] = [
      {},
      { statuses: ["PENDING"] },
      { statuses: ["CONFIRMED"] },
      { types: ["PAYMENT_LINK"], networks: [NETWORK] },
      { types: ["SEND"] },
      { minUnits: UNITS, maxUnits: UNITS },
      { minUnits: UNITS + 1n },
      { search: row.description.slice(0, 4) },
      { search: row.description.slice(0, 1) },
      { from: new Date(Date.now() - 3_600_000), before: new Date(Date.now() + 3_600_000) },
      { before: new Date(Date.now() - 3_600_000) },
    ];
    const pages = [
      { limit: 50, offset: 0 },
      { limit: 2, offset: 3 },
      { limit: 5, offset: 101 },
    ];
    const readAll = async () => ({
      pages: await Promise.all(filters.flatMap((filter) => pages.map((page) => list(filter, page)))),
      sums: await Promise.all(
        filters.map((filter) => inSnapshot((tx) => sumTransactions(tx, userId, { ...NO_FILTER, ...filter }))),
      ),
      exported: await inSnapshot(async (tx) => {
        const selection = { userId, filter: NO_FILTER, limit: 20 };
        await openExportCursor(tx, selection, { detail: "accounting", order: "newest" });
        return [...(await fetchExportRows(tx, 20))];
      }),
      following: await list({}, { limit: 50, offset: 0, after: await positionOf(row.id) }),
      position: await positionOf(row.id),
      one: await findTransaction(lab.sql, { id: row.id, userId }),
    });
    const unwritten = await readAll();
    expect(unwritten.pages[0]?.total).toBe(9);
    expect(unwritten.exported).toHaveLength(9);
    expect(unwritten.following.rows).toHaveLength(2);
    for (const payment of payments) await writeRow(payment);
    await lab.sql`update transactions set created_at = detected_at, updated_at = detected_at where status = 'PENDING'`;
    const inRows = await readAll();
    const sorted = ({ sums, ...rest }: typeof inRows) => ({
      ...rest,
      sums: sums.map((sum) => sum.map((one) => `${one.type} ${one.status} ${one.count} ${one.units}`).sort()),
    });
    expect(sorted(inRows)).toEqual(sorted(unwritten));
  });

  test("is found by key on a distant page like any other row", async () => {
    const { userId } = lab.merchant;
    await lab.sql`
      insert into transactions (id, owner, network, type, status, amount_units, counterparty, detected_at)
      select
        'txn_' || md5(${userId}::text || n), owner_key(${userId}), ${NETWORK}, 'RECEIVE', 'CONFIRMED', 1, ${`0x${"11".repeat(20)}`},
        now() + make_interval(mins => n)
      from generate_series(1, 110) as n`;
    const payment = await acceptOne();
    const { rows, total } = await list({}, { limit: 5, offset: 110 });
    expect(total).toBe(111);
    expect(rows).toEqual([await pendingRow(payment)]);
    const byAmount = await list({ minUnits: UNITS }, { limit: 5, offset: 0 });
    expect(byAmount.rows).toMatchObject(rows);
  });

  test("is found while its block is written between two statements", async () => {
    const { userId } = lab.merchant;
    // one connection, on which the block comes after the first statement and before any second one
    const sql = openDatabase(lab.url, { name: "test", maxConnections: 1 });
    const findBeside = async (find: () => Promise<unknown>, block: () => Promise<void>) => {
      const gate = Promise.withResolvers<void>();
      const held = sql.begin(() => gate.promise);
      const found = find();
      // until its first statement waits for the connection
      await Bun.sleep(0);
      const reading = block();
      gate.resolve();
      await Promise.all([held, reading]);
      return found;
    };
    try {
      for (const find of [findTransaction, findPosition]) {
        const payment = await acceptOne();
        const { id } = await pendingRow(payment);
        const block = () => read({ ...lab, sql }, [makeTransfer(lab, 125, { payment })]);
        expect(await findBeside(() => find(sql, { id, userId }), block)).toMatchObject({ id });
        expect((await list()).rows).toContainEqual(expect.objectContaining({ id, status: "CONFIRMED" }));
      }
    } finally {
      await sql.end({ timeout: 5 });
    }
  });

  test("error: is not deep enough to be assigned to a link; another merchant's is not found", async () => {
    const { id: transactionId } = await pendingRow(await acceptOne());
    const linkId = await seedLink(lab.sql, lab.merchant);
    const asked = (userId: string) => ({
      ...{ mismatchMinUnits: 0n, transactionId, userId },
      trace: { requestId: "req_test", clientAddress: "127.0.0.1" },
    });
    const ways = [
      (userId: string) => assignTransaction(lab.sql, { ...asked(userId), linkId, accept: false }),
      (userId: string) => unassignTransaction(lab.sql, asked(userId)),
    ];
    const other = await seedMerchant(lab.sql);
    for (const way of ways) {
      await expect(way(lab.merchant.userId)).rejects.toMatchObject({
        ...{ errorCode: "CONFLICT", details: { issue: "not_confirmed" } },
      });
      await expect(way(other.userId)).rejects.toMatchObject({ errorCode: "NOT_FOUND" });
    }
  });

  test("keeps its id when its block writes its row, and the time it was accepted", async () => {
    const payment = await acceptOne();
    const row = await pendingRow(payment);
    const transfer = makeTransfer(lab, 130, { payment });
    await read(lab, [transfer]);
    expect([...(await written(payment))]).toEqual([
      { id: row.id, status: "CONFIRMED", createdAt: row.detectedAt },
    ]);
    const { rows, total } = await list();
    expect(total).toBe(1);
    expect(rows).toMatchObject([
      { id: row.id, status: "CONFIRMED", txHash: transfer.txHash, description: row.description },
    ]);
    expect((await historyEvents(row.id)).map(({ type }) => type)).toEqual(["transaction.confirmed"]);
  });

  test("gets its row when it fails, with its reason and its event", async () => {
    const payment = await acceptOne();
    const row = await pendingRow(payment);
    await fail(lab, payment, "EXPIRED_TRANSFER");
    const { rows, total } = await list();
    expect(total).toBe(1);
    expect(rows).toEqual([{ ...row, status: "FAILED", failureReason: "EXPIRED_TRANSFER" }]);
    expect([...(await historyEvents(row.id))]).toMatchObject([
      { type: "transaction.failed", data: { reason: "EXPIRED_TRANSFER" } },
    ]);
  });

  test("whose row the previous version has written fails with one row and one event", async () => {
    const payment = await acceptOne();
    await writeRow(payment);
    const [row] = await written(payment);
    await fail(lab, payment);
    expect([...(await written(payment))]).toMatchObject([{ id: row?.id, status: "FAILED" }]);
    expect(await historyEvents(row?.id ?? "")).toHaveLength(1);
  });

  test("that has failed and lost its row gets none from a later change", async () => {
    const payment = await acceptOne();
    await fail(lab, payment);
    await lab.sql`delete from transactions where payment_id = ${payment.id}`;
    await lab.sql`update payments set reason_text = 'later' where id = ${payment.id}`;
    expect([...(await written(payment))]).toEqual([]);
  });

  test("that is queued again is PENDING once, in the row with which it failed", async () => {
    const payment = await acceptOne();
    const row = await pendingRow(payment);
    await fail(lab, payment);
    await lab.sql.begin(async (tx) => {
      await lockLinks(tx, [payment.linkId]);
      await requeuePayment(tx, payment.id, payment);
    });
    expect(await list()).toMatchObject({ total: 1, rows: [row] });
    await read(lab, [makeTransfer(lab, 131, { payment })]);
    expect(await list()).toMatchObject({ total: 1, rows: [{ id: row.id, status: "CONFIRMED" }] });
  });

  test("whose block is reorganised away is PENDING once, and CONFIRMED by the next block with the same id", async () => {
    const payment = await acceptOne();
    const row = await pendingRow(payment);
    await read(lab, [makeTransfer(lab, 140, { payment })]);
    await undoAbove(lab, 139);
    expect(await list()).toMatchObject({ total: 1, rows: [{ ...row, txHash: null }] });
    await read(lab, [makeTransfer(lab, 140, { payment })]);
    expect(await list()).toMatchObject({ total: 1, rows: [{ id: row.id, status: "CONFIRMED" }] });
  });

  test("takes over the row of a claim of its transfer", async () => {
    const payment = await acceptOne();
    const row = await pendingRow(payment);
    const transfer = makeTransfer(lab, 150, { payment });
    await claim(lab, payment.linkId, transfer);
    expect((await list()).total).toBe(2);
    await read(lab, [transfer]);
    expect(await list()).toMatchObject({ total: 1, rows: [{ id: row.id, status: "CONFIRMED" }] });
  });

  test("by another merchant's wallet is in the history of both", async () => {
    const payee = lab.merchant;
    const payer = await seedMerchant(lab.sql);
    const linkId = await seedLink(lab.sql, payee);
    const payment = await accept(lab, linkId, { payer: payer.address, nonce: randomHash() });
    if (!payment) throw new Error("the link did not accept the payment");
    const transfer = makeTransfer(lab, 149, { payment });
    await read(lab, [transfer]);
    const rows = await lab.sql<{ userId: string; type: string }[]>`
      select user_of(owner) as user_id, type from transactions where tx_hash = ${transfer.txHash} order by type`;
    expect([...rows]).toEqual([
      { userId: payee.userId, type: "PAYMENT_LINK" },
      { userId: payer.userId, type: "SEND" },
    ]);
  });

  test("whose row is already written takes over the row of a claim of its transfer as well", async () => {
    const payment = await acceptOne();
    await writeRow(payment);
    const row = await pendingRow(payment);
    const transfer = makeTransfer(lab, 151, { payment });
    await claim(lab, payment.linkId, transfer);
    expect((await list()).total).toBe(2);
    await read(lab, [transfer]);
    expect(await list()).toMatchObject({ total: 1, rows: [{ id: row.id, status: "CONFIRMED" }] });
    expect((await historyEvents(row.id)).map(({ type }) => type)).toEqual(["transaction.confirmed"]);
  });

  test("keeps its id when its transfer, orphaned before it was accepted, comes back afterwards", async () => {
    const early = { payer: `0x${"ac".repeat(20)}`, nonce: randomHash() } as const;
    const transfer = makeTransfer(lab, 155, { from: early.payer, authorizationNonce: early.nonce });
    await read(lab, [transfer]);
    const [logged] = (await list()).rows;
    await undoAbove(lab, 154);
    const payment = await accept(lab, await seedLink(lab.sql, lab.merchant), early);
    if (!payment) throw new Error("the link did not accept the payment");
    const { id } = await pendingRow(payment);
    // whose open row is not the payment's
    await claim(lab, payment.linkId, transfer);
    await read(lab, [{ ...transfer, block: makeBlock(155) }]);
    const { rows } = await list();
    expect(rows).toHaveLength(2);
    expect(rows).toContainEqual(expect.objectContaining({ id, status: "CONFIRMED", paymentId: payment.id }));
    expect(rows).toContainEqual(
      expect.objectContaining({ id: logged?.id, status: "ORPHANED", paymentId: null }),
    );
  });

  test("whose transfer was recorded before it has the log's row, and is PENDING by its own id after a reorganisation", async () => {
    const early = { payer: `0x${"ab".repeat(20)}`, nonce: randomHash() } as const;
    // accepted before the time of its block, however long this takes
    const block = { ...makeBlock(160), timeS: Math.floor(Date.now() / 1000) + 600 };
    const transfer = makeTransfer(lab, 160, { block, from: early.payer, authorizationNonce: early.nonce });
    await read(lab, [transfer]);
    const [logged] = (await list()).rows;
    const payment = await accept(lab, await seedLink(lab.sql, lab.merchant), early);
    if (!payment) throw new Error("the link did not accept the payment");
    const { id } = await pendingRow(payment);
    await lookBack(lab);
    expect(await list()).toMatchObject({ total: 1, rows: [{ id: logged?.id, paymentId: payment.id }] });
    await lab.sql.begin((tx) => dropChainRows(tx, NETWORK));
    await read(lab, [transfer]);
    expect(await list()).toMatchObject({
      total: 1,
      rows: [{ id: logged?.id, paymentId: payment.id, status: "CONFIRMED" }],
    });
    await undoAbove(lab, 159);
    expect((await pendingRow(payment)).id).toBe(id);
    await read(lab, [transfer]);
    const states = async () => (await list()).rows.map((row) => `${row.id} ${row.status}`).sort();
    const settled = [`${id} CONFIRMED`, `${logged?.id} ORPHANED`].sort();
    expect(await states()).toEqual(settled);
    await lab.sql.begin((tx) => dropChainRows(tx, NETWORK));
    await read(lab, [transfer]);
    expect(await states()).toEqual(settled);
  });
});
