/** A process that starts before its Postgres says so once, waits, and says how it ended; no line names the password. */
import { describe, expect, test } from "bun:test";
import postgres from "postgres";
import { describeDatabaseFailure, openDatabaseWait } from "../../db/postgres/retry-while-unavailable.ts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { findFreePort } from "../../local/free-port.ts";
import { startServiceProcess } from "../../local/processes/service-process.ts";
import { SERVICE_KINDS, serviceEnv } from "../../local/service-env.ts";
import { serviceProgram } from "../support/compiled-services.ts";
import { openPauses } from "../support/poll.ts";
import { createTestDatabase } from "../support/postgres.ts";

const URL_OF_NOTHING = "postgres://someone:hunter2@127.0.0.1:1/none";
const begins = (seconds: number) =>
  `Postgres at 127.0.0.1:1 is unavailable, waiting for up to ${seconds} s: connect ECONNREFUSED 127.0.0.1:1`;

async function readNothing(): Promise<never> {
  const sql = postgres(URL_OF_NOTHING, { max: 1, onnotice: () => {} });
  try {
    await sql`select 1`;
    throw new Error("somebody listens on port 1");
  } finally {
    await sql.end({ timeout: 0 });
  }
}

function openWait(maxMs = 60_000, url = URL_OF_NOTHING) {
  const lines: string[] = [];
  const add = (line: string) => void lines.push(line);
  const wait = openDatabaseWait(url, { log: { warn: add, info: add }, onGivenUp: add }, maxMs);
  return { wait, lines };
}

test("a database that responds immediately is not mentioned", async () => {
  const { wait, lines } = openWait();
  expect(await wait(async () => 7)).toBe(7);
  expect(lines).toEqual([]);
});

test("one line begins the wait and one ends it, however many attempts there were", async () => {
  const { wait, lines } = openWait();
  let attempts = 0;
  const result = await wait(async () => {
    attempts += 1;
    return attempts < 4 ? readNothing() : attempts;
  });
  expect(result).toBe(4);
  expect(lines).toEqual([
    begins(60),
    expect.stringMatching(/^Postgres at 127\.0\.0\.1:1 is available after [1-9]\d* s$/),
  ]);
});

test("a database behind a socket is named by the socket's folder", async () => {
  const { wait, lines } = openWait(0, "postgres:///none?host=/var/run/postgresql");
  await expect(wait(readNothing)).rejects.toThrow("ECONNREFUSED");
  expect(lines[0]).toStartWith("Postgres at /var/run/postgresql is unavailable");
});

test("error: the last failure is thrown when the wait is over, after a line that names it", async () => {
  const { wait, lines } = openWait(1_000);
  await expect(wait(readNothing)).rejects.toThrow("ECONNREFUSED");
  expect(lines).toEqual([
    begins(1),
    expect.stringMatching(
      /^Postgres at 127\.0\.0\.1:1 was unavailable for [1-9]\d* s: connect ECONNREFUSED 127\.0\.0\.1:1$/,
    ),
  ]);
});

test("error: a failure that waiting cannot fix is thrown immediately", async () => {
  const { wait, lines } = openWait();
  await expect(wait(() => Promise.reject(new Error("permission denied")))).rejects.toThrow(
    "permission denied",
  );
  expect(lines).toEqual([]);
});

test("error: a missing database gives one line that names the variable, and is not waited for", async () => {
  const { wait, lines } = openWait();
  const { url, drop } = await createTestDatabase();
  const sql = postgres(`${url}_none`, { max: 1, onnotice: () => {} });
  await expect(wait(() => sql`select 1`)).rejects.toThrow("does not exist");
  await sql.end({ timeout: 0 });
  await drop();
  expect(lines).toEqual([
    expect.stringMatching(
      /^Postgres at 127\.0\.0\.1:1 refuses the connection \(DATABASE_URL\): database ".*_none" does not exist$/,
    ),
  ]);
});

describe("a command names DATABASE_URL", () => {
  const describeFailure = async (work: () => Promise<unknown>) =>
    describeDatabaseFailure(
      URL_OF_NOTHING,
      await work().then(
        () => undefined,
        (error) => error,
      ),
    );

  test("when Postgres is not there", async () => {
    expect(await describeFailure(readNothing)).toBe(
      "Postgres at 127.0.0.1:1 is unavailable (DATABASE_URL): connect ECONNREFUSED 127.0.0.1:1",
    );
  });

  test("not when a statement is cancelled, is out of space or fails otherwise: that is said in its own words", async () => {
    const { url, drop } = await createTestDatabase();
    const sql = postgres(url, { max: 1, onnotice: () => {}, connection: { statement_timeout: 50 } });
    expect(await describeFailure(() => sql`select pg_sleep(10)`)).toBe(
      "canceling statement due to statement timeout",
    );
    const raise = (state: string) => () =>
      sql.unsafe(`do $$ begin raise exception 'no room' using errcode = '${state}'; end $$`);
    expect(await describeFailure(raise("53100"))).toBe("no room");
    expect(await describeFailure(() => sql`select 1 / 0`)).toBe("division by zero");
    // no connection is left for it, or Postgres stops
    for (const state of ["53300", "57P01"])
      expect(await describeFailure(raise(state))).toBe(
        "Postgres at 127.0.0.1:1 is unavailable (DATABASE_URL): no room",
      );
    await sql.end({ timeout: 0 });
    await drop();
  });
});

describe("api, worker and indexer", () => {
  test.each(SERVICE_KINDS)("%s writes one plain line while it waits", async (kind) => {
    const settings = {
      ...{ databaseUrl: URL_OF_NOTHING, rpcUrls: { "base-sepolia": "http://127.0.0.1:1" } },
      ...{ smtpUrl: "smtp://127.0.0.1:1", jwtSecret: "4f".repeat(32), otpPepper: "99".repeat(32) },
      ...{ relayerKeys: localRelayerKeys().join(","), dataDir: "/nonexistent" },
    };
    const { PATH, HOME } = process.env;
    const given = { PATH, HOME, NODE_ENV: "test", PORT: String(await findFreePort()) };
    const lines: string[] = [];
    const child = await startServiceProcess(
      kind,
      serviceEnv(kind, settings, given),
      (line) => lines.push(line),
      serviceProgram(kind),
    );
    const pause = openPauses();
    const aboutPostgres = () => lines.filter((line) => line.includes("Postgres at"));
    while (aboutPostgres().length === 0) await pause();
    // four attempts
    await Bun.sleep(1_000);
    await child.stop(5_000);
    expect(aboutPostgres()).toEqual([expect.stringContaining("is unavailable, waiting for up to 60 s")]);
    expect(lines.join("\n")).not.toMatch(/stack|hunter2/);
  });
});
