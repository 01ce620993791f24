/** Accounts that were seen on the chain, whoever deployed them. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { markWalletsDeployed } from "../../db/wallets/deployments.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { seedMerchant } from "../support/seed.ts";

let db: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
});
afterAll(async () => {
  await sql?.end();
  await db?.drop();
});

test("a wallet is marked as deployed once, with its event, and no other wallet is", async () => {
  const [made, known, other] = [await seedMerchant(sql), await seedMerchant(sql), await seedMerchant(sql)];
  const since = new Date("2026-01-02T03:04:05Z");
  await sql`update wallets set deployed_at = null where id = any(${[made.walletId, other.walletId]}::text[])`;
  await sql`update wallets set deployed_at = ${since} where id = ${known.walletId}`;
  for (let count = 0; count < 2; count += 1)
    await markWalletsDeployed(sql, [made.walletId, known.walletId, made.walletId]);
  await markWalletsDeployed(sql, []);
  const rows = await sql<{ id: string; deployedAt: Date | null }[]>`select id, deployed_at from wallets`;
  const deployedAt = new Map(rows.map((row) => [row.id, row.deployedAt]));
  expect(deployedAt.get(made.walletId)).toBeInstanceOf(Date);
  expect(deployedAt.get(known.walletId)).toEqual(since);
  expect(deployedAt.get(other.walletId)).toBeNull();
  const events = await sql`select user_id, subject_id, data from events where type = 'wallet.deployed'`;
  expect([...events]).toEqual([
    {
      userId: made.userId,
      subjectId: made.walletId,
      data: { network: "base-sepolia", address: made.address },
    },
  ]);
});
