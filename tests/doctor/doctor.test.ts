/** `doctor` against real servers: what is right is reported as right, and each fault with its fix. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import postgres from "postgres";
import { privateKeyToAccount } from "viem/accounts";
import { newUserId, newWebhookEndpointId } from "../../core/domain/ids.ts";
import { seal } from "../../core/domain/seal-secrets.ts";
import { BASELINE } from "../../db/postgres/baseline.ts";
import { skewOf } from "../../db/postgres/inspect-database.ts";
import { migrate } from "../../db/postgres/migrate.ts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { findFreePort } from "../../local/free-port.ts";
import { buildPages } from "../../local/processes/service-process.ts";
import { examine } from "../../ops/doctor/examine.ts";
import type { Finding } from "../../ops/doctor/finding.ts";
import { startTestChain, type TestChain } from "../support/chain.ts";
import { serviceProgram } from "../support/compiled-services.ts";
import { startTestMailbox, type TestMailbox } from "../support/mailbox.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { startRemoteSigner } from "../support/remote-signer.ts";

const ROOT = join(import.meta.dir, "../..");
const folder = mkdtempSync(join(tmpdir(), "test-doctor-"));
let db: TestDatabase;
let chain: TestChain;
let mailbox: TestMailbox;
let env: Record<string, string>;

beforeAll(async () => {
  [db, chain, mailbox] = await Promise.all([createTestDatabase(), startTestChain(), startTestMailbox()]);
  await buildPages();
  env = {
    NODE_ENV: "production",
    NETWORKS: "base-sepolia",
    // nothing listens there: a proxy that is not started yet
    BASE_URL: `https://localhost:${await findFreePort()}`,
    DATABASE_URL: db.url,
    RPC_URL_BASE_SEPOLIA: chain.rpcUrl,
    SMTP_URL: mailbox.smtpUrl,
    MAIL_FROM: "Payments <no-reply@example.com>",
    RELAYER_PRIVATE_KEYS: localRelayerKeys()[0] ?? "",
    JWT_SECRET: randomBytes(32).toString("hex"),
    OTP_PEPPER: randomBytes(32).toString("hex"),
  };
}, 120_000);
afterAll(async () => {
  await Promise.all([db?.drop(), chain?.stop(), mailbox?.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

async function faultsOf(more: Record<string, string>): Promise<string[]> {
  const findings = await examine({ ...env, ...more });
  return findings.filter(({ level }) => level === "fault").map(({ subject, text }) => `${subject}: ${text}`);
}

async function asAdmin<Result>(url: string, work: (sql: postgres.Sql) => Promise<Result>): Promise<Result> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 5 });
  }
}

test("a healthy installation has no fault, and what is not set up yet is reported as advice", async () => {
  const findings = await examine(env);
  expect(findings.filter(({ level }) => level === "fault")).toEqual([]);
  const subjectsOf = (level: Finding["level"]) =>
    new Set<string>(findings.filter((one) => one.level === level).map(({ subject }) => subject));
  for (const subject of ["configuration", "database", "chain", "relayer", "mail", "pages"])
    expect(subjectsOf("good")).toContain(subject);
  const texts = findings.map(({ text }) => text).join("\n");
  expect(texts).toContain("nothing responds at https://localhost:");
  expect(texts).toContain("base-sepolia has only one node");
  expect(texts).toContain('passkeys are permanently bound to "localhost"');
  expect(texts).toContain("OFFER_SIGNING_KEYS is not set: ");
  const signing = { ...env, OFFER_SIGNING_KEYS: randomBytes(32).toString("hex") };
  expect(JSON.stringify(await examine(signing, { isOffline: true }))).not.toContain("OFFER_SIGNING_KEYS");
});

test("faults of every process and of every server are reported together, and the command exits with 1", async () => {
  const port = await findFreePort();
  const child = Bun.spawn([process.execPath, "--no-env-file", "ops/doctor/main.ts"], {
    cwd: ROOT,
    env: {
      ...{ PATH: process.env.PATH, HOME: process.env.HOME, ...env },
      ...{ JWT_SECRET: "", WORKER_CONCURRENCY: "none", RPC_URL_BASE_SEPOLIA: `http://127.0.0.1:${port}` },
      ...{ SMTP_URL: "" },
    },
    stdout: "pipe",
    stderr: "inherit",
  });
  const output = await new Response(child.stdout).text();
  expect(await child.exited).toBe(1);
  expect(output).toContain("JWT_SECRET is not set; it signs session tokens");
  expect(output).toContain("WORKER_CONCURRENCY: must be a whole number (worker)");
  expect(output).toContain("SMTP_URL is not set");
  expect(output).toContain(`base-sepolia at 127.0.0.1:${port} cannot be used`);
  expect(output).toContain("correct RPC_URL_BASE_SEPOLIA");
  expect(output).toContain("✓ database");
  expect(output).toContain("4 faults.");
}, 120_000);

test("a shell without any of the settings gets a hint where they belong, one that lacks only some does not", async () => {
  const isAdvised = async (source: Record<string, string>) =>
    JSON.stringify(await examine(source, { isOffline: true })).includes(
      "none of the settings of a deployment",
    );
  expect(await isAdvised({})).toBe(true);
  expect(await isAdvised({ DATABASE_URL: "postgres://127.0.0.1/payments" })).toBe(false);
  expect(await isAdvised({ WORKER_CONCURRENCY: "none" })).toBe(false);
});

describe("database", () => {
  test("nothing listens, a wrong password and a missing database are three different sentences", async () => {
    const [nowhere, stranger, missing] = [new URL(db.url), new URL(db.url), new URL(db.url)];
    nowhere.port = String(await findFreePort());
    stranger.password = "wrong";
    missing.pathname = "/no_such_database";
    const faults = await Promise.all(
      [nowhere, stranger, missing].map(({ href }) => faultsOf({ DATABASE_URL: href })),
    );
    expect(faults).toEqual([
      [`database: nothing listens at ${nowhere.host}: start Postgres, or correct DATABASE_URL`],
      ['database: the password of "postgres" is wrong: correct it in DATABASE_URL'],
      ['database: there is no database "no_such_database": create it (createdb)'],
    ]);
  });

  test("error: a database that lacks a migration is a fault, and a process does not start on it", async () => {
    const url = new URL(db.url);
    url.pathname = `/${db.name}_old`;
    await asAdmin(db.url, (sql) => sql`create database ${sql(`${db.name}_old`)}`);
    try {
      const [fault, ...others] = await faultsOf({ DATABASE_URL: url.href });
      expect(others).toEqual([]);
      expect(fault).toMatch(/^database: the database lacks \d+ migration\(s\) of this version \(/);
      expect(fault).toContain(`(${BASELINE})`);
      expect(fault).toContain("run `bun run migrate` first");
      const { command, args } = serviceProgram("indexer");
      const child = Bun.spawn([command, ...args], {
        cwd: ROOT,
        env: { PATH: process.env.PATH, ...env, DATABASE_URL: url.href },
        ...({ stdout: "ignore", stderr: "pipe" } as const),
      });
      expect(await new Response(child.stderr).text()).toContain("run `bun run migrate` first");
      expect(await child.exited).toBe(78);
      await migrate(url.href);
      expect(await faultsOf({ DATABASE_URL: url.href })).toEqual([]);
    } finally {
      await asAdmin(db.url, (sql) => sql`drop database ${sql(`${db.name}_old`)} with (force)`);
    }
  }, 120_000);

  test("more connections than the server grants are a fault with both figures", async () => {
    const [fault] = await faultsOf({
      DATABASE_MAX_CONNECTIONS: "200",
      WORKER_DATABASE_MAX_CONNECTIONS: "400",
    });
    expect(fault).toMatch(/allows \d+ connections, but one api, one worker and two indexers need 612/);
  });

  test("a standby's address that leads to another database, or to nothing, is a fault", async () => {
    const other = await createTestDatabase();
    const nowhere = new URL(db.url);
    nowhere.port = String(await findFreePort());
    try {
      expect(await faultsOf({ DATABASE_READ_URL: db.url })).toEqual([]);
      expect(await faultsOf({ DATABASE_READ_URL: other.url })).toEqual([
        expect.stringMatching(
          /^database: DATABASE_READ_URL leads to a database that is no standby of .*correct it/,
        ),
      ]);
      expect(await faultsOf({ DATABASE_READ_URL: nowhere.href })).toEqual([
        "database: DATABASE_READ_URL does not answer: start that server, or correct the address",
      ]);
    } finally {
      await other.drop();
    }
  });

  test("stored secrets that no given key decrypts are a fault, and advice where others can be read", async () => {
    const userId = newUserId();
    const [known, lost] = [env.OTP_PEPPER ?? "", randomBytes(32).toString("hex")];
    const addEndpoint = (key: string) =>
      asAdmin(db.url, async (sql) => {
        const id = newWebhookEndpointId();
        const sealed = seal([key], { purpose: "webhook secret", id }, "whsec_x");
        await sql`
          insert into webhook_endpoints (id, user_id, url, sealed_secret)
          values (${id}, ${userId}, 'https://example.com/', ${sealed})`;
      });
    await asAdmin(db.url, (sql) => sql`insert into users (id, email) values (${userId}, 'keys@example.com')`);
    await addEndpoint(lost);
    const [fault, ...others] = await faultsOf({});
    expect(others).toEqual([]);
    expect(fault).toStartWith(
      "database: 1 of 1 webhook and return secrets cannot be decrypted with WEBHOOK_SEAL_KEYS or OTP_PEPPER: set the keys",
    );
    expect(await faultsOf({ WEBHOOK_SEAL_KEYS: lost })).toEqual([]);
    await addEndpoint(known);
    expect(await faultsOf({})).toEqual([]);
    expect(await examine(env)).toContainEqual({
      ...{ level: "advice", subject: "database" },
      text: expect.stringMatching(
        /^1 of 2 webhook and return secrets cannot be decrypted .*add the missing key/,
      ),
    });
    await asAdmin(db.url, (sql) => sql`delete from users where id = ${userId}`);
  });

  test("passkeys of another RP id are a fault of the domain", async () => {
    const userId = newUserId();
    await asAdmin(db.url, async (sql) => {
      await sql`insert into users (id, email) values (${userId}, 'doctor@example.com')`;
      await sql`
        insert into passkeys (id, user_id, cose_key, public_key_x, public_key_y, device_type, backed_up, rp_id)
        values ('doctor', ${userId}, ''::bytea, ${randomBytes(32)}, ${randomBytes(32)}, 'multiDevice', true, 'example.org')`;
    });
    expect(await faultsOf({})).toEqual([
      'domain: RP_ID is "localhost", but the database holds passkeys of other relying parties: 1 of "example.org". Set RP_ID to theirs',
    ]);
    await asAdmin(db.url, (sql) => sql`delete from users where id = ${userId}`);
  });

  test("a clock within the query's time has no skew, and outside it the skew is the distance to it", () => {
    expect(skewOf(1_000, 1_000, 1_500)).toBe(0);
    expect(skewOf(1_500, 1_000, 1_500)).toBe(0);
    expect(skewOf(999, 1_000, 1_500)).toBe(-1);
    expect(skewOf(1_501, 1_000, 1_500)).toBe(1);
  });
});

test("a node of another chain is a fault, and so are keys without ETH", async () => {
  const [other] = await faultsOf({ NETWORKS: "base", RPC_URL_BASE: chain.rpcUrl });
  expect(other).toContain(`chain: base at ${new URL(chain.rpcUrl).host} cannot be used`);
  const poor = await faultsOf({ RELAYER_PRIVATE_KEYS: `0x${"12".repeat(32)}` });
  expect(poor).toEqual([
    expect.stringMatching(
      /^relayer: no relayer key can pay gas on base-sepolia: send ETH .* \(at least 0\.002 ETH each\)$/,
    ),
  ]);
  expect(await faultsOf({ RELAYER_BALANCE_FLOOR_WEI: "10000000000000000000000000" })).toHaveLength(1);
});

test("a signer that lacks a key, or is unreachable, is a fault; one that holds it is not", async () => {
  const [key = "0x", other = "0x"] = localRelayerKeys();
  const signer = await startRemoteSigner([key]);
  try {
    const [own, foreign] = [key, other].map((one) => privateKeyToAccount(one).address.toLowerCase());
    const remote = { RELAYER_PRIVATE_KEYS: "", RELAYER_SIGNER_URL: signer.url };
    expect(await faultsOf({ ...remote, RELAYER_SIGNER_ADDRESSES: `${own}` })).toEqual([]);
    expect(await faultsOf({ ...remote, RELAYER_SIGNER_ADDRESSES: `${own},${foreign}` })).toEqual([
      expect.stringContaining(`relayer: the signer of base-sepolia has no key of ${foreign}:`),
    ]);
  } finally {
    await signer.stop();
  }
  const gone = { RELAYER_SIGNER_URL: signer.url, RELAYER_SIGNER_ADDRESSES: privateKeyToAccount(key).address };
  expect(await faultsOf({ ...gone, RELAYER_PRIVATE_KEYS: "" })).toEqual([
    expect.stringMatching(
      /^relayer: the signer at 127\.0\.0\.1:\d+ is unreachable: start it, or correct RELAYER_SIGNER_URL \(/,
    ),
  ]);
  const ofNetwork = { ...gone, RELAYER_SIGNER_URL: "", RELAYER_SIGNER_URL_BASE_SEPOLIA: signer.url };
  expect(await faultsOf({ ...ofNetwork, RELAYER_PRIVATE_KEYS: "" })).toEqual([
    expect.stringContaining("correct RELAYER_SIGNER_URL_BASE_SEPOLIA (base-sepolia)"),
  ]);
});

test("an unreachable mail server is a fault", async () => {
  const port = await findFreePort();
  const [fault] = await faultsOf({ SMTP_URL: `smtp://127.0.0.1:${port}` });
  expect(fault).toContain(`mail: 127.0.0.1:${port} cannot be used`);
});

test("a certificate that browsers refuse is a fault", async () => {
  const [key, certificate] = [join(folder, "key.pem"), join(folder, "certificate.pem")];
  await Bun.$`openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ${key} -out ${certificate} -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost`.quiet();
  const server = Bun.serve({
    ...{ port: 0, hostname: "localhost", tls: { key: Bun.file(key), cert: Bun.file(certificate) } },
    fetch: () => new Response("something else"),
  });
  try {
    const [fault] = await faultsOf({ BASE_URL: `https://localhost:${server.port}` });
    expect(fault).toContain(`domain: browsers will refuse the certificate of localhost:${server.port}`);
    // the same server, trusted: it is not this service
    const child = Bun.spawn([process.execPath, "--no-env-file", "ops/doctor/main.ts", "--json"], {
      cwd: ROOT,
      env: {
        ...{ PATH: process.env.PATH, ...env, NODE_EXTRA_CA_CERTS: certificate },
        BASE_URL: `https://localhost:${server.port}`,
      },
      stdout: "pipe",
    });
    const found = (await new Response(child.stdout).text()).trim().split("\n");
    const texts = found.map((line) => (JSON.parse(line) as Finding).text);
    expect(texts).toContainEqual(
      expect.stringMatching(/certificate of localhost:\d+ is valid for (29|30) days/),
    );
    expect(texts).toContainEqual(expect.stringContaining("is answered by something else"));
  } finally {
    await server.stop(true);
  }
}, 120_000);

describe("variables as files", () => {
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text, { mode: 0o600 });
    return join(folder, name);
  };

  test("every variable may be a file, with or without a line end", async () => {
    const files = Object.fromEntries(
      ["DATABASE_URL", "JWT_SECRET", "OTP_PEPPER", "SMTP_URL", "RELAYER_PRIVATE_KEYS"].map((name, index) => [
        `${name}_FILE`,
        write(name, `${env[name]}${["", "\n", "\r\n"][index % 3]}`),
      ]),
    );
    const empty = Object.fromEntries(Object.keys(files).map((name) => [name.replace(/_FILE$/, ""), ""]));
    expect(await faultsOf({ ...empty, ...files })).toEqual([]);
  });

  test("error: a missing file, an empty one, and a variable given twice are faults without any secret", async () => {
    const missing = join(folder, "missing");
    const faults = await faultsOf({
      ...{ JWT_SECRET: "", JWT_SECRET_FILE: missing, SMTP_URL: "", SMTP_URL_FILE: write("empty", "\n") },
      OTP_PEPPER_FILE: write("twice", randomBytes(32).toString("hex")),
    });
    expect(faults).toEqual([
      `configuration: JWT_SECRET_FILE: ${missing} cannot be read (no such file) (api)`,
      "configuration: OTP_PEPPER and OTP_PEPPER_FILE: both are set; remove one of them (api, worker)",
      expect.stringContaining("configuration: SMTP_URL is not set;"),
    ]);
    expect(faults.join()).not.toContain(env.OTP_PEPPER ?? "");
  });
});

test("every script of package.json runs where only Node and npm are", async () => {
  const { scripts } = (await Bun.file(join(ROOT, "package.json")).json()) as {
    scripts: Record<string, string>;
  };
  const others = Object.entries(scripts).filter(
    ([, command]) => !/^node (bootstrap\.mjs (--dev )?[\w/-]+\.ts( --[\w-]+)?|cli\/bin\.mjs)$/.test(command),
  );
  expect(others).toEqual([]);
});
