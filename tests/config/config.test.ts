/** A process with an invalid environment does not start, and reports all faults together. */
import { describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { readApiConfig } from "../../api/config.ts";
import { readIndexerConfig } from "../../indexer/config.ts";
import { readWorkerConfig } from "../../worker/config.ts";

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
      drainS: 5,
    });
    expect(config.chains.map(({ id }) => id)).toEqual(["base-sepolia"]);
  });

  test("in production: both networks, limits on", () => {
    const config = readApiConfig(production());
    expect(config).toMatchObject({ baseUrl: "https://pay.example.com", rateLimits: true });
    expect(config.passkey).toMatchObject({ rpId: "pay.example.com", origins: ["https://pay.example.com"] });
    expect(config.chains.map(({ id }) => id)).toEqual(["base", "base-sepolia"]);
  });

  test("eager deployment of wallets is reported as having no effect where base is enabled", () => {
    const ignoredOf = (given: Record<string, string>) => readApiConfig({ ...production(), ...given }).ignored;
    expect(ignoredOf({ WALLET_DEPLOYMENT: "eager" })).toEqual([expect.stringContaining("not on base")]);
    expect(ignoredOf({ WALLET_DEPLOYMENT: "eager", NETWORKS: "base-sepolia" })).toEqual([]);
    expect(ignoredOf({ WALLET_DEPLOYMENT: "lazy" })).toEqual([]);
    expect(ignoredOf({})).toEqual([]);
  });

  test("wallets outside the browser are off until they are configured", () => {
    const walletsOf = (given: Record<string, string>) =>
      readApiConfig({ ...base(), ...given }).furtherWallets;
    const projectId = "0123456789abcdef0123456789abcdef";
    expect(walletsOf({})).toEqual({ walletConnectProjectId: undefined, baseAccount: false });
    expect(walletsOf({ WALLETCONNECT_PROJECT_ID: projectId, BASE_ACCOUNT: "1" })).toEqual({
      walletConnectProjectId: projectId,
      baseAccount: true,
    });
  });

  test("connections stay open for twice the longest wait, up to the server's limit", () => {
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

  test("RATE_LIMITS overrides the default", () => {
    expect(readApiConfig({ ...base(), RATE_LIMITS: "1" }).rateLimits).toBe(true);
    expect(readApiConfig({ ...base(), NODE_ENV: "test", RATE_LIMITS: "0" }).rateLimits).toBe(false);
    expect(readApiConfig({ ...base(), NODE_ENV: "test" }).rateLimits).toBe(true);
  });
});

describe("production accepts", () => {
  test.each(["pay.example.com", "example.com"])("%s as RP_ID of https://pay.example.com", (rpId) => {
    expect(readApiConfig({ ...production(), RP_ID: rpId }).passkey.rpId).toBe(rpId);
  });

  test("a domain under a public suffix of two parts", () => {
    const env = { ...production(), BASE_URL: "https://pay.shop.co.uk", RP_ID: "shop.co.uk" };
    expect(readApiConfig(env).passkey.rpId).toBe("shop.co.uk");
  });

  test("http to nodes on this machine, in every spelling, and to remote ones outside production", () => {
    for (const url of [
      "http://127.0.0.1:8545",
      "http://127.9.9.9",
      "http://localhost:8545",
      "http://[::1]:8545",
    ])
      expect(() => readApiConfig({ ...production(), RPC_URL_BASE: url })).not.toThrow();
    expect(() => readApiConfig({ ...base(), RPC_URL_BASE_SEPOLIA: "http://rpc.example" })).not.toThrow();
  });

  test("https origins, and settings of disabled networks", () => {
    const env = { ...production(), RP_ORIGINS: "https://pay.example.com,https://shop.example.com" };
    expect(readApiConfig(env).passkey.origins).toEqual([
      "https://pay.example.com",
      "https://shop.example.com",
    ]);
    // this network is not enabled
    const one = { ...production(), NETWORKS: "base", RPC_URL_BASE_SEPOLIA: "http://rpc.example" };
    expect(() => readApiConfig(one)).not.toThrow();
  });

  test("lists of keys, newest first; webhook secrets are sealed with their own keys, and open with the pepper's too", () => {
    const [a, b, c, d] = [strong(), strong(), strong(), strong()] as const;
    const env = { ...production(), JWT_SECRET: `${a}, ${b}`, OTP_PEPPER: c };
    expect(readApiConfig(env)).toMatchObject({ jwtSecrets: [a, b], otpPeppers: [c], webhookSealKeys: [c] });
    expect(readApiConfig({ ...env, WEBHOOK_SEAL_KEYS: d }).webhookSealKeys).toEqual([d, c]);
    expect(readApiConfig(env).offerSigningKeys).toBeUndefined();
    expect(readApiConfig({ ...env, OFFER_SIGNING_KEYS: `${d},${a}x` }).offerSigningKeys).toEqual([
      d,
      `${a}x`,
    ]);
    const shared = () => readApiConfig({ ...env, OFFER_SIGNING_KEYS: a });
    expect(shared).toThrow(/JWT_SECRET and OFFER_SIGNING_KEYS: must differ/);
  });

  test("insecure settings with a warning; outside production without one", () => {
    const open = { WEBHOOK_PRIVATE_TARGETS: "1", RATE_LIMITS: "0", TRUSTED_PROXIES: "10.0.0.1,0.0.0.0/0" };
    expect(readApiConfig(production()).risks).toEqual([]);
    expect(readApiConfig({ ...base(), ...open }).risks).toEqual([]);
    expect(readApiConfig({ ...production(), ...open }).risks).toEqual([
      expect.stringContaining("WEBHOOK_PRIVATE_TARGETS=1"),
      expect.stringContaining("RATE_LIMITS=0"),
      expect.stringContaining("TRUSTED_PROXIES"),
    ]);
    expect(readApiConfig({ ...production(), TRUSTED_PROXIES: "10.0.0.0/8,::/0" }).risks).toHaveLength(1);
    expect(readApiConfig({ ...production(), TRUSTED_PROXIES: "10.0.0.0/8,::1" }).risks).toEqual([]);
  });
});

function faultsOf(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  throw new Error("nothing was refused");
}

describe("error: refuses", () => {
  test.each<[string, Record<string, string | undefined>, RegExp]>([
    [
      "a factory that is no address",
      { ...base(), ERC6492_FACTORIES: "0x1234" },
      /ERC6492_FACTORIES.*addresses/,
    ],
    [
      "none together with a factory",
      { ...base(), ERC6492_FACTORIES: `none,0x${"a1".repeat(20)}` },
      /ERC6492_FACTORIES/,
    ],
    [
      "no JWT_SECRET",
      { ...base(), JWT_SECRET: undefined },
      /JWT_SECRET is not set; it signs session tokens\. Make one with `openssl rand -hex 32`/,
    ],
    ["an empty OTP_PEPPER", { ...base(), OTP_PEPPER: " " }, /OTP_PEPPER is not set; it hashes and encrypts/],
    ["a list without keys", { ...base(), JWT_SECRET: " , " }, /JWT_SECRET: must be at least 32 bytes/],
    [
      "a short second key",
      { ...base(), JWT_SECRET: `${strong()},short` },
      /JWT_SECRET: must be at least 32 bytes/,
    ],
    [
      "eleven keys",
      { ...base(), OTP_PEPPER: Array.from({ length: 11 }, strong).join() },
      /OTP_PEPPER: must be at most 10/,
    ],
    ["a short secret", { ...base(), JWT_SECRET: "short" }, /JWT_SECRET: must be at least 32 bytes/],
    ["no database", { ...base(), DATABASE_URL: undefined }, /DATABASE_URL is not set; it names the Postgres/],
    ["another database", { ...base(), DATABASE_URL: "mysql://x" }, /DATABASE_URL: must begin with postgres/],
    [
      "an enabled network without nodes",
      { ...base(), RPC_URL_BASE_SEPOLIA: undefined },
      /RPC_URL_BASE_SEPOLIA/,
    ],
    ["an incomplete Google configuration", { ...base(), GOOGLE_CLIENT_ID: "x" }, /GOOGLE_CLIENT_SECRET/],
    ["malformed proxies", { ...base(), TRUSTED_PROXIES: "10.0.0.0/8, hello" }, /TRUSTED_PROXIES: "hello"/],
    ["an unknown network", { ...base(), NETWORKS: "ethereum" }, /NETWORKS/],
    ["an endless wait", { ...base(), PAY_WAIT_MS: "120001" }, /PAY_WAIT_MS: must be between/],
    [
      "an invalid WalletConnect project id",
      { ...base(), WALLETCONNECT_PROJECT_ID: "0123456789abcdef0123456789abcde" },
      /WALLETCONNECT_PROJECT_ID: must be the project's id \(32 hex digits\)/,
    ],
    [
      "TEST_WALLET in production",
      { ...production(), TEST_WALLET: `0x${"ab".repeat(20)}` },
      /TEST_WALLET: must not be set in production/,
    ],
    [
      "TEST_WALLET with a node elsewhere",
      { ...base(), TEST_WALLET: `0x${"ab".repeat(20)}`, RPC_URL_BASE_SEPOLIA: "https://node.example.com" },
      /TEST_WALLET: only for chains on this machine, not with a node at node\.example\.com/,
    ],
    ["TEST_MODE in production", { ...production(), TEST_MODE: "1" }, /TEST_MODE: must be off in production/],
    [
      "plain http in production",
      { ...production(), BASE_URL: "http://pay.example.com" },
      /BASE_URL: must be https/,
    ],
    [
      "no BASE_URL in production",
      { ...production(), BASE_URL: undefined },
      /BASE_URL is not set; set it to the public https origin/,
    ],
    [
      "a guessable older key in production",
      { ...production(), JWT_SECRET: `${strong()},${"ab".repeat(32)}` },
      /JWT_SECRET: is guessable/,
    ],
    [
      "a key of two lists in production",
      {
        ...production(),
        OTP_PEPPER: `${strong()},${"k3x9q7w5".repeat(4)}`,
        WEBHOOK_SEAL_KEYS: "k3x9q7w5".repeat(4),
      },
      /OTP_PEPPER and WEBHOOK_SEAL_KEYS: must differ/,
    ],
    [
      "an http origin in production",
      { ...production(), RP_ORIGINS: "https://pay.example.com,http://shop.example.com" },
      /RP_ORIGINS: must be https in production \(http:\/\/shop\.example\.com\)/,
    ],
    [
      "a remote node without encryption in production",
      { ...production(), RPC_URL_BASE: "https://a.example,http://rpc.example:8545" },
      /RPC_URL_BASE: must be https in production, except on this machine \(rpc\.example:8545\)/,
    ],
    [
      "one secret for two purposes",
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

  test.each([
    ["another domain", "other.example.org"],
    ["a sibling", "shop.example.com"],
    ["a child", "www.pay.example.com"],
    ["the end of its name", "ample.com"],
    ["a public suffix", "com"],
    ["a URL", "https://pay.example.com"],
    ["its port", "pay.example.com:443"],
  ])("an RP_ID that is %s, in production", (_name, rpId) => {
    expect(() => readApiConfig({ ...production(), RP_ID: rpId })).toThrow(`RP_ID: "${rpId}" is neither`);
    expect(readApiConfig({ ...base(), RP_ID: rpId }).passkey.rpId).toBe(rpId);
  });

  test("public suffixes of two parts as RP_ID", () => {
    for (const [baseUrl, rpId] of [
      ["https://pay.shop.co.uk", "co.uk"],
      ["https://me.github.io", "github.io"],
    ])
      expect(() => readApiConfig({ ...production(), BASE_URL: baseUrl, RP_ID: rpId })).toThrow("RP_ID");
  });

  test("all faults of a process together, including missing and malformed variables", () => {
    const message = faultsOf(() =>
      readApiConfig({
        NODE_ENV: "production",
        PORT: "99999",
        JWT_SECRET: "ab".repeat(32),
        RPC_URL_BASE: "http://rpc.example",
        RP_ORIGINS: "http://x.example",
        TRUSTED_PROXIES: "hello",
        TEST_MODE: "1",
        GOOGLE_CLIENT_ID: "x",
      }),
    );
    for (const fault of [
      "DATABASE_URL is not set",
      "OTP_PEPPER is not set",
      "PORT: must be between",
      "JWT_SECRET: is guessable",
      "RPC_URL_BASE: must be https",
      "RPC_URL_BASE_SEPOLIA is not set",
      "RP_ORIGINS: must be https",
      'TRUSTED_PROXIES: "hello"',
      "TEST_MODE: must be off",
      "BASE_URL is not set",
      "GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET",
    ])
      expect(message).toContain(`  - ${fault}`);
    expect(message).toStartWith("the environment has 11 faults:");
    expect(message).not.toContain("Invalid input");
  });

  test("all faults of the worker and of the indexer together", () => {
    const worker = faultsOf(() =>
      readWorkerConfig({
        NODE_ENV: "production",
        RPC_URL_BASE: "http://rpc.example",
        OTP_PEPPER: "ab".repeat(32),
      }),
    );
    for (const fault of [
      "DATABASE_URL is not set",
      "SMTP_URL is not set; it names the mail relay",
      "RELAYER_PRIVATE_KEYS is not set; its keys pay the gas on base\n",
      "RELAYER_PRIVATE_KEYS is not set; its keys pay the gas on base-sepolia",
      "RPC_URL_BASE: must be https",
      "RPC_URL_BASE_SEPOLIA is not set",
      "OTP_PEPPER: is guessable",
      "BASE_URL is not set",
    ])
      expect(worker).toContain(`  - ${fault}`);
    const indexer = faultsOf(() =>
      readIndexerConfig({ NODE_ENV: "production", RPC_URL_BASE: "http://rpc.example" }),
    );
    for (const fault of [
      "DATABASE_URL is not set",
      "RPC_URL_BASE: must be https",
      "RPC_URL_BASE_SEPOLIA is not set",
    ])
      expect(indexer).toContain(`  - ${fault}`);
  });

  test("names several faults together, without a secret's value", () => {
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

  test("2,000 random secrets pass", () => {
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

test("the process exits with code 78 and one readable message", async () => {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "../../api/main.ts")], {
    env: { PATH: process.env.PATH, ...production(), TEST_MODE: "1" },
    stdout: "pipe",
    stderr: "pipe",
  });
  expect(await child.exited).toBe(78);
  const output = await new Response(child.stderr).text();
  expect(output).toContain("TEST_MODE: must be off in production");
  expect(output).not.toContain("    at ");
});
