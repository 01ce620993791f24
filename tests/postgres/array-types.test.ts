/** The array types that connections are configured with, against the server's own table of types. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

/** Of the driver's own query for array types. */
const TYPES_QUERY = "typcategory = 'A'";

let db: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 1 });
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

const knownArrayTypes = () =>
  Object.entries((sql.options as unknown as { array_types: Record<string, number> }).array_types);

test("every pair of types matches the server's", async () => {
  const rows = await sql<{ element: string; list: string }[]>`
    select oid::text as element, typarray::text as list
    from pg_type`;
  const listOf = new Map(rows.map(({ element, list }) => [element, Number(list)]));
  const known = knownArrayTypes();
  expect(known.length).toBeGreaterThan(15);
  for (const [element, list] of known) expect([element, listOf.get(element)]).toEqual([element, list]);
});

test("the array type of every column type is known as well", async () => {
  const rows = await sql<{ type: string }[]>`
    select distinct coalesce(nullif(type.typelem, 0), type.oid)::oid::text as type
    from pg_attribute attribute
    join pg_class class on class.oid = attribute.attrelid
    join pg_type type on type.oid = attribute.atttypid
    where class.relnamespace = 'public'::regnamespace and class.relkind in ('r', 'p') and attribute.attnum > 0
      and not attribute.attisdropped`;
  const known = new Set(knownArrayTypes().map(([element]) => element));
  expect(rows.length).toBeGreaterThan(5);
  expect(rows.map(({ type }) => type).filter((type) => !known.has(type))).toEqual([]);
});

test("a new connection's first statement is the caller's, with arrays both ways", async () => {
  const at = new Date("2026-01-02T03:04:05.678Z");
  const [row] = await sql<Record<string, unknown>[]>`
    select
      ${sql.array([1n, 2n])}::bigint[] as big, ${["a", 'b"\\c,{}']}::text[] as texts, ${sql.array([true, false])}::boolean[] as flags,
      ${sql.array([at])}::timestamptz[] as times, ${["0x0a"]}::bytea[] as bytes, ${[3, 4]}::int[] as numbers,
      ${[]}::text[] as nothing, array[12345678901234567890::numeric] as numerics, array['{"a": [1]}'::jsonb] as values,
      array[['a', 'b'], ['c', 'd']] as square,
      (select count(*)::int from pg_prepared_statements where statement like ${`%${TYPES_QUERY}%`}) as queries`;
  expect(row).toEqual({
    ...{ big: [1n, 2n], texts: ["a", 'b"\\c,{}'], flags: [true, false], times: [at] },
    ...{ bytes: [Buffer.from([10])], numbers: [3, 4], nothing: [], numerics: [12345678901234567890n] },
    ...{
      values: [{ a: [1] }],
      square: [
        ["a", "b"],
        ["c", "d"],
      ],
      queries: 0,
    },
  });
});
