/** Hashes, addresses and signatures: `0x…` in TypeScript, bytes in the tables that grow. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import postgres from "postgres";
import type { Hex } from "../../core/domain/networks.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { presentColumn, toByteaText } from "../../db/postgres/hex-bytes.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const BYTEA_OID = 17;
const HASH: Hex = `0x${"a1".repeat(32)}`;
const BLOCK: Hex = `0x${"b2".repeat(32)}`;
const PAYER: Hex = `0x${"e5".repeat(20)}`;
const WALLET: Hex = `0x${"f6".repeat(20)}`;
/** Columns that arrive as `0x…`; every other bytea column as a Buffer. */
const HEX_COLUMNS = {
  documents: ["block_hash", "tx_hash"],
  pay_amounts: ["recipient"],
  payment_links: ["recipient", "tag"],
  wallets: ["address"],
  payments: ["token", "payer", "recipient", "nonce", "signature", "tx_hash"],
  transfers: ["block_hash", "tx_hash", "from_address", "to_address", "authorization_nonce"],
  transactions: ["counterparty", "tx_hash"],
  pending_transactions: ["counterparty", "tx_hash"],
  unwritten_transactions: ["counterparty", "tx_hash"],
};

let db: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

test("hashes of the chain arrive as 0x, every other binary column as bytes", async () => {
  const columns = await sql<{ place: string; column: string }[]>`
    select table_name || '.' || column_name as place, column_name as column
    from information_schema.columns
    where table_schema = 'public' and udt_name = 'bytea'`;
  const asHex = Object.entries(HEX_COLUMNS).flatMap(([table, names]) =>
    names.map((name) => `${table}.${name}`),
  );
  const found = columns.filter(({ column }) => {
    const shown = presentColumn(Buffer.from([0xab]), { type: BYTEA_OID, name: postgres.toCamel(column) });
    return shown === "0xab";
  });
  expect(found.map(({ place }) => place).sort()).toEqual(asHex.sort());
});

test("0x is written and read back in lower case, alone, in lists and as null", async () => {
  const upper: Hex = `0x${"AB".repeat(20)}`;
  const [row] = await sql<{ one: Hex; both: boolean; none: Hex | null; length: number }[]>`
    select
      ${upper}::bytea as one, ${PAYER}::bytea = any(${[upper, PAYER]}::bytea[]) as both, ${null}::bytea as none,
      octet_length(${upper}::bytea) as length`;
  expect(row).toEqual({ one: upper.toLowerCase() as Hex, both: true, none: null, length: 20 });
  const [raw] = await sql<{ raw: Buffer }[]>`select ${Buffer.from([1, 2])}::bytea as raw`;
  expect(raw?.raw).toEqual(Buffer.from([1, 2]));
});

test("error: text that is not 0x is refused where bytes are expected, and so are characters stored as bytes", async () => {
  expect(() => toByteaText("a1" as Hex)).toThrow("0x");
  expect(toByteaText("0xa1")).toBe("\\xa1");
  const insert = (hash: string) => sql`
    insert into transfers (
      network, block_number, block_hash, block_time, tx_hash, log_index, from_address, to_address, amount_units
    )
    values ('base', 1, ${BLOCK}, now(), ${hash}::text::bytea, 1, ${PAYER}, ${WALLET}, 1)`;
  await expect(insert(HASH)).rejects.toThrow("transfers_lengths_check");
  await insert(`\\x${HASH.slice(2)}`);
});
