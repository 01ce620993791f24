/** A process that must not start does not, and says everything that is wrong in one go. */
import { describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { readApiConfig } from "../../api/config.ts";

const strong = () => randomBytes(32).toString("hex");
const base = () => ({
  DATABASE_URL: "postgres://user@127.0.0.1:5432/x",
  RPC_URL_BASE: "http://127.0.0.1:8545",
  RPC_URL_BASE_SEPOLIA: "http://127.0.0.1:8546",
  JWT_SECRET: strong(),
  OTP_PEPPER: strong(),
});
const production = () => ({ ...base(), NODE_ENV: "production", BASE_URL: "https://pay.example.com/" });

describe("defaults", () => {
  test("outside production: base-sepolia, everything from BASE_URL", () => {
    const config = readApiConfig({ ...base(), PORT: "4100" });
    expect(config).toMatchObject({
      nodeEnv: "development",
      host: "127.0.0.1",
      port: 4100,
      baseUrl: "http://localhost:4100",
      dashboardUrl: "http://localhost:4100/dashboard",
      passkey: { rpId: "localhost", origins: ["http://localhost:4100"], attachment: "platform" },
      google: undefined,
      testMode: false,
      rateLimits: false,
      payWaitMs: 10_000,
      exportWaitMs: 15_000,
    });
    expect(config.chains.map(({ id }) => id)).toEqual(["base-sepolia"]);
  });

  test("in production: both networks, limits on", () => {
    const config = readApiConfig(production());
    expect(config).toMatchObject({ baseUrl: "https://pay.example.com", rateLimits: true });
    expect(config.passkey).toMatchObject({ rpId: "pay.example.com", origins: ["https://pay.example.com"] });
    expect(config.chains.map(({ id }) => id)).toEqual(["base", "base-sepolia"]);
  });

  test("a connection outlasts the longest wait, and twice that where the server can", () => {
    const idleTimeoutOf = (waits: Record<string, string>) =>
      readApiConfig({ ...base(), ...waits }).idleTimeoutS;
    expect(idleTimeoutOf({})).toBe(60);
    expect(idleTimeoutOf({ EXPORT_WAIT_MS: "60000" })).toBeGreaterThan(120);
    expect(idleTimeoutOf({ PAY_WAIT_MS: "120000" })).toBe(255);
  });

  test("ERC6492_FACTORIES replaces the built-in wallet factories; `none` allows none", () => {
    const factoriesOf = (ERC6492_FACTORIES?: string) =>
      readApiConfig({ ...base(), ERC6492_FACTORIES }).walletFactories;
    const [one, two] = [`0x${"A1".repeat(20)}`, `0x${"b2".repeat(20)}`];
    expect(factoriesOf()).toContain("0xba5ed110efdba3d005bfc882d75358acbbb85842");
    expect(factoriesOf()).toContain("0x0ba5ed0c6aa8c49038f819e587e2633c4a9f428a");
    expect(factoriesOf(`${one}, ${two}`)).toEqual([`0x${"a1".repeat(20)}`, `0x${"b2".repeat(20)}`]);
    expect(factoriesOf("none")).toEqual([]);
  });

  test("RATE_LIMITS decides over the default either way", () => {
    expect(readApiConfig({ ...base(), RATE_LIMITS: "1" }).rateLimits).toBe(true);
    expect(readApiConfig({ ...base(), NODE_ENV: "test", RATE_LIMITS: "0" }).rateLimits).toBe(false);
    expect(readApiConfig({ ...base(), NODE_ENV: "test" }).rateLimits).toBe(true);
  });
});

describe("error: refuses", () => {
  test.each<[string, Record<string, string | undefined>, RegExp]>([
    [
      "a factory that is no address",
      { ...base(), ERC6492_FACTORIES: "0x1234" },
      /ERC6492_FACTORIES.*addresses/,
    ],
    [
      "none beside a factory",
      { ...base(), ERC6492_FACTORIES: `none,0x${"a1".repeat(20)}` },
      /ERC6492_FACTORIES/,
    ],
    ["no JWT_SECRET", { ...base(), JWT_SECRET: undefined }, /JWT_SECRET/],
    ["an empty OTP_PEPPER", { ...base(), OTP_PEPPER: " " }, /OTP_PEPPER/],
    ["a short secret", { ...base(), JWT_SECRET: "short" }, /JWT_SECRET: must be at least 32 bytes/],
    ["no database", { ...base(), DATABASE_URL: undefined }, /DATABASE_URL: is required/],
    ["another database", { ...base(), DATABASE_URL: "mysql://x" }, /DATABASE_URL: must begin with postgres/],
    [
      "an enabled network without nodes",
      { ...base(), RPC_URL_BASE_SEPOLIA: undefined },
      /RPC_URL_BASE_SEPOLIA/,
    ],
    ["half of Google", { ...base(), GOOGLE_CLIENT_ID: "x" }, /GOOGLE_CLIENT_SECRET/],
    [
      "proxies that are none",
      { ...base(), TRUSTED_PROXIES: "10.0.0.0/8, hello" },
      /TRUSTED_PROXIES: "hello"/,
    ],
    ["an unknown network", { ...base(), NETWORKS: "ethereum" }, /NETWORKS/],
    ["an endless wait", { ...base(), PAY_WAIT_MS: "120001" }, /PAY_WAIT_MS: must be between/],
    ["TEST_MODE in production", { ...production(), TEST_MODE: "1" }, /TEST_MODE: must be off in production/],
    [
      "plain http in production",
      { ...production(), BASE_URL: "http://pay.example.com" },
      /BASE_URL: must be https/,
    ],
    [
      "one secret for two things",
      { ...production(), OTP_PEPPER: "k3".repeat(20), JWT_SECRET: "k3".repeat(20) },
      /must differ/,
    ],
    [
      "a repeated secret in production",
      { ...production(), JWT_SECRET: "ab".repeat(32) },
      /JWT_SECRET: is guessable/,
    ],
    [
      "a placeholder in production",
      { ...production(), OTP_PEPPER: "change-me-please-0123456789-abcdefgh" },
      /OTP_PEPPER: is guessable/,
    ],
    [
      "Google over plain http in production",
      { ...production(), GOOGLE_ISSUER: "http://idp.example" },
      /GOOGLE_ISSUER/,
    ],
  ])("%s", (_name, env, message) => {
    expect(() => readApiConfig(env)).toThrow(message);
  });

  test("and names several faults at once, without a secret's value", () => {
    const env = {
      ...production(),
      TEST_MODE: "1",
      JWT_SECRET: "supersecretsupersecretsupersecret",
      BASE_URL: "http://x.example",
    };
    expect(() => readApiConfig(env)).toThrow(/TEST_MODE[\s\S]*JWT_SECRET[\s\S]*BASE_URL/);
    try {
      readApiConfig(env);
    } catch (error) {
      expect(String(error)).not.toContain("supersecret");
    }
  });

  test("random secrets pass, 2,000 of them", () => {
    for (let round = 0; round < 1_000; round++) {
      expect(() => readApiConfig(production())).not.toThrow();
      const short = {
        JWT_SECRET: randomBytes(16).toString("hex"),
        OTP_PEPPER: randomBytes(24).toString("base64"),
      };
      expect(() => readApiConfig({ ...base(), ...short })).not.toThrow();
    }
  });
});

test("the process ends with code 78 and one readable message", async () => {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "../../api/main.ts")], {
    env: { PATH: process.env.PATH, ...production(), TEST_MODE: "1" },
    stdout: "pipe",
    stderr: "pipe",
  });
  expect(await child.exited).toBe(78);
  const told = await new Response(child.stderr).text();
  expect(told).toContain("TEST_MODE: must be off in production");
  expect(told).not.toContain("    at ");
});
