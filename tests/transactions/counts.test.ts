/** Totals come from counters; here they are compared with counted rows, after random changes and during concurrent folding. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newUserId } from "../../core/domain/ids.ts";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { TRANSACTION_STATUSES, TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import { NO_FILTER, type TransactionFilter } from "../../core/domain/transaction.ts";
import { insertUser } from "../../db/accounts/users.ts";
import { foldLinkCounts, foldTransactionCounts } from "../../db/jobs/fold-count-deltas.ts";
import { countLinks } from "../../db/links/links.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { bucketOf } from "../../db/transactions/amount-counts.ts";
import { counterCell } from "../../db/transactions/counter-cell.ts";
import { type Sum, sumTransactions } from "../../db/transactions/summary.ts";
import { countChosen, listTransactions } from "../../db/transactions/transactions.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { seedMerchant } from "../support/seed.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { type GivenRow, insertHistory } from "./history.ts";

let db: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 8 });
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

const START_MS = Date.UTC(2026, 0, 30);
const SPAN_MS = 5 * 86_400_000;
const PRICES = [
  1n,
  9n,
  99n,
  100n,
  999_999n,
  1_000_000n,
  9_990_000n,
  10_000_000n,
  10_049_999n,
  10_050_000n,
  123_456_789n,
];

function randomRow(
  random: () => number,
): Required<Pick<GivenRow, "type" | "status" | "network" | "amountUnits" | "detectedAt">> {
  const pick = <Value>(values: readonly Value[]) => values[Math.floor(random() * values.length)] as Value;
  return {
    type: pick(TRANSACTION_TYPES),
    status: pick(TRANSACTION_STATUSES),
    network: pick(NETWORK_IDS),
    amountUnits: random() < 0.7 ? pick(PRICES) : BigInt(Math.floor(random() * 200_000_000)),
    // whole hours often: boundaries of days
    detectedAt: new Date(
      START_MS + Math.floor((random() * SPAN_MS) / 3_600_000) * 3_600_000 + (random() < 0.5 ? 0 : 1),
    ),
  };
}

function randomFilter(random: () => number): TransactionFilter {
  const some = <Value>(values: readonly Value[]) =>
    random() < 0.5 ? [] : values.filter(() => random() < 0.5);
  const row = randomRow(random);
  const other = randomRow(random);
  const at = row.detectedAt as Date;
  return {
    ...NO_FILTER,
    types: some(TRANSACTION_TYPES),
    statuses: some(TRANSACTION_STATUSES),
    networks: some(NETWORK_IDS),
    from: random() < 0.4 ? at : undefined,
    before: random() < 0.4 ? (other.detectedAt as Date) : undefined,
    minUnits: random() < 0.3 ? row.amountUnits : undefined,
    maxUnits: random() < 0.3 ? other.amountUnits : undefined,
  };
}

async function countByHand(userId: string, filter: TransactionFilter): Promise<number> {
  const sums = await sumByHand(userId, filter);
  return sums.reduce((total, { count }) => total + Number(count), 0);
}

/** The same filter in plain SQL. */
async function sumByHand(userId: string, filter: TransactionFilter): Promise<Sum[]> {
  return sql<Sum[]>`
    select network, type, status, count(*) as count, sum(amount_units) as units
    from transactions
    where owner = owner_key(${userId})
      and (${filter.types.length === 0} or type = any(${filter.types as string[]}::text[]))
      and (${filter.statuses.length === 0} or status = any(${filter.statuses as string[]}::text[]))
      and (${filter.networks.length === 0} or network = any(${filter.networks as string[]}::text[]))
      and (${filter.from ?? null}::timestamptz is null or detected_at >= ${filter.from ?? null}::timestamptz)
      and (${filter.before ?? null}::timestamptz is null or detected_at < ${filter.before ?? null}::timestamptz)
      and (${filter.minUnits ?? null}::numeric is null or amount_units >= ${filter.minUnits ?? null}::numeric)
      and (${filter.maxUnits ?? null}::numeric is null or amount_units <= ${filter.maxUnits ?? null}::numeric)
    group by network, type, status
    order by network || ' ' || type || ' ' || status collate "C"`;
}

async function newUser(): Promise<string> {
  const id = newUserId();
  await insertUser(sql, { id, email: `${id}@example.com` });
  return id;
}

type WideCount = { owner: string; cell: number; bucket: number; count: bigint };

async function wideCounts(): Promise<WideCount[]> {
  const rows = await sql<WideCount[]>`
    select owner, cell, bucket, count
    from transaction_wide_amount_counts
    where count <> 0
    order by owner, cell, bucket`;
  return [...rows];
}

/** What the wide counters must hold, by the narrow ones. */
async function sumsOfHundreds(): Promise<WideCount[]> {
  const rows = await sql<WideCount[]>`
    select
      owner_key(user_id) as owner, coalesce(transaction_cell(type, status, network), 0) as cell,
      bucket / 100 * 100 as bucket, sum(count)::bigint as count
    from transaction_amount_counts
    group by 1, 2, 3
    having sum(count) <> 0
    order by 1, 2, 3`;
  return [...rows];
}

const snapshot = <Value>(run: (tx: Parameters<Parameters<Sql["begin"]>[1]>[0]) => Promise<Value>) =>
  sql.begin("isolation level repeatable read read only", run);

describe("counters of the history", () => {
  test("totals and pages equal counted rows for 150 random filters, before and after folding", async () => {
    const random = seededRandom("rows and filters");
    const [userId, otherId] = [await newUser(), await newUser()];
    await insertHistory(
      sql,
      userId,
      Array.from({ length: 800 }, () => randomRow(random)),
    );
    await insertHistory(
      sql,
      otherId,
      Array.from({ length: 50 }, () => randomRow(random)),
    );
    for (let round = 0; round < 3; round++) {
      for (let n = 0; n < 50; n++) {
        const filter = randomFilter(random);
        const expected = await countByHand(userId, filter);
        const { total, rows } = await snapshot((tx) =>
          listTransactions(tx, userId, filter, { limit: 100, offset: 0 }),
        );
        expect({ filter, total, rows: rows.length }).toEqual({
          filter,
          total: expected,
          rows: Math.min(100, expected),
        });
        expect(await snapshot((tx) => countChosen(tx, userId, filter))).toBe(expected);
        const sums = await snapshot((tx) => sumTransactions(tx, userId, filter));
        const keyOf = ({ network, type, status }: Sum) => `${network} ${type} ${status}`;
        sums.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
        expect({ filter, sums }).toEqual({ filter, sums: [...(await sumByHand(userId, filter))] });
      }
      // change counted rows, then fold some of the differences
      await sql`update transactions set status = 'CONFIRMED' where owner = owner_key(${userId}) and status = 'DETECTED' and amount_units > 500000`;
      await sql`update transactions set type = 'PAYMENT_LINK', amount_units = amount_units + 1 where owner = owner_key(${userId}) and type = 'SEND' and log_index = 0 and amount_units < 1000`;
      // another amount of the same bucket changes a sum and no count
      await sql`update transactions set amount_units = amount_units + 1 where owner = owner_key(${userId}) and amount_units = 123456789`;
      await sql`delete from transactions where owner = owner_key(${userId}) and amount_units = 9990000`;
      await sql.begin((tx) => foldTransactionCounts(tx, round === 0 ? 300 : 1_000_000));
    }
    const [left] = await sql`select count(*) as n from transaction_count_deltas`;
    expect(left?.n).toBe(0n);
    expect(await wideCounts()).toEqual(await sumsOfHundreds());
    await sql`delete from transaction_amount_counts where user_id = ${otherId}`;
    expect(await wideCounts()).toEqual(await sumsOfHundreds());
  }, 120_000);

  test("stay exact during ten concurrent writers, folding and rollbacks", async () => {
    const random = seededRandom("rows of concurrent writers");
    const userId = await newUser();
    let isWriting = true;
    const folding = (async () => {
      while (isWriting) {
        await sql.begin((tx) => foldTransactionCounts(tx, 7));
        const { total } = await snapshot((tx) =>
          listTransactions(tx, userId, NO_FILTER, { limit: 1, offset: 0 }),
        );
        expect(total).toBeGreaterThanOrEqual(0);
      }
    })();
    await Promise.all(
      Array.from({ length: 10 }, async () => {
        for (let n = 0; n < 15; n++) {
          const rows = Array.from({ length: 3 }, () => randomRow(random));
          const isKept = random() < 0.8;
          await sql
            .begin(async (tx) => {
              await insertHistory(tx as unknown as Sql, userId, rows);
              await tx`update transactions set status = 'CONFIRMED' where id in (
                select id from transactions where owner = owner_key(${userId}) and status <> 'CONFIRMED' limit 1 for update skip locked)`;
              if (!isKept) throw new Error("roll back");
            })
            .catch((error: Error) => {
              if (error.message !== "roll back") throw error;
            });
        }
      }),
    );
    isWriting = false;
    await folding;
    for (let n = 0; n < 30; n++) {
      const filter = randomFilter(random);
      expect(await snapshot((tx) => countChosen(tx, userId, filter))).toBe(await countByHand(userId, filter));
    }
  }, 120_000);

  test("the number of every cell is the same in SQL and TypeScript", async () => {
    for (const type of TRANSACTION_TYPES)
      for (const status of TRANSACTION_STATUSES)
        for (const network of NETWORK_IDS) {
          const [row] = await sql<
            { cell: number }[]
          >`select transaction_cell(${type}, ${status}, ${network}) as cell`;
          expect(counterCell({ type, status, network })).toBe(Number(row?.cell));
        }
  });

  test("buckets are the same in SQL and TypeScript at every boundary", async () => {
    const edges = [
      0n,
      1n,
      9n,
      10n,
      99n,
      100n,
      999n,
      1_000n,
      1_009n,
      1_010n,
      9_999n,
      10_000n,
      2n ** 63n,
      2n ** 255n,
    ];
    for (const units of edges) {
      const [row] = await sql<
        { bucket: number }[]
      >`select transaction_amount_bucket(${units.toString()}::numeric) as bucket`;
      const bucket = bucketOf(units);
      expect(row?.bucket).toBe(bucket.number);
      expect(bucket.start <= units && units < bucket.end).toBe(true);
      if (units > 0n)
        expect(bucketOf(bucket.start - 1n > 0n ? bucket.start - 1n : 0n).number).toBeLessThanOrEqual(
          bucket.number,
        );
      expect(bucketOf(bucket.end).number).toBeGreaterThan(bucket.number);
    }
  });

  test("a bound just above a frequent price reads few of that price's rows", async () => {
    const userId = await newUser();
    // one bucket: 30,000 rows of 10 USDC, 6,000 of 10.05
    await sql`
      insert into transactions (id, owner, network, type, status, amount_units, counterparty, description, detected_at)
      select
        'txn_price' || lpad(n::text, 17, '0'), owner_key(${userId}), 'base', 'RECEIVE', 'CONFIRMED',
        case when n % 6 = 0 then 10050000 else 10000000 end, ${`0x${"ab".repeat(20)}`}, '',
        ${new Date(START_MS)}::timestamptz + n * interval '1 second'
      from generate_series(1, 36000) n`;
    await sql.begin((tx) => foldTransactionCounts(tx, 1_000_000));
    await sql`analyze transactions`;
    const { total, entries } = await snapshot(async (tx) => {
      const read = async () => {
        const [row] = await tx<{ entries: number }[]>`
          select sum(pg_stat_get_xact_tuples_returned(indexrelid))::float8 as entries
          from pg_index
          where indrelid = 'transactions'::regclass`;
        return row?.entries ?? 0;
      };
      const before = await read();
      const total = await countChosen(tx, userId, { ...NO_FILTER, minUnits: 10_020_000n });
      return { total, entries: (await read()) - before };
    });
    expect(total).toBe(6_000);
    // 5,000 above the bound and 5,000 below, then the 6,000 above
    expect(entries).toBeLessThan(17_000);
  }, 120_000);

  test("a distant page of whole days is not shifted by rows of the following day", async () => {
    const userId = await newUser();
    // 200 rows a day, ten days, the newest first
    const newestMs = Date.UTC(2026, 0, 10, 23, 59, 50);
    const rowEveryMs = 86_400_000 / 200;
    const given = Array.from({ length: 2_000 }, (_, n) => ({
      detectedAt: new Date(newestMs - n * rowEveryMs),
    }));
    const ids = await insertHistory(sql, userId, given);
    const before = new Date(Date.UTC(2026, 0, 10));
    const from = new Date(Date.UTC(2026, 0, 2));
    for (const [filter, last] of [
      [{ before }, 2_000],
      [{ before, types: ["RECEIVE" as const] }, 2_000],
      [{ before, from }, 1_800],
    ] as const) {
      const chosen = ids.slice(200, last);
      for (const offset of [499, 500, 750, 1_000, 1_595]) {
        const page = { limit: 10, offset };
        const { rows } = await snapshot((tx) =>
          listTransactions(tx, userId, { ...NO_FILTER, ...filter }, page),
        );
        expect(rows.map(({ id }) => id)).toEqual(chosen.slice(offset, offset + 10));
      }
    }
  }, 120_000);

  test("a distant page begins at the right row, whatever the date boundaries", async () => {
    const random = seededRandom("rows of a distant page");
    const userId = await newUser();
    await insertHistory(
      sql,
      userId,
      Array.from({ length: 1_200 }, () => randomRow(random)),
    );
    for (let n = 0; n < 40; n++) {
      const { minUnits: _min, maxUnits: _max, ...filter } = randomFilter(random);
      const all = await sql<{ id: string; detectedAt: Date }[]>`
        select id
        from transactions
        where owner = owner_key(${userId})
          and (${filter.types.length === 0} or type = any(${filter.types as string[]}::text[]))
          and (${filter.statuses.length === 0} or status = any(${filter.statuses as string[]}::text[]))
          and (${filter.networks.length === 0} or network = any(${filter.networks as string[]}::text[]))
          and (${filter.from ?? null}::timestamptz is null or detected_at >= ${filter.from ?? null}::timestamptz)
          and (${filter.before ?? null}::timestamptz is null or detected_at < ${filter.before ?? null}::timestamptz)
        order by detected_at desc, id desc`;
      for (const offset of [499, 500, 501, 700, 1_100]) {
        const { rows } = await snapshot((tx) => listTransactions(tx, userId, filter, { limit: 20, offset }));
        expect(rows.map(({ id }) => id)).toEqual(all.slice(offset, offset + 20).map(({ id }) => id));
      }
    }
  }, 120_000);
});

describe("counters of links", () => {
  test("equal counted rows through status changes, refunds, deletes and folds", async () => {
    const { userId, address } = await seedMerchant(sql, { network: "base" });
    const insert = (n: number, status: string, amount: bigint, expires: string) => sql`
      insert into payment_links (id, user_id, network, recipient, amount_units, description, status, expires_at, paid_at)
      values (
        ${`link_${String(n).padStart(22, "0")}`}, ${userId}, 'base', ${address}, ${amount}::bigint, 'd', ${status},
        now() + ${expires}::interval, case when ${status} = 'PAID' then now() end
      )`;
    for (let n = 0; n < 60; n++) {
      const status = (["ACTIVE", "PENDING", "PAID", "EXPIRED", "CANCELLED"] as const)[n % 5] ?? "ACTIVE";
      await insert(n, status, BigInt(n) * 1_000_003n + 1n, n % 10 === 0 ? "-1 hour" : "1 hour");
    }
    const check = async () => {
      const [row] = await sql<Record<string, bigint>[]>`
        select
          count(*) as all, count(*) filter (where status = 'PAID') as paid,
          count(*) filter (where status = 'ACTIVE' and expires_at > now()) as active,
          count(*) filter (where status = 'EXPIRED' or status = 'ACTIVE' and expires_at <= now()) as expired,
          coalesce(sum(amount_units) filter (where status = 'PAID'), 0) as paid_units,
          coalesce(sum(refunded_units), 0) as refunded_units
        from payment_links
        where user_id = ${userId}`;
      const counts = await countLinks(sql, userId);
      expect(counts).toMatchObject({
        all: Number(row?.all),
        PAID: Number(row?.paid),
        ACTIVE: Number(row?.active),
        EXPIRED: Number(row?.expired),
        paidUnits: row?.paidUnits,
        refundedUnits: row?.refundedUnits,
      });
    };
    await check();
    await sql`update payment_links set status = 'PAID', paid_at = now() where user_id = ${userId} and status = 'PENDING'`;
    await check();
    await sql.begin((tx) => foldLinkCounts(tx, 10));
    await check();
    await sql`update payment_links set refunded_units = 5 where user_id = ${userId} and status = 'PAID'`;
    await sql`update payment_links set status = 'ACTIVE', paid_at = null where user_id = ${userId} and status = 'PAID' and amount_units % 2 = 0`;
    await check();
    await sql`delete from payment_links where user_id = ${userId} and status = 'CANCELLED'`;
    await sql.begin((tx) => foldLinkCounts(tx, 1_000_000));
    await check();
  });
});
