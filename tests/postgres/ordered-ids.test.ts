/** Ids that begin with their time: an index of them grows at its end. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  newClaimId,
  newDocumentId,
  newLinkId,
  newPaymentId,
  newTransactionId,
} from "../../core/domain/ids.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

let db: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 1 });
}, 120_000);
afterAll(async () => {
  await sql?.end();
  await db?.drop();
});

for (const [name, make] of Object.entries({
  newLinkId,
  newPaymentId,
  newClaimId,
  newTransactionId,
  newDocumentId,
})) {
  test(`${name}: an id of a later millisecond sorts behind all earlier ones in Postgres`, async () => {
    const made: string[] = [];
    for (let index = 0; index < 200; index++) {
      made.push(make());
      const madeMs = Date.now();
      while (Date.now() <= madeMs);
    }
    const rows = await sql<{ id: string }[]>`
      select id from unnest(${made.toReversed()}::text[]) as made (id) order by id`;
    expect(rows.map(({ id }) => id)).toEqual(made);
  });

  test(`${name}: a prefix and 22 URL-safe characters, none twice within a millisecond`, () => {
    const made = Array.from({ length: 10_000 }, make);
    expect(new Set(made).size).toBe(made.length);
    expect(made.filter((id) => !/^[a-z]{3,4}_[A-Za-z0-9_-]{22}$/.test(id))).toEqual([]);
  });
}
