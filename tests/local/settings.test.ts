import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDatabase } from "../../db/postgres/client.ts";
import { readLocalSettings } from "../../local/local-settings.ts";
import { runMigrations } from "../../local/processes/service-process.ts";
import {
  localDefaults,
  metricsPortOf,
  SERVICE_KINDS,
  type ServiceSettings,
  serviceEnv,
  withFileContents,
} from "../../local/service-env.ts";
import { createEmptyDatabase } from "../support/postgres.ts";

const SETTINGS: ServiceSettings = {
  databaseUrl: "postgres://local/db",
  rpcUrls: { "base-sepolia": "http://127.0.0.1:8545" },
  smtpUrl: "smtp://127.0.0.1:2525",
  jwtSecret: "the session secret",
  otpPepper: "the code pepper",
  relayerKeys: "0x01,0x02",
  dataDir: "/data",
};

test("settings that are not given have defaults", () => {
  expect(readLocalSettings({ PATH: "/bin", DATABASE_URL: "", PORT: "3001" })).toMatchObject({
    port: 3001,
    baseUrl: "http://localhost:3001",
    chainPort: 8545,
    blockTimeS: 1,
    networks: ["base-sepolia"],
    databaseUrl: undefined,
    rpcUrls: {},
    smtpUrl: undefined,
  });
});

test("error: an invalid value is named", () => {
  expect(() => readLocalSettings({ PORT: "80800" })).toThrow('PORT is "80800"');
  expect(() => readLocalSettings({ BLOCK_TIME_S: "-1" })).toThrow('BLOCK_TIME_S is "-1"');
  expect(() => readLocalSettings({ NETWORKS: "base,mars" })).toThrow('NETWORKS names "mars"');
});

test("error: another chain needs relayer keys with funds there", () => {
  const env = { RPC_URL_BASE_SEPOLIA: "https://rpc.example.org" };
  expect(() => readLocalSettings(env)).toThrow("RELAYER_PRIVATE_KEYS_BASE_SEPOLIA is needed");
  const settings = readLocalSettings({ ...env, RELAYER_PRIVATE_KEYS_BASE_SEPOLIA: "0x01" });
  expect(settings.rpcUrls).toEqual({ "base-sepolia": "https://rpc.example.org" });
});

test("only the worker gets keys that can spend, only the API the session secret", () => {
  const given = { RELAYER_PRIVATE_KEYS_BASE: "0x03", PATH: "/bin" };
  const api = serviceEnv("api", SETTINGS, given);
  const worker = serviceEnv("worker", SETTINGS, given);
  const indexer = serviceEnv("indexer", SETTINGS, given);
  for (const env of [api, indexer]) {
    expect(Object.keys(env).filter((name) => name.startsWith("RELAYER_PRIVATE_KEYS"))).toEqual([]);
  }
  expect(worker.RELAYER_PRIVATE_KEYS).toBe("0x01,0x02");
  expect(worker.RELAYER_PRIVATE_KEYS_BASE).toBe("0x03");
  expect([api.JWT_SECRET, worker.JWT_SECRET, indexer.JWT_SECRET]).toEqual([
    "the session secret",
    undefined,
    undefined,
  ]);
  expect(api.PATH).toBe("/bin");
});

test("each process has its own metrics port, counted up from METRICS_PORT", () => {
  const { metricsPort } = readLocalSettings({ METRICS_PORT: "9464" });
  expect(SERVICE_KINDS.map((kind) => metricsPortOf(kind, metricsPort).METRICS_PORT)).toEqual([
    "9464",
    "9465",
    "9466",
  ]);
  expect(metricsPortOf("worker", readLocalSettings({}).metricsPort)).toEqual({});
  expect(() => readLocalSettings({ METRICS_PORT: "65534" })).toThrow('METRICS_PORT is "65534"');
});

test("the developer's values override the local defaults", () => {
  const env = serviceEnv("api", SETTINGS, { TEST_MODE: "0", CONFIRMATIONS_BASE_SEPOLIA: "5", NODE_ENV: "" });
  expect(env).toMatchObject({ TEST_MODE: "0", CONFIRMATIONS_BASE_SEPOLIA: "5", NODE_ENV: "development" });
});

test("test mode is never on by default in production", () => {
  expect(serviceEnv("api", SETTINGS, { NODE_ENV: "production" }).TEST_MODE).toBe("0");
  expect(serviceEnv("api", SETTINGS, {}).TEST_MODE).toBe("1");
});

test("webhooks reach receivers on a developer's machine by default; not in production, and not when switched off", () => {
  const targets = (given: Record<string, string>) =>
    serviceEnv("worker", SETTINGS, { ...localDefaults(given), ...given }).WEBHOOK_PRIVATE_TARGETS;
  expect(targets({})).toBe("1");
  expect(targets({ WEBHOOK_PRIVATE_TARGETS: "0" })).toBe("0");
  expect(targets({ NODE_ENV: "production" })).toBeUndefined();
});

test("addresses and secrets given as files count like variables, and no process sees another's path", () => {
  const folder = mkdtempSync(join(tmpdir(), "test-settings-"));
  try {
    const write = (name: string, text: string) => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
    const env = withFileContents({
      PATH: "/bin",
      SSL_CERT_FILE: "/etc/ssl/cert.pem",
      DATABASE_URL_FILE: write("database", "postgres://elsewhere/db\n"),
      JWT_SECRET_FILE: write("jwt", "a session secret of a file"),
      OTP_PEPPER_FILE: "",
    });
    expect(readLocalSettings(env).databaseUrl).toBe("postgres://elsewhere/db");
    expect(env.SSL_CERT_FILE).toBe("/etc/ssl/cert.pem");
    const [api, worker] = [serviceEnv("api", SETTINGS, env), serviceEnv("worker", SETTINGS, env)];
    expect(api).toMatchObject({ JWT_SECRET: "a session secret of a file", OTP_PEPPER: "the code pepper" });
    for (const one of [api, worker])
      expect(Object.keys(one).filter((name) => name.endsWith("_FILE"))).toEqual(["SSL_CERT_FILE"]);
    expect(worker.JWT_SECRET).toBeUndefined();
    const both = { JWT_SECRET: "one", JWT_SECRET_FILE: write("jwt", "another") };
    expect(() => withFileContents(both)).toThrow("JWT_SECRET and JWT_SECRET_FILE: both are set");
    expect(() => withFileContents({ SMTP_URL_FILE: join(folder, "none") })).toThrow("no such file");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the migrations use the given database, even when DATABASE_URL_FILE is set", async () => {
  const folder = mkdtempSync(join(tmpdir(), "settings-"));
  const db = await createEmptyDatabase();
  const before = process.env.DATABASE_URL_FILE;
  try {
    process.env.DATABASE_URL_FILE = join(folder, "database_url");
    writeFileSync(process.env.DATABASE_URL_FILE, db.url);
    await runMigrations(db.url);
    const sql = openDatabase(db.url, { name: "test", maxConnections: 1 });
    expect((await sql`select id from payment_links`).length).toBe(0);
    await sql.end();
  } finally {
    if (before === undefined) delete process.env.DATABASE_URL_FILE;
    else process.env.DATABASE_URL_FILE = before;
    await db.drop();
    rmSync(folder, { recursive: true, force: true });
  }
}, 120_000);
