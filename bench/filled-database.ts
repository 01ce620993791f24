/**
 * A database with one large merchant among 1,000. BENCH_DATABASE_URL names one to reuse: filled by an earlier run, or filled now with
 * BENCH_ROWS of that one size. Otherwise each size gets a temporary database.
 */
import { openDatabase, type Sql } from "../db/postgres/client.ts";
import { migrate } from "../db/postgres/migrate.ts";
import { createTestDatabase } from "../tests/support/postgres.ts";
import { seedHistory } from "./seed-history.ts";

/** Rows of the large merchant, one size after another. 10000000 takes ten minutes to fill and 12 GB. */
export const SIZES = (process.env.BENCH_ROWS ?? "10000,1000000").split(",").map(Number);

export type FilledDatabase = { url: string; drop: () => Promise<void> };

export function emailOf(merchant: number): string {
  return `merchant${merchant}@seed.example`;
}

/** Migrated, filled and analyzed; `more` adds rows that a bench needs. Prints duration and size. */
export async function openFilled(
  bench: string,
  size: number,
  more: (sql: Sql) => Promise<void> = async () => {},
): Promise<FilledDatabase> {
  const given = process.env.BENCH_DATABASE_URL;
  const db = given ? { url: given, drop: async () => {} } : await createTestDatabase();
  await migrate(db.url);
  const sql = openDatabase(db.url, { name: "bench", maxConnections: 2, silenceTimeoutS: 0 });
  const startedMs = Date.now();
  const [known] = await sql`select 1 from users where email = ${emailOf(1)}`;
  if (!known) await seedHistory(sql, { transactions: size, links: Math.max(10_000, size / 10) });
  await more(sql);
  const [disk] = await sql<{ bytes: bigint }[]>`select pg_database_size(current_database()) as bytes`;
  await sql.end({ timeout: 1 });
  const seconds = Math.round((Date.now() - startedMs) / 1000);
  console.log(JSON.stringify({ bench, rows: size, seconds, megabytes: Number((disk?.bytes ?? 0n) >> 20n) }));
  return db;
}

/** Headers of a signed-in merchant. */
export async function signIn(baseUrl: string, merchant: number): Promise<Record<string, string>> {
  const response = await fetch(`${baseUrl}/v1/test/token`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email: emailOf(merchant) }),
  });
  const text = await response.text();
  const token = /"(?:accessToken|token)":"([^"]+)"/.exec(text)?.[1];
  if (!token) throw new Error(`no test token: ${text}`);
  return { authorization: `Bearer ${token}`, "x-test-mode": "true" };
}
