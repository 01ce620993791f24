/** What a rebuild remembers, deletes and compares, statement by statement: rows of its own, and those that it must leave alone. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { recordEvents } from "../../db/events/events.ts";
import {
  compareWithSnapshot,
  dropOwnEvents,
  keepRowIds,
  restoreRowIds,
  takeSnapshot,
} from "../../db/ledger/rebuild.ts";
import { bookTransfer } from "../support/book-transfer.ts";
import { accepted, type BooksLab, makeTransfer, NETWORK, openBooks, read } from "../support/ledger-lab.ts";
import { seedLink, seedMerchant } from "../support/seed.ts";
import { insertHistory } from "../transactions/history.ts";

let lab: BooksLab;
beforeAll(async () => {
  lab = await openBooks({ readTo: 80 });
});
afterAll(() => lab?.stop());
beforeEach(async () => {
  lab.merchant = await seedMerchant(lab.sql);
});

test("deletes its own events alone: none written before or beside it, and none of an earlier run of Postgres", async () => {
  const { userId } = lab.merchant;
  const event = (subjectId: string) =>
    ({ userId, type: "payment_link.pending", subjectId, data: {} }) as const;
  await recordEvents(lab.sql, [event("before")]);
  await lab.sql.begin(async (tx) => {
    await recordEvents(tx, [event("own")]);
    await recordEvents(lab.sql, [event("beside")]);
    // a restored backup counts transactions from the beginning again
    await tx`
      insert into events (epoch, user_id, type, subject_id, data)
      values (write_event_epoch() - 1, ${userId}, 'payment_link.pending', 'earlier run', '{}')`;
    await dropOwnEvents(tx);
  });
  const rows = await lab.sql<{ subjectId: string }[]>`
    select subject_id from events where user_id = ${userId} order by subject_id`;
  expect(rows.map(({ subjectId }) => subjectId)).toEqual(["before", "beside", "earlier run"]);
});

test("remembers the ids of rows that only their transfer can recreate, and restores these", async () => {
  const { sql, merchant } = lab;
  const payment = await accepted(lab, await seedLink(sql, merchant));
  await read(lab, [makeTransfer(lab, 90, { payment }), makeTransfer(lab, 90, { amountUnits: 7n })]);
  const statuses = ["CONFIRMED", "DETECTED", "PENDING", "FAILED", "ORPHANED"] as const;
  const ids = await insertHistory(
    sql,
    merchant.userId,
    statuses.map((status) => ({ status })),
  );
  await sql.begin(async (tx) => {
    await keepRowIds(tx, NETWORK);
    const kept = await tx<{ id: string; logId: string }[]>`
      select id, log_id from past_ids where id in (
        select id from transactions where owner = owner_key(${merchant.userId})
      )`;
    expect(kept.map(({ id }) => id).sort()).toEqual(ids.slice(0, 2).sort());
    for (const { id, logId } of kept) await tx`update transactions set id = ${logId} where id = ${id}`;
    await restoreRowIds(tx);
    const restored = await tx<{ id: string }[]>`
      select id from transactions where id = any(${ids}::text[])`;
    expect(restored).toHaveLength(statuses.length);
  });
});

test("reports the rows that changed, came or went, and restores the times of those that are the same", async () => {
  const { sql, merchant } = lab;
  const [same = "", changed = "", gone = ""] = await insertHistory(sql, merchant.userId, [{}, {}, {}]);
  const [elsewhere = ""] = await insertHistory(sql, merchant.userId, [{ network: "base" }]);
  const old = new Date("2026-01-02T03:04:05.000Z");
  const all = [same, changed, gone, elsewhere];
  await sql`update transactions set updated_at = ${old} where id = any(${all}::text[])`;
  const now = new Date("2026-05-06T07:08:09.000Z");
  const found = await sql.begin(async (tx) => {
    await takeSnapshot(tx, NETWORK);
    await tx`update transactions set updated_at = ${now} where id = any(${all}::text[])`;
    await tx`update transactions set description = 'another' where id in (${changed}, ${elsewhere})`;
    await tx`delete from transactions where id = ${gone}`;
    await bookTransfer({ ...lab, sql: tx as never });
    return compareWithSnapshot(tx, NETWORK);
  });
  const byTable = Object.fromEntries(found.map(({ table, ...rest }) => [table, rest]));
  expect(byTable).toMatchObject({ transactions: { rows: 2 }, transfers: { rows: 1 } });
  expect(byTable.transactions?.examples.toSorted()).toEqual([changed, gone].sort());
  const rows = await sql<{ id: string; updatedAt: Date }[]>`
    select id, updated_at from transactions where id = any(${all}::text[])`;
  expect(Object.fromEntries(rows.map(({ id, updatedAt }) => [id, updatedAt]))).toEqual({
    [same]: old,
    [changed]: now,
    [elsewhere]: now,
  });
});
