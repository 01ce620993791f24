/** A database in the data folder that this version cannot upgrade is kept, and a new one starts. */
import { expect, test } from "bun:test";
import { openDatabase } from "../../db/postgres/client.ts";
import { migrate } from "../../db/postgres/migrate.ts";
import { setAsideDatabase } from "../../local/postgres/set-aside-database.ts";
import { createEmptyDatabase, createTestDatabase } from "../support/postgres.ts";
import { createReplacedDatabase, REPLACED } from "../support/replaced-migrations.ts";

const nameOf = (url: string) => new URL(url).pathname.slice(1);

test("a database partway through the replaced migrations is kept under another name, and an empty one starts", async () => {
  const db = await createReplacedDatabase(REPLACED.slice(0, 30));
  const before = openDatabase(db.url, { name: "test", maxConnections: 1 });
  await before`insert into users (id, email) values ('user_11111111-1111-4111-8111-111111111111', 'kept@example.com')`;
  await before.end({ timeout: 5 });

  const notice = await setAsideDatabase(db.url);
  const kept = /kept as (\w+)\.$/.exec(notice ?? "")?.[1] ?? "";
  expect(notice).toBe(
    `The database ${nameOf(db.url)} is of an earlier version and can't be upgraded: a new one starts, the old one is kept as ${kept}.`,
  );
  await migrate(db.url);
  expect(await setAsideDatabase(db.url)).toBeUndefined();

  const keptUrl = new URL(db.url);
  keptUrl.pathname = `/${kept}`;
  const fresh = openDatabase(db.url, { name: "test", maxConnections: 1 });
  const old = openDatabase(keptUrl.href, { name: "test", maxConnections: 1 });
  expect([...(await fresh`select email from users`)]).toEqual([]);
  expect([...(await old`select email from users`)]).toEqual([{ email: "kept@example.com" }]);
  await old.end({ timeout: 5 });
  await fresh`drop database ${fresh(kept)}`;
  await fresh.end({ timeout: 5 });
  await db.drop();
}, 120_000);

test("an empty database, one of this version and one that it can upgrade are kept in place", async () => {
  for (const db of [
    await createEmptyDatabase(),
    await createTestDatabase(),
    await createReplacedDatabase(),
  ]) {
    expect(await setAsideDatabase(db.url)).toBeUndefined();
    await db.drop();
  }
}, 120_000);
