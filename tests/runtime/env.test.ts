/** How variables are read: each kind just inside and just outside of what it accepts, and all faults in one message. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import {
  commaList,
  EnvError,
  flag,
  listenHost,
  postgresUrl,
  processShape,
  readEnv,
  readEnvOrExit,
  secretList,
  standbyUrl,
  wholeNumber,
} from "../../core/runtime/env.ts";

const folder = mkdtempSync(join(tmpdir(), "test-env-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const accepts = (type: z.ZodType, text: string) => type.safeParse(text).success;
const faultsOf = (read: () => unknown): readonly string[] => {
  try {
    read();
  } catch (error) {
    if (error instanceof EnvError) return error.faults;
    throw error;
  }
  return [];
};

describe("readEnv", () => {
  const shape = {
    PORT: wholeNumber(1, 9),
    KIND: z.enum(["one", "two"]),
    NAME: z.string({ error: "it names" }),
  };
  const RIGHT = { PORT: "1", KIND: "one", NAME: "n" };

  test("gives what was parsed, and an empty variable counts as absent", () => {
    expect(readEnv(shape, RIGHT)).toEqual({ PORT: 1, KIND: "one", NAME: "n" });
    expect(faultsOf(() => readEnv(shape, { ...RIGHT, NAME: "" }))).toEqual(["NAME is not set; it names"]);
  });

  test("names each variable's fault in one sentence, and counts them", () => {
    const broken = { PORT: "x10", KIND: "three" };
    expect(faultsOf(() => readEnv(shape, broken))).toEqual([
      "PORT: must be a whole number",
      "KIND: must be one of one, two",
      "NAME is not set; it names",
    ]);
    expect(() => readEnv(shape, broken)).toThrow("the environment has 3 faults:\n  - PORT: ");
    expect(() => readEnv(shape, { ...RIGHT, PORT: "0" })).toThrow("the environment has 1 fault:\n  - PORT: ");
  });

  test("checks variables together, also when others do not parse, which are absent and named", () => {
    const seen: unknown[] = [];
    const check = (env: object, broken: ReadonlySet<string>) => {
      seen.push({ ...env }, [...broken]);
      return ["NAME: does not fit PORT"];
    };
    expect(faultsOf(() => readEnv(shape, RIGHT, check))).toEqual(["NAME: does not fit PORT"]);
    expect(faultsOf(() => readEnv(shape, { ...RIGHT, PORT: "10" }, check))).toEqual([
      "PORT: must be between 1 and 9",
      "NAME: does not fit PORT",
    ]);
    expect(seen).toEqual([{ PORT: 1, KIND: "one", NAME: "n" }, [], { KIND: "one", NAME: "n" }, ["PORT"]]);
  });

  test("a file that cannot be read is the only fault of its variable", () => {
    const { NAME: _, ...others } = RIGHT;
    const given = { ...others, NAME_FILE: join(folder, "none") };
    expect(faultsOf(() => readEnv(shape, given))).toEqual([expect.stringContaining("NAME_FILE: ")]);
  });

  test("an error that is not the environment's is thrown, not reported as a setting", () => {
    expect(
      readEnvOrExit(() => {
        return 7;
      }),
    ).toBe(7);
    expect(() =>
      readEnvOrExit(() => {
        throw new Error("a bug");
      }),
    ).toThrow("a bug");
  });
});

test("a flag is 1 or true, 0 or false, and no other text", () => {
  expect(["1", "true", "0", "false"].map((text) => flag.parse(text))).toEqual([true, true, false, false]);
  for (const text of ["yes", "TRUE", "2", ""]) expect(accepts(flag, text)).toBe(false);
});

test("a list has what is between its commas, without space and without empty items", () => {
  expect(commaList.parse(" a,b , ,c d,")).toEqual(["a", "b", "c d"]);
  expect(commaList.parse(" , ")).toEqual([]);
});

test("a whole number has digits only and is within its bounds", () => {
  const type = wholeNumber(2, 40);
  expect(type.parse("2")).toBe(2);
  expect(type.parse("040")).toBe(40);
  for (const text of ["1", "41", "-3", "3.0", "3e0", " 3", "0x3", ""])
    expect(accepts(type, text)).toBe(false);
});

test("secrets have 32 characters each, and there are one to ten of them", () => {
  const type = secretList("it signs");
  const secret = "s".repeat(32);
  expect(type.parse(secret)).toEqual([secret]);
  expect(type.parse(Array(10).fill(secret).join())).toHaveLength(10);
  expect(accepts(type, Array(11).fill(secret).join())).toBe(false);
  expect(accepts(type, "s".repeat(31))).toBe(false);
  expect(accepts(type, `${secret},${"s".repeat(31)}`)).toBe(false);
  expect(accepts(type, " , ")).toBe(false);
});

describe("a database's address", () => {
  const AT = "postgres://u@127.0.0.1:5432/x";
  const faultOf = (type: z.ZodType, text: string) =>
    type.safeParse(text).error?.issues.map(({ message }) => message);

  test.each([
    [AT, true, true],
    ["postgresql://u@host/x", true, true],
    ["postgres:///x?host=/run/postgresql", true, true],
    ["postgres://u@a:5432,b:5433/x", true, false],
    ["postgres://u@a,b/x", true, false],
    ["postgres://u@a,b:5433/x", true, false],
    ["postgres:///x?host=a,b", true, false],
    ["postgres://u:p,w@[::1]/x", true, true],
    ["postgres:///x", false, false],
    ["postgres://u:50%@a/x", false, false],
    ["postgres://u:p/w@a/x", false, false],
    ["mysql://u@a/x", false, false],
    ["postgresqls://u@a/x", false, false],
  ])("%s: of a standby %p, of the primary %p", (text, standby, primary) => {
    expect([accepts(standbyUrl, text), accepts(postgresUrl, text)]).toEqual([standby, primary]);
  });

  test("says what is wrong with it, once", () => {
    expect(faultOf(postgresUrl, "postgres:///x")).toEqual([expect.stringContaining("must name the host")]);
    expect(faultOf(postgresUrl, "postgres://u@a,b/x")).toEqual([expect.stringContaining("a single host")]);
    expect(faultOf(standbyUrl, "postgres://u:50%@a/x")).toEqual([expect.stringContaining("must be a URL")]);
  });

  test("has a known way of encryption, under either name", () => {
    for (const mode of [
      "disable",
      "require",
      "verify-ca",
      "verify-full",
      "true",
      "false",
      "1",
      "0",
      "no-verify",
    ]) {
      expect(accepts(postgresUrl, `${AT}?sslmode=${mode}`)).toBe(true);
      expect(accepts(postgresUrl, `${AT}?application_name=a&ssl=${mode}`)).toBe(true);
    }
    for (const name of ["sslmode", "ssl"])
      expect(faultOf(postgresUrl, `${AT}?${name}=prefer`)).toEqual([
        'its sslmode must be one of disable, require, verify-ca, verify-full, and is "prefer"',
      ]);
    // the first name decides
    expect(accepts(postgresUrl, `${AT}?ssl=prefer&sslmode=require`)).toBe(true);
  });

  test("names certificates and keys that can be read, or the system's", () => {
    const there = join(folder, "ca.pem");
    writeFileSync(there, "a certificate");
    for (const name of ["sslrootcert", "sslcert", "sslkey"]) {
      expect(accepts(postgresUrl, `${AT}?sslmode=verify-full&${name}=${there}`)).toBe(true);
      expect(accepts(postgresUrl, `${AT}?sslmode=verify-full&${name}=system`)).toBe(true);
      expect(faultOf(postgresUrl, `${AT}?sslmode=verify-full&${name}=${folder}/none`)).toEqual([
        `its ${name} is "${folder}/none", which this user cannot read`,
      ]);
    }
  });
});

test("a server listens at an address or at a name of letters, digits, dots and hyphens", () => {
  for (const text of ["127.0.0.1", "::1", "0.0.0.0", "localhost", "pay-1.Example.com"])
    expect(accepts(listenHost, text)).toBe(true);
  for (const text of ["http://localhost", "localhost:80", "local host", "300.1.1.1", "", "[::1]", "a_b"])
    expect(accepts(listenHost, text)).toBe(false);
});

test("a share of traces is a number from 0 to 1, and a collector is at an http(s) URL", () => {
  const share = processShape.OTEL_TRACES_SAMPLER_ARG;
  expect(["0", "0.25", "1", "1.0"].map((text) => share.parse(text))).toEqual([0, 0.25, 1, 1]);
  for (const text of ["1.1", "-0", ".5", "2", "0.", "1e0"]) expect(accepts(share, text)).toBe(false);
  const collector = processShape.OTEL_EXPORTER_OTLP_ENDPOINT;
  for (const text of ["http://127.0.0.1:4318", "https://otel.example"])
    expect(accepts(collector, text)).toBe(true);
  for (const text of ["otel.example", "ftp://otel.example", "http://"])
    expect(accepts(collector, text)).toBe(false);
});
