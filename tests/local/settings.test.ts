import { expect, test } from "bun:test";
import { readLocalSettings } from "../../local/local-settings.ts";
import { type ServiceSettings, serviceEnv } from "../../local/service-env.ts";

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

test("only the worker is given keys that can spend, only the API the session secret", () => {
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

test("the developer's values override the local defaults", () => {
  const env = serviceEnv("api", SETTINGS, { TEST_MODE: "0", CONFIRMATIONS_BASE_SEPOLIA: "5", NODE_ENV: "" });
  expect(env).toMatchObject({ TEST_MODE: "0", CONFIRMATIONS_BASE_SEPOLIA: "5", NODE_ENV: "development" });
});

test("test mode is never on by default in production", () => {
  expect(serviceEnv("api", SETTINGS, { NODE_ENV: "production" }).TEST_MODE).toBe("0");
  expect(serviceEnv("api", SETTINGS, {}).TEST_MODE).toBe("1");
});
