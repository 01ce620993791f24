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
    ["two unknown networks", { NETWORKS: "a,b" }, "NETWORKS: must be one of base, base-sepolia"],
  ])("%s", (_, given, fault) => {
    expect(() => readApiConfig({ ...BASE, ...given })).toThrow(`the environment has 1 fault:\n  - ${fault}`);
  });
});
