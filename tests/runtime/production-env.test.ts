/** What production refuses or reports of its settings, just inside and just outside. */
import { describe, expect, test } from "bun:test";
import {
  baseUrlFaults,
  isHttpsOrLocalhost,
  originUrl,
  riskySettings,
  sealKeysOf,
  secretFaults,
} from "../../core/runtime/production-env.ts";

const NONE: ReadonlySet<string> = new Set();
/** 32 characters and as many different ones as are said. */
const textOf = (distinct: number) => "qwzxkvjmpy".slice(0, distinct).padEnd(32, "q");

describe("a secret", () => {
  test("of eight different characters is accepted, of seven it is guessable", () => {
    expect(secretFaults({ JWT_SECRET: [textOf(8)] })).toEqual([]);
    expect(secretFaults({ JWT_SECRET: [textOf(8), textOf(7)] })).toEqual([
      "JWT_SECRET: is guessable; make one with `openssl rand -hex 32`",
    ]);
  });

  test("of random characters that has a typical word in it is guessable", () => {
    for (const word of ["change-me", "CHANGEME", "password", "1234567890"])
      expect(secretFaults({ OTP_PEPPER: [`${textOf(10)}${word}`] })).toHaveLength(1);
  });

  test("must be under one name, in every key of both lists, and may be twice in a list of its own", () => {
    const [one, two, three] = [textOf(8), textOf(9), textOf(10)];
    const fault = (left: string, right: string) =>
      `${left} and ${right}: must differ, in every key of their lists`;
    expect(secretFaults({ A: [one, two], B: [three, two], C: undefined })).toEqual([fault("A", "B")]);
    expect(secretFaults({ A: [one], B: [two], C: [one] })).toEqual([fault("A", "C")]);
    expect(secretFaults({ A: [one, one], B: [two], C: [three] })).toEqual([]);
  });
});

describe("risky settings", () => {
  const production = { NODE_ENV: "production" };
  const PROXIES = { TRUSTED_PROXIES: ["10.0.0.0/8", "0.0.0.0/0"] };

  test("an amount of 100 USDC is one, a millionth less is none", () => {
    for (const name of ["RELAY_MIN_AMOUNT", "SEND_MIN", "SEND_FEE_USDC"]) {
      expect(riskySettings({ ...production, [name]: 99_999_999n })).toEqual([]);
      expect(riskySettings({ ...production, [name]: 100_000_000n })).toEqual([
        `${name} is 100 USDC: its unit is USDC, not micro-USDC; is it meant?`,
      ]);
    }
  });

  test("are each reported by name, and none outside production", () => {
    const all = { WEBHOOK_PRIVATE_TARGETS: true, RATE_LIMITS: false, ...PROXIES, SEND_MIN: 10n ** 9n };
    const names = riskySettings({ ...production, ...all }).map((risk) => risk.split(/[= ]/)[0]);
    expect(names).toEqual(["WEBHOOK_PRIVATE_TARGETS", "RATE_LIMITS", "TRUSTED_PROXIES", "SEND_MIN"]);
    expect(riskySettings({ NODE_ENV: "development", ...all })).toEqual([]);
  });

  test("are not the safe values, nor those that are absent", () => {
    expect(riskySettings(production)).toEqual([]);
    const safe = { WEBHOOK_PRIVATE_TARGETS: false, RATE_LIMITS: true, TRUSTED_PROXIES: ["10.0.0.0/8"] };
    expect(riskySettings({ ...production, ...safe })).toEqual([]);
    expect(riskySettings({ ...production, TRUSTED_PROXIES: ["::/0"] })).toHaveLength(1);
  });
});

test("the public origin is https, or http of localhost alone; one that is missing is a fault, one that is broken is reported elsewhere", () => {
  expect(baseUrlFaults("https://pay.example.com", NONE)).toEqual([]);
  expect(baseUrlFaults("http://localhost:3000", NONE)).toEqual([]);
  expect(baseUrlFaults("http://pay.example.com", NONE)).toHaveLength(1);
  expect(baseUrlFaults(undefined, NONE)).toHaveLength(1);
  expect(baseUrlFaults(undefined, new Set(["BASE_URL"]))).toEqual([]);
  expect(isHttpsOrLocalhost("http://localhost.example.com")).toBe(false);
});

test("an origin is a scheme, a host and a port, and nothing else", () => {
  for (const text of ["https://pay.example.com", "https://pay.example.com/", "http://127.0.0.1:3000"])
    expect(originUrl.safeParse(text).success).toBe(true);
  for (const rest of ["/pay", "?", "?a=1", "#", "#top"])
    expect(originUrl.safeParse(`https://pay.example.com${rest}`).success).toBe(false);
  for (const text of ["https://me@pay.example.com", "https://:word@pay.example.com", "ftp://a.example", "no"])
    expect(originUrl.safeParse(text).success).toBe(false);
  expect(originUrl.safeParse("no").error?.issues).toHaveLength(1);
});

test("what encrypts webhook secrets is the own keys first, then the peppers", () => {
  expect(sealKeysOf(["own"], ["pepper", "older"])).toEqual(["own", "pepper", "older"]);
  expect(sealKeysOf(undefined, ["pepper"])).toEqual(["pepper"]);
});
