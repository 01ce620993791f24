/** Addresses of a Postgres that takes encrypted connections only, with a certificate of a provider's own authority: both drivers follow each. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readApiConfig } from "../../api/config.ts";
import { readAddress } from "../../db/postgres/address.ts";
import { openDatabase } from "../../db/postgres/client.ts";
import { migrate } from "../../db/postgres/migrate.ts";
import { describeDatabaseFailure } from "../../db/postgres/retry-while-unavailable.ts";
import { QueuePool } from "../../worker/jobs/queue-pool.ts";
import { startEmbeddedServer, type TestServer } from "../support/postgres-server.ts";

const folder = mkdtempSync(join(tmpdir(), "test-tls-"));
const [authority, other] = ["authority", "other"].map((name) => join(folder, `${name}.pem`)) as [
  string,
  string,
];
let server: TestServer;

beforeAll(async () => {
  server = await startEmbeddedServer();
  const key = join(folder, "server.key");
  const request = join(folder, "server.csr");
  const certificate = join(folder, "server.crt");
  writeFileSync(join(folder, "names"), "subjectAltName=DNS:localhost");
  const ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  for (const file of [authority, other])
    await Bun.$`openssl req -x509 ${ec} -keyout ${file}.key -out ${file} -days 2 -subj /CN=Provider`.quiet();
  await Bun.$`openssl req ${ec} -keyout ${key} -out ${request} -subj /CN=localhost`.quiet();
  await Bun.$`openssl x509 -req -in ${request} -CA ${authority} -CAkey ${authority}.key -CAcreateserial -out ${certificate} -days 2 -extfile ${join(folder, "names")}`.quiet();
  const sql = openDatabase(server.adminUrl, { name: "test", maxConnections: 1 });
  // the key must be a file of the server's own user
  for (const file of [key, certificate]) {
    const lines = JSON.stringify(await Bun.file(file).text()).slice(1, -1);
    const target = file.endsWith(".key") ? "server.key" : "server.crt";
    await sql.unsafe(
      `copy (select 1) to program 'umask 077; cat > /dev/null; printf "%b" "${lines.replaceAll("\\n", "\\\\n")}" > ${target}'`,
    );
  }
  await sql`alter system set ssl = on`;
  await sql`select pg_reload_conf()`;
  await sql.end({ timeout: 1 });
}, 120_000);
afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const addressOf = (query: string, host = "localhost") => {
  const url = new URL(`${server.adminUrl}?${query}`);
  url.hostname = host;
  return url.href;
};

const ENCRYPTED = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";

/** Whether the connections of both drivers are encrypted. */
async function encryptionOf(url: string): Promise<unknown[]> {
  const sql = openDatabase(url, { name: "test", maxConnections: 1 });
  const { url: connectionString, ...tls } = readAddress(url);
  const pool = new QueuePool({ connectionString, ...tls, max: 1 });
  try {
    const [row] = await sql.unsafe<{ ssl: boolean }[]>(ENCRYPTED);
    const { rows } = await pool.query<{ ssl: boolean }>(ENCRYPTED);
    return [row?.ssl, rows[0]?.ssl];
  } finally {
    await Promise.all([sql.end({ timeout: 1 }), pool.end()]);
  }
}

const failureOf = (url: string) =>
  encryptionOf(url).then(String, (error: unknown) => describeDatabaseFailure(url, error));

describe("an address of a Postgres with a provider's own authority", () => {
  test("is followed with each mode and file, and with what libpq alone would use", async () => {
    for (const query of [
      `sslmode=verify-full&sslrootcert=${authority}`,
      `sslrootcert=${authority}`,
      `sslmode=verify-ca&sslrootcert=${authority}`,
      "sslmode=require",
      "sslmode=require&gssencmode=disable&application_name=x",
    ])
      expect([query, ...(await encryptionOf(addressOf(query)))]).toEqual([query, true, true]);
    expect(await encryptionOf(addressOf("sslmode=disable"))).toEqual([false, false]);
    expect(await encryptionOf(addressOf(""))).toEqual([false, false]);
    // the name is no matter where only the authority is checked
    expect(await encryptionOf(addressOf(`sslmode=verify-ca&sslrootcert=${authority}`, "127.0.0.1"))).toEqual([
      true,
      true,
    ]);
  });

  test("migrates, which both drivers do", async () => {
    const applied = await migrate(addressOf(`sslmode=verify-full&sslrootcert=${authority}`));
    expect(applied.length).toBeGreaterThan(1);
  }, 60_000);

  test("error: an authority or a name that does not match is refused, and the failure says what to write", async () => {
    for (const url of [
      addressOf("sslmode=verify-full"),
      addressOf("sslmode=require&channel_binding=require"),
      addressOf(`sslmode=require&sslrootcert=${other}`),
      addressOf(`sslmode=verify-ca&sslrootcert=${other}`),
      addressOf(`sslmode=verify-full&sslrootcert=${authority}`, "127.0.0.1"),
    ])
      expect(await failureOf(url)).toMatch(
        /^Postgres at (localhost|127\.0\.0\.1):\d+ has a certificate that is not trusted \(DATABASE_URL\): .*sslrootcert=FILE$/,
      );
  });
});

test("error: a mode that encrypts only perhaps, and a file that cannot be read, are faults of the configuration", () => {
  const read = (DATABASE_URL: string) =>
    readApiConfig({
      ...{ DATABASE_URL, RPC_URL_BASE_SEPOLIA: "http://127.0.0.1:8545" },
      ...{ JWT_SECRET: "4f3c".repeat(16), OTP_PEPPER: "99aa".repeat(16) },
    });
  const url = "postgres://u@db.example.com/x";
  for (const mode of ["prefer", "allow", "verify_full", ""])
    expect(() => read(`${url}?sslmode=${mode}`)).toThrow(
      `1 fault:\n  - DATABASE_URL: its sslmode must be one of disable, require, verify-ca, verify-full, and is "${mode}"`,
    );
  expect(() => read(`${url}?sslmode=verify-full&sslrootcert=/no/such.pem`)).toThrow(
    '1 fault:\n  - DATABASE_URL: its sslrootcert is "/no/such.pem", which this user cannot read',
  );
  for (const query of [
    "",
    "?sslmode=verify-full&sslrootcert=system",
    `?sslmode=verify-ca&sslrootcert=${authority}`,
  ])
    expect(read(url + query).databaseUrl).toBe(url + query);
});

test("an address without anything of these is left as it is, a list of hosts too", () => {
  for (const url of [
    "postgres://u:p%2F@a:1,b:2/x?target_session_attrs=primary",
    "postgresql:///x?host=/var/run/postgresql",
  ])
    expect(readAddress(url)).toEqual({ url });
  expect(readAddress("postgres://a:1,b:2/x?sslmode=disable&target_session_attrs=primary")).toEqual({
    ...{ url: "postgres://a:1,b:2/x?target_session_attrs=primary", ssl: false },
  });
});
