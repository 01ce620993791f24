/** Which unique amounts are free: the least recently used first, and none that a late payer may still type. */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { newLinkId } from "../../core/domain/ids.ts";
import { linkTag } from "../../core/domain/link-tag.ts";
import { insertLink } from "../../db/links/links.ts";
import { takePayAmount } from "../../db/links/pay-amounts.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";

setDefaultTimeout(120_000);

const UNITS = 5_000_000n;
/** 1 to 999 without those that end in 0. */
const USABLE = 900;

let db: TestDatabase;
let sql: Sql;
let ann: SeededMerchant;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 30 });
});
beforeEach(async () => {
  ann = await seedMerchant(sql);
});
afterAll(async () => {
  await sql?.end({ timeout: 5 });
  await db?.drop();
});

async function take(amountUnits = UNITS, merchant = ann): Promise<bigint | undefined> {
  const taken = await takePayAmount(sql, {
    network: "base-sepolia",
    recipient: merchant.address,
    amountUnits,
  });
  return taken?.units;
}

async function make(amountUnits = UNITS): Promise<bigint | null | undefined> {
  const id = newLinkId();
  const terms = {
    id,
    tag: linkTag(id),
    userId: ann.userId,
    amountUnits,
    description: "d",
    expiresInHours: 24,
  };
  const inserted = await sql.begin((tx) => insertLink(tx, { ...terms, network: "base-sepolia" }));
  return inserted.ok ? inserted.link.payAmountUnits : undefined;
}

/** All amounts but `free` are held by an open link; `free` by this one, used a moment earlier than the others. */
async function holdAll(free: bigint, holder: string): Promise<void> {
  const open = await seedLink(sql, ann, { amountUnits: 1n });
  await sql`
    insert into pay_amounts (network, recipient, units, link_id)
    select
      'base-sepolia', ${ann.address}::bytea, ${UNITS}::bigint + n,
      case when ${UNITS}::bigint + n = ${free}::bigint then ${holder} else ${open} end
    from generate_series(1, 999) n`;
}

test("begins with the highest, and skips amounts ending in 0", async () => {
  const given: unknown[] = [];
  for (let n = 0; n < 11; n++) given.push(await make());
  const added = [999n, 998n, 997n, 996n, 995n, 994n, 993n, 992n, 991n, 989n, 988n];
  expect(given).toEqual(added.map((one) => UNITS + one));
});

test("returns the least recently used of those that are free again", async () => {
  const ended = await seedLink(sql, ann, { amountUnits: 1n, expiresInS: -25 * 3600 });
  await sql`
    insert into pay_amounts (network, recipient, units, link_id, used_at)
    select 'base-sepolia', ${ann.address}::bytea, ${UNITS}::bigint + n, ${ended}, now() - make_interval(mins => n)
    from generate_series(1, 999) n`;
  // 999 was used longest ago
  expect(await take()).toBe(UNITS + 999n);
  expect(await make()).toBe(UNITS + 999n);
  expect(await make()).toBe(UNITS + 998n);
  // one that was never used comes first
  await sql`delete from pay_amounts where recipient = ${ann.address} and units = ${UNITS}::bigint + 500 - 1`;
  expect(await make()).toBe(UNITS + 499n);
});

test("gives all 900, then none; another wallet has its own", async () => {
  const open = await seedLink(sql, ann, { amountUnits: 1n });
  for (let n = 0; n < USABLE; n++) {
    const units = await take();
    if (units === undefined) throw new Error(`none after ${n}`);
    await sql`
      insert into pay_amounts (network, recipient, units, link_id)
      values ('base-sepolia', ${ann.address}, ${units}, ${open})`;
  }
  expect(await take()).toBeUndefined();
  expect(await take(UNITS, await seedMerchant(sql))).toBe(UNITS + 999n);
});

describe("an amount is reserved for a day after its link ended", () => {
  const FREE = UNITS + 321n;
  const ends: [string, (seconds: number) => Promise<unknown>][] = [
    [
      "expired",
      (seconds) =>
        end(seconds, sql`status = 'EXPIRED', expires_at = now() - make_interval(secs => ${seconds})`),
    ],
    [
      "expired, before a job ran",
      (seconds) => end(seconds, sql`expires_at = now() - make_interval(secs => ${seconds})`),
    ],
    [
      "cancelled",
      (seconds) =>
        end(seconds, sql`status = 'CANCELLED', cancelled_at = now() - make_interval(secs => ${seconds})`),
    ],
    [
      "paid",
      (seconds) =>
        end(
          seconds,
          sql`status = 'PAID', paid_at = now(), updated_at = now() - make_interval(secs => ${seconds})`,
        ),
    ],
  ];
  let holder: string;
  const end = (_: number, change: ReturnType<Sql>) =>
    sql`update payment_links set ${change} where id = ${holder}`;

  test.each(ends)("%s", async (_, endBefore) => {
    holder = await seedLink(sql, ann, { amountUnits: 2n });
    await holdAll(FREE, holder);
    expect(await take()).toBeUndefined();
    // twice: the update itself sets the time of a cancellation
    for (let round = 0; round < 2; round++) await endBefore(24 * 3600 - 30);
    expect(await take()).toBeUndefined();
    await endBefore(24 * 3600 + 1);
    expect(await take()).toBe(FREE);
  });

  test("and while its link is PENDING, however long ago it expired", async () => {
    holder = await seedLink(sql, ann, { amountUnits: 2n });
    await holdAll(FREE, holder);
    await sql`update payment_links set status = 'PENDING', expires_at = now() - interval '9 days' where id = ${holder}`;
    expect(await take()).toBeUndefined();
  });
});

describe("amounts of open links are not issued", () => {
  const asks: [string, string, boolean][] = [
    ["ACTIVE", "status = 'ACTIVE'", false],
    ["PENDING", "status = 'PENDING'", false],
    ["ACTIVE by its row, but over", "status = 'ACTIVE', expires_at = now() - interval '1 second'", true],
    ["EXPIRED", "status = 'EXPIRED'", true],
    ["CANCELLED", "status = 'CANCELLED'", true],
    ["PAID", "status = 'PAID', paid_at = now()", true],
  ];
  test.each(asks)("%s", async (_, change, isFree) => {
    const id = await seedLink(sql, ann, { amountUnits: UNITS + 999n });
    await sql.unsafe(`update payment_links set ${change} where id = $1`, [id]);
    expect(await take()).toBe(isFree ? UNITS + 999n : UNITS + 998n);
  });
});

test("fifty links created in fifty concurrent transactions have fifty amounts", async () => {
  const given = await Promise.all(Array.from({ length: 50 }, () => make()));
  expect(new Set(given).size).toBe(50);
  const [row] = await sql<{ count: bigint }[]>`
    select count(*) as count from pay_amounts where recipient = ${ann.address}`;
  expect(row?.count).toBe(50n);
});

test("an amount whose link is deleted is issued again; a wallet's amounts are deleted with it", async () => {
  await sql`
    insert into pay_amounts (network, recipient, units, link_id, used_at)
    select 'base-sepolia', ${ann.address}::bytea, ${UNITS}::bigint + n, 'link_gone', now() - make_interval(mins => n)
    from generate_series(1, 999) n`;
  expect([await make(), await make()]).toEqual([UNITS + 999n, UNITS + 998n]);
  const rows = () => sql`select from pay_amounts where recipient = ${ann.address}`;
  expect(await rows()).toHaveLength(999);
  await sql`delete from wallets where address = ${ann.address}`;
  expect(await rows()).toHaveLength(0);
});
