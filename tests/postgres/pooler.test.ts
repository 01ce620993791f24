/** A transaction pooler in front of Postgres: recognised, and refused at start by every process. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { openDatabase } from "../../db/postgres/client.ts";
import { isBehindPooler } from "../../db/postgres/pooler.ts";
import { openDatabaseWait } from "../../db/postgres/retry-while-unavailable.ts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { startServiceProcess } from "../../local/processes/service-process.ts";
import { SERVICE_KINDS, serviceEnv } from "../../local/service-env.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { serviceProgram } from "../support/compiled-services.ts";
import { PGBOUNCER, startPgbouncer } from "../support/pgbouncer.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

/** What our pools send; pgbouncer refuses parameters that it does not know. */
const OURS = [
  ...["extra_float_digits", "statement_timeout", "idle_in_transaction_session_timeout", "enable_seqscan"],
  ...["random_page_cost", "jit", "plan_cache_mode", "synchronous_commit"],
  ...["IntervalStyle", "bytea_output", "default_transaction_isolation"],
];

let db: TestDatabase;
let chain: TestChain;

beforeAll(async () => {
  [db, chain] = await Promise.all([createTestDatabase(), startTestChain()]);
}, 120_000);
afterAll(() => Promise.all([db?.drop(), chain?.stop()]));

test("a direct connection is not a pooler", async () => {
  expect(await isBehindPooler(db.url)).toBe(false);
});

test("an unavailable database is an error, not a verdict", async () => {
  await expect(isBehindPooler("postgres://nobody@127.0.0.1:1/none")).rejects.toThrow();
});

// Debian: apt-get install pgbouncer
describe.skipIf(!PGBOUNCER)("with pgbouncer (skipped where it is not installed)", () => {
  const cases = [
    ["session", 5, false],
    ["transaction", 5, true],
    ["transaction", 1, true],
    ["statement", 5, true],
  ] as const;
  for (const [mode, poolSize, expected] of cases)
    test(`${mode} mode, ${poolSize} server connection(s): ${expected ? "recognised" : "accepted"}`, async () => {
      const pooler = await startPgbouncer(db.url, { mode, poolSize });
      try {
        expect(await isBehindPooler(pooler.url)).toBe(expected);
      } finally {
        await pooler.stop();
      }
    });

  test("session mode that refuses a setting of ours is named at once, not waited for", async () => {
    const pooler = await startPgbouncer(db.url, { mode: "session", poolSize: 5 });
    const sql = openDatabase(pooler.url, { name: "test", maxConnections: 1 });
    const lines: string[] = [];
    const log = { warn: (line: string) => void lines.push(line), info: () => {} };
    const wait = openDatabaseWait(pooler.url, { log, onGivenUp: (line) => void lines.push(line) }, 500);
    try {
      await expect(wait(() => sql`select 1`)).rejects.toThrow("unsupported startup parameter");
      expect(lines).toEqual([expect.stringMatching(/is a pooler that refuses .*ignore_startup_parameters/)]);
    } finally {
      await sql.end({ timeout: 1 });
      await pooler.stop();
    }
  });

  test("api, worker and indexer exit with code 78 and one message", async () => {
    const pooler = await startPgbouncer(db.url, { mode: "transaction", poolSize: 5, ignores: OURS });
    const settings = {
      ...{
        databaseUrl: pooler.url,
        rpcUrls: { "base-sepolia": chain.rpcUrl },
        smtpUrl: "smtp://127.0.0.1:1",
      },
      ...{ jwtSecret: "4f".repeat(32), otpPepper: "99".repeat(32) },
      ...{ relayerKeys: localRelayerKeys().join(","), dataDir: "/nonexistent" },
    };
    const { PATH, HOME } = process.env;
    try {
      for (const kind of SERVICE_KINDS) {
        const lines: string[] = [];
        const env = serviceEnv(kind, settings, {
          PATH,
          HOME,
          NODE_ENV: "test",
          LOG_LEVEL: "silent",
          PORT: "0",
        });
        const child = await startServiceProcess(kind, env, (line) => lines.push(line), serviceProgram(kind));
        expect([kind, await child.exited]).toEqual([kind, 78]);
        expect(lines).toEqual([expect.stringContaining("DATABASE_URL goes through a transaction pooler")]);
      }
    } finally {
      await pooler.stop();
    }
  }, 120_000);
});
