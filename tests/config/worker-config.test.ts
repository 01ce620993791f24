/** The worker's relaying limits: defaults in development and production, and accepted values. */
import { describe, expect, test } from "bun:test";
import { readApiConfig } from "../../api/config.ts";
import { readIndexerConfig } from "../../indexer/config.ts";
import { readWorkerConfig } from "../../worker/config.ts";

const ENV = {
  DATABASE_URL: "postgres://payments@127.0.0.1:5432/payments",
  RPC_URL_BASE: "http://127.0.0.1:8545",
  RPC_URL_BASE_SEPOLIA: "http://127.0.0.1:8545",
  RELAYER_PRIVATE_KEYS: `0x${"01".repeat(32)}`,
  OTP_PEPPER: "99aa88bb77cc66dd55ee44ff33002211fedcba98765432100123456789abcdef",
  JWT_SECRET: "4f3c2b1a09f8e7d6c5b4a3928170615243342516078899aabbccddeeff001122",
  SMTP_URL: "smtp://127.0.0.1:2525",
  RP_ID: "example.com",
};
const PRODUCTION = { ...ENV, NODE_ENV: "production", BASE_URL: "https://example.com" };

test("error: an SMTP_URL to which no mail could be sent is reported at startup", () => {
  for (const SMTP_URL of [
    ...["http://[", "smtp://", "smtp://mail.example.com:abc", "https://mail.example.com", "mail.example.com"],
    // the parser of the mail package takes this number for an address: 0.0.9.221
    "localhost:2525",
  ])
    expect(() => readWorkerConfig({ ...ENV, SMTP_URL })).toThrow("SMTP_URL");
  for (const SMTP_URL of [
    "smtps://user:pass@mail.example.com",
    "smtp://localhost:2525",
    "SMTP://[::1]:25/?pool=true",
  ])
    expect(readWorkerConfig({ ...ENV, SMTP_URL })).toMatchObject({ smtpUrl: SMTP_URL });
});

test("error: a MAIL_FROM that is not an address on one line is reported at startup", () => {
  for (const MAIL_FROM of [
    "Payments",
    "a@b\r\nBcc: c@d",
    "Payments <pay@example.com",
    "two@example.com, b@c",
    // read as two senders, as a group, as a comment, or as a name that does not end
    "Pay, Inc. <pay@example.com>",
    "Pay: <pay@example.com>",
    "Pay (shop) <pay@example.com>",
    'Pay" <pay@example.com>',
    '"Pay\\" <pay@example.com>',
    "other@example.com <pay@example.com>",
    "Pay <pay@example.com> junk",
    "Pay\u0000 <pay@example.com>",
    "pay,ments@example.com",
    "pay@example.com;",
    "pay..ments@example.com",
    "pay.@example.com",
    "pay@example..com",
    "pay@-example.com",
    "Pay <pay@exam_ple.com>",
  ])
    expect(() => readWorkerConfig({ ...ENV, MAIL_FROM })).toThrow("MAIL_FROM: must be an address");
  for (const MAIL_FROM of [
    "pay@example.com",
    '"Pay, Inc." <pay@example.com>',
    '"The \\"Shop\\"" <pay@example.com>',
    "<pay@localhost>",
    "Café Zürich <pay+shop@mail.example.com>",
    "Dr. Pay's Shop & Co. <o'pay@bücher.example>",
  ])
    expect(readWorkerConfig({ ...ENV, MAIL_FROM })).toMatchObject({ mailFrom: MAIL_FROM });
});

test("RATE_SOURCE names files of exchange rates, a URL alone the default source's", () => {
  const url = "https://rates.example.com/daily.xml?of=eur";
  const sourcesOf = (env: object) => readWorkerConfig({ ...ENV, ...env }).rateSources;
  expect(sourcesOf({})).toEqual([]);
  expect(sourcesOf({ RATE_SOURCE: url })).toEqual([{ name: "ecb", url }]);
  expect(sourcesOf({ RATE_SOURCE: `ecb=${url}, snb=${url}` })).toEqual([
    { name: "ecb", url },
    { name: "snb", url },
  ]);
  expect(sourcesOf({ EXCHANGE_RATE_SOURCES: `ecb=${url}` })).toEqual([{ name: "ecb", url }]);
});

test("error: a RATE_SOURCE that is not a URL, has the default source twice, or is set under both of its names", () => {
  const url = "https://rates.example.com/daily.xml";
  for (const RATE_SOURCE of ["ecb", "ecb=", "ftp://rates.example.com", `${url}, ecb=${url}`, `own=${url}`])
    expect(() => readWorkerConfig({ ...ENV, RATE_SOURCE })).toThrow("RATE_SOURCE");
  expect(() => readWorkerConfig({ ...ENV, RATE_SOURCE: url, EXCHANGE_RATE_SOURCES: url })).toThrow(
    "RATE_SOURCE and EXCHANGE_RATE_SOURCES",
  );
});

describe("limits of relaying", () => {
  test("locally: a cap on the gas price, no budgets for fees and merchants", () => {
    expect(readWorkerConfig(ENV)).toMatchObject({
      ...{ relayMaxFeeWei: 2_000_000_000n, relayRevertedGasPerDay: 10_000_000n },
      ...{
        relayDailyFeeMaxWei: undefined,
        relayGasPerMerchantPerDay: undefined,
        sendGasTotalPerDay: undefined,
        relayHeadMaxAgeS: { base: undefined, "base-sepolia": undefined },
      },
    });
    expect(readApiConfig(ENV)).toMatchObject({ relayMinUnits: 1_000n, relayGasPerMerchantPerDay: undefined });
    expect(readIndexerConfig(ENV)).toMatchObject({ mismatchMinUnits: 1_000n });
  });

  test("in production: 0.02 ETH per day and network, 500,000,000 gas per merchant and for all sends", () => {
    expect(readWorkerConfig(PRODUCTION)).toMatchObject({
      ...{ relayMaxFeeWei: 2_000_000_000n, relayRevertedGasPerDay: 10_000_000n },
      ...{ relayDailyFeeMaxWei: 20_000_000_000_000_000n, relayGasPerMerchantPerDay: 500_000_000n },
      ...{ relayHeadMaxAgeS: { base: 120, "base-sepolia": undefined }, sendGasTotalPerDay: 500_000_000n },
    });
    expect(readApiConfig(PRODUCTION)).toMatchObject({
      ...{ relayMinUnits: 1_000n, relayGasPerMerchantPerDay: 500_000_000n },
    });
  });

  test("configured limits apply everywhere", () => {
    const set = {
      ...{ RELAY_MAX_FEE_GWEI: "7", RELAY_DAILY_FEE_MAX_WEI: "8", RELAY_GAS_PER_MERCHANT_PER_DAY: "9" },
      ...{ RELAY_REVERTED_GAS_PER_DAY: "0", RELAY_MIN_AMOUNT: "1.5", RELAY_HEAD_MAX_AGE_S: "60" },
      SEND_GAS_TOTAL_PER_DAY: "11",
    };
    for (const env of [ENV, PRODUCTION]) {
      expect(readWorkerConfig({ ...env, ...set })).toMatchObject({
        ...{ relayMaxFeeWei: 7_000_000_000n, relayDailyFeeMaxWei: 8n },
        ...{
          relayGasPerMerchantPerDay: 9n,
          relayRevertedGasPerDay: 0n,
          relayHeadMaxAgeS: { base: 60, "base-sepolia": 60 },
        },
      });
      expect(readApiConfig({ ...env, ...set })).toMatchObject({
        ...{ relayMinUnits: 1_500_000n, relayGasPerMerchantPerDay: 9n, sendGasTotalPerDay: 11n },
      });
    }
  });

  test.each(["0", "0.000001", "1000000"])("RELAY_MIN_AMOUNT accepts %s", (RELAY_MIN_AMOUNT) => {
    expect(readIndexerConfig({ ...ENV, RELAY_MIN_AMOUNT }).mismatchMinUnits).toBe(
      BigInt(Math.round(Number(RELAY_MIN_AMOUNT) * 1e6)),
    );
  });

  test.each(["0.0000001", "-1", "1e-3", ".5", "a"])(
    "error: RELAY_MIN_AMOUNT=%s is refused",
    (RELAY_MIN_AMOUNT) => {
      expect(() => readApiConfig({ ...ENV, RELAY_MIN_AMOUNT })).toThrow(/RELAY_MIN_AMOUNT: must be USDC/);
    },
  );
});

describe("database connections", () => {
  const worker = (set: Record<string, string>) => () => readWorkerConfig({ ...ENV, ...set }).connections;

  test("a worker divides its connections among tasks, sender, advisory updates and queue, and scales with concurrency", () => {
    expect(worker({})()).toEqual({ pool: 12, planned: 6, asyncCommit: 2, queue: 4 });
    // two liveness locks during a restart, and the three connections of an export
    expect(worker({ WORKER_CONCURRENCY: "1" })()).toEqual({ pool: 5, planned: 6, asyncCommit: 2, queue: 4 });
    expect(worker({ WORKER_DATABASE_MAX_CONNECTIONS: "40" })()).toEqual({
      pool: 28,
      planned: 6,
      asyncCommit: 2,
      queue: 4,
    });
  });

  test("a worker takes 24 connections for 8 concurrent jobs, 23 are refused", () => {
    expect(worker({ WORKER_DATABASE_MAX_CONNECTIONS: "24" })()).toEqual({
      pool: 12,
      planned: 6,
      asyncCommit: 2,
      queue: 4,
    });
    expect(worker({ WORKER_DATABASE_MAX_CONNECTIONS: "23" })).toThrow(
      "WORKER_DATABASE_MAX_CONNECTIONS: must be at least 24 with WORKER_CONCURRENCY 8",
    );
    expect(worker({ WORKER_DATABASE_MAX_CONNECTIONS: "17", WORKER_CONCURRENCY: "1" })().pool).toBe(5);
    expect(worker({ WORKER_DATABASE_MAX_CONNECTIONS: "16", WORKER_CONCURRENCY: "1" })).toThrow(
      "WORKER_DATABASE_MAX_CONNECTIONS: must be between 17 and 400",
    );
  });

  test("an API gives four of its connections to payments, half of fewer than eight, and one of two", () => {
    const api = (max: string) => readApiConfig({ ...ENV, DATABASE_MAX_CONNECTIONS: max }).connections;
    expect(readApiConfig(ENV).connections).toEqual({ pool: 6, planned: 4 });
    expect(api("8")).toEqual({ pool: 4, planned: 4 });
    expect(api("7")).toEqual({ pool: 4, planned: 3 });
    expect(api("2")).toEqual({ pool: 1, planned: 1 });
  });

  test("an indexer takes at least four connections per network, one of which holds the leader's lock", () => {
    const indexer = (set: Record<string, string>) => () =>
      readIndexerConfig({ ...ENV, ...set }).poolConnections;
    const both = { NETWORKS: "base,base-sepolia" };
    expect(indexer({})()).toBe(3);
    expect(indexer(both)()).toBe(6);
    expect(indexer({ ...both, INDEXER_DATABASE_MAX_CONNECTIONS: "8" })()).toBe(6);
    expect(indexer({ ...both, INDEXER_DATABASE_MAX_CONNECTIONS: "20" })()).toBe(18);
    expect(indexer({ ...both, INDEXER_DATABASE_MAX_CONNECTIONS: "7" })).toThrow(
      "INDEXER_DATABASE_MAX_CONNECTIONS: must be at least 8 with 2 network(s)",
    );
  });
});

describe("remote signers of relayer keys", () => {
  const BOTH = { ...ENV, NETWORKS: "base,base-sepolia" };
  const WITHOUT_KEYS = { ...BOTH, RELAYER_PRIVATE_KEYS: "" };
  const ADDRESS = `0x${"Ab".repeat(20)}`;
  const signer = { RELAYER_SIGNER_URL: "http://127.0.0.1:9000", RELAYER_SIGNER_ADDRESSES: ADDRESS };

  test("replace private keys or follow them; a network may have its own signer", () => {
    const { relayerKeys } = readWorkerConfig({
      ...{ ...WITHOUT_KEYS, ...signer },
      RELAYER_SIGNER_URL_BASE: "https://signer.example.com/base",
    });
    const address = ADDRESS.toLowerCase() as `0x${string}`;
    expect(relayerKeys.get("base-sepolia")).toEqual([
      { address, signerUrl: "http://127.0.0.1:9000", signerVariable: "RELAYER_SIGNER_URL" },
    ]);
    expect(relayerKeys.get("base")).toEqual([
      { address, signerUrl: "https://signer.example.com/base", signerVariable: "RELAYER_SIGNER_URL_BASE" },
    ]);
    const both = readWorkerConfig({ ...BOTH, ...signer }).relayerKeys.get("base") ?? [];
    expect(both.map((key) => "privateKey" in key)).toEqual([true, false]);
  });

  test("an address whose private key is there is signed for locally", () => {
    const [local] = readWorkerConfig(BOTH).relayerKeys.get("base") ?? [];
    const same = { ...signer, RELAYER_SIGNER_ADDRESSES: local?.address ?? "" };
    expect(readWorkerConfig({ ...BOTH, ...same }).relayerKeys.get("base")).toEqual([local as never]);
  });

  test.each([
    [{ RELAYER_SIGNER_ADDRESSES: ADDRESS }, "RELAYER_SIGNER_URL is not set"],
    [{ RELAYER_SIGNER_URL: "http://127.0.0.1:9000" }, "RELAYER_SIGNER_ADDRESSES is not set"],
    [
      { ...signer, RELAYER_SIGNER_URL: "ftp://127.0.0.1" },
      "RELAYER_SIGNER_URL: must be an http or https URL",
    ],
    [
      { ...signer, RELAYER_SIGNER_URL: "http://worker:50%@127.0.0.1:9000" },
      "RELAYER_SIGNER_URL: must have its user and password percent-encoded: a % in them is %25",
    ],
    [
      { RELAYER_SIGNER_URL_BASE_SEPOLIA: "http://127.0.0.1:9000" },
      "RELAYER_SIGNER_ADDRESSES is not set; RELAYER_SIGNER_URL_BASE_SEPOLIA signs for them",
    ],
    [{ ...signer, RELAYER_SIGNER_ADDRESSES: "0x12" }, "must be 0x and 40 hex digits"],
  ])("error: %j", (given, message) => {
    expect(() => readWorkerConfig({ ...ENV, ...given })).toThrow(message);
  });

  test("a malformed URL of one network is the only fault reported", () => {
    const given = { RELAYER_SIGNER_ADDRESSES: ADDRESS, RELAYER_SIGNER_URL_BASE_SEPOLIA: "ftp://127.0.0.1" };
    expect(() => readWorkerConfig({ ...ENV, ...given })).toThrow(
      /^the environment has 1 fault:\n {2}- RELAYER_SIGNER_URL_BASE_SEPOLIA: must be an http or https URL$/,
    );
  });

  test("a percent-encoded password is accepted as it is", () => {
    const url = "http://worker:50%25@127.0.0.1:9000";
    const { relayerKeys } = readWorkerConfig({ ...WITHOUT_KEYS, ...signer, RELAYER_SIGNER_URL: url });
    expect(relayerKeys.get("base")).toMatchObject([{ address: ADDRESS.toLowerCase(), signerUrl: url }]);
  });

  test("in production they are on this machine or behind https; elsewhere they need not be", () => {
    const open = { RELAYER_SIGNER_URL_BASE: "http://signer.internal:9000" };
    expect(() => readWorkerConfig({ ...PRODUCTION, ...signer })).not.toThrow();
    expect(() => readWorkerConfig({ ...BOTH, ...signer, ...open })).not.toThrow();
    expect(() => readWorkerConfig({ ...PRODUCTION, ...signer, ...open })).toThrow(
      "RELAYER_SIGNER_URL_BASE: must be https in production, except on this machine (signer.internal:9000)",
    );
  });
});

test("error: a relayer key outside the curve's range is refused by the name of its variable", () => {
  for (const digit of ["0", "f"])
    expect(() =>
      readWorkerConfig({ ...ENV, RELAYER_PRIVATE_KEYS: `0x${"01".repeat(32)},0x${digit.repeat(64)}` }),
    ).toThrow("RELAYER_PRIVATE_KEYS: must be a secp256k1 private key");
});
