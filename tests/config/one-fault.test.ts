/** A faulty variable is one line, however many rules it breaks. */
import { describe, expect, test } from "bun:test";
import { readApiConfig } from "../../api/config.ts";

const BASE = {
  ...{ DATABASE_URL: "postgres://user@127.0.0.1:5432/x", RPC_URL_BASE_SEPOLIA: "http://127.0.0.1:8546" },
  ...{ JWT_SECRET: "4f3c".repeat(16), OTP_PEPPER: "99aa".repeat(16) },
};

describe("error: a variable is reported once, in our own words", () => {
  test.each<[string, Record<string, string>, string]>([
    ["a database that is no URL", { DATABASE_URL: "x" }, "DATABASE_URL: must begin with postgres://"],
    ["a base URL of another scheme", { BASE_URL: "ftp://a/b" }, "BASE_URL: must be an http(s) URL"],
    ["a list with two faulty items", { RPC_URL_BASE: "a, b" }, "RPC_URL_BASE: must be http(s) URLs"],
    ["an invalid flag", { BASE_ACCOUNT: "yes" }, "BASE_ACCOUNT: must be one of 0, 1, true, false"],
    ["a list of commas", { NETWORKS: "," }, "NETWORKS: must have at least one item, and has only commas"],
    ["another list of commas", { RP_ORIGINS: " ,," }, "RP_ORIGINS: must have at least one item"],
    [
      "a fee's recipient that is no address",
      { SEND_FEE_USDC: "0.1", FEE_ADDRESS: "0x1" },
      "FEE_ADDRESS: must be an address (0x and 40 hex digits)",
    ],
    ["two unknown networks", { NETWORKS: "a,b" }, "NETWORKS: must be one of base, base-sepolia"],
  ])("%s", (_, given, fault) => {
    expect(() => readApiConfig({ ...BASE, ...given })).toThrow(`the environment has 1 fault:\n  - ${fault}`);
  });
});

describe("the recipient of the fee of sends", () => {
  // the first example of EIP-55
  const RIGHT = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
  const readFee = (FEE_ADDRESS: string) =>
    readApiConfig({ ...BASE, SEND_FEE_USDC: "0.1", FEE_ADDRESS }).sendFee;

  test("is taken with its checksum, and in one case without any", () => {
    const expected = { units: 100_000n, address: RIGHT.toLowerCase() as `0x${string}` };
    for (const text of [RIGHT, RIGHT.toLowerCase(), `0x${RIGHT.slice(2).toUpperCase()}`])
      expect(readFee(text)).toEqual(expected);
  });

  test("error: a mistyped digit, which would send every fee to an address of nobody", () => {
    const fault = "the environment has 1 fault:\n  - FEE_ADDRESS: has a wrong checksum (EIP-55)";
    expect(() => readFee(RIGHT.replace(/d$/, "e"))).toThrow(fault);
    expect(() => readFee(RIGHT.replace("aA", "AA"))).toThrow(fault);
  });
});

test("space and line ends around a value, as of a secret made with `echo` or a file of Windows, are no part of it", () => {
  const config = readApiConfig({
    ...BASE,
    BASE_URL: "https://pay.example.com\n",
    PORT: " 3100\r",
    RP_NAME: " Shop\t",
  });
  expect(config).toMatchObject({
    baseUrl: "https://pay.example.com",
    port: 3100,
    passkey: { rpName: "Shop" },
  });
});

test("an amount that was given in micro-USDC is a risk reported with its unit, and 99 USDC is none", () => {
  const production = {
    ...{ ...BASE, NODE_ENV: "production", NETWORKS: "base-sepolia", BASE_URL: "https://pay.example.com" },
    JWT_SECRET: "4f3c2b1a09f8e7d6c5b4a3928170615243342516078899aabbccddeeff001122",
    OTP_PEPPER: "99aa88bb77cc66dd55ee44ff33002211fedcba98765432100123456789abcdef",
  };
  const amounts = (text: string) => ({ RELAY_MIN_AMOUNT: text, SEND_MIN: text, SEND_FEE_USDC: text });
  const FEE_ADDRESS = `0x${"7a".repeat(20)}`;
  expect(readApiConfig({ ...production, FEE_ADDRESS, ...amounts("99.999999") }).risks).toEqual([]);
  expect(readApiConfig({ ...production, FEE_ADDRESS, ...amounts("1000") }).risks).toEqual(
    ["RELAY_MIN_AMOUNT", "SEND_MIN", "SEND_FEE_USDC"].map(
      (name) => `${name} is 1000 USDC: its unit is USDC, not micro-USDC; is it meant?`,
    ),
  );
});
