import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  type Authorization,
  parseAuthorization,
  parseSignature,
  parseVrs,
} from "../../core/domain/authorization.ts";
import { checkTerms } from "../../core/domain/check-payment-terms.ts";
import type { Hex } from "../../core/domain/networks.ts";

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const NOW = 1_800_000_000n;
const PAYER = `0x${"11".repeat(20)}` as Hex;
const MERCHANT = `0x${"ab".repeat(20)}` as Hex;
const NONCE = `0x${"0c".repeat(32)}` as Hex;
const good: Authorization = {
  from: PAYER,
  to: MERCHANT,
  value: 25_000_000n,
  validAfter: 0n,
  validBefore: NOW + 300n,
  nonce: NONCE,
};
const terms = { payTo: MERCHANT, amountUnits: 25_000_000n };
const word = (value: bigint) => value.toString(16).padStart(64, "0");

describe("checkTerms", () => {
  test("accepts the exact amount to the link's wallet inside the window", () => {
    expect(checkTerms(good, terms, NOW)).toEqual({ ok: true });
  });

  test("compares the recipient without regard to checksum case", () => {
    expect(checkTerms(good, { ...terms, payTo: `0x${"AB".repeat(20)}` }, NOW)).toEqual({ ok: true });
  });

  test.each([
    ["RECIPIENT_MISMATCH", { to: PAYER }],
    ["AMOUNT_EXCEEDS_MAXIMUM", { value: 25_000_001n }],
    ["AMOUNT_BELOW_REQUIRED", { value: 24_999_999n }],
    ["EXPIRED_TRANSFER", { validBefore: NOW + 5n }],
    ["NOT_YET_VALID", { validAfter: NOW }],
  ] as const)("error: %s", (reason, change) => {
    expect(checkTerms({ ...good, ...change }, terms, NOW)).toEqual({ ok: false, reason });
  });

  test("six seconds left are enough, and a window that opened one second ago is open", () => {
    expect(checkTerms({ ...good, validBefore: NOW + 6n, validAfter: NOW - 1n }, terms, NOW)).toEqual({
      ok: true,
    });
  });

  test("names the recipient before the amount, the amount before the window", () => {
    const allWrong = { ...good, to: PAYER, value: 1n, validBefore: 0n };
    expect(checkTerms(allWrong, terms, NOW)).toEqual({ ok: false, reason: "RECIPIENT_MISMATCH" });
    const amountAndWindow = { ...good, value: 1n, validBefore: 0n };
    expect(checkTerms(amountAndWindow, terms, NOW)).toEqual({ ok: false, reason: "AMOUNT_BELOW_REQUIRED" });
  });
});

describe("parseAuthorization", () => {
  const fields = { from: PAYER, to: MERCHANT, value: "1", validAfter: "0", validBefore: "2", nonce: NONCE };

  test("reads decimal text and JSON numbers alike, and lower-cases hex", () => {
    const expected = { from: PAYER, to: MERCHANT, value: 1n, validAfter: 0n, validBefore: 2n, nonce: NONCE };
    expect(parseAuthorization(fields)).toEqual(expected);
    const numbers = { ...fields, value: 1, validAfter: 0, validBefore: 2, to: `0x${"AB".repeat(20)}` };
    expect(parseAuthorization(numbers)).toEqual(expected);
  });

  test("takes 2^256 - 1 and refuses 2^256", () => {
    const max = 2n ** 256n - 1n;
    expect(parseAuthorization({ ...fields, validBefore: String(max) })?.validBefore).toBe(max);
    expect(parseAuthorization({ ...fields, validBefore: String(max + 1n) })).toBeUndefined();
  });

  test.each([
    ["a negative value", { value: "-1" }],
    ["a fraction", { value: 1.5 }],
    ["an unsafe number", { value: 2 ** 53 }],
    ["a hex number", { value: "0x1" }],
    ["a leading zero", { value: "01" }],
    ["empty text", { value: "" }],
    ["a short address", { from: `0x${"11".repeat(19)}` }],
    ["an address with line feed", { from: `${PAYER}\n` }],
    ["an object", { from: { toString: 1 } }],
    ["a short nonce", { nonce: `0x${"0c".repeat(31)}` }],
    ["no nonce", { nonce: undefined }],
  ])("refuses %s", (_, change) => {
    expect(parseAuthorization({ ...fields, ...change })).toBeUndefined();
  });
});

describe("parseSignature", () => {
  const r = word(7n);

  test("v 0 and 1 become 27 and 28", () => {
    expect(parseSignature(`0x${r}${word(9n)}00`)?.ecdsa).toBe(`0x${r}${word(9n)}1b`);
    expect(parseSignature(`0x${r}${word(9n)}01`)?.ecdsa).toBe(`0x${r}${word(9n)}1c`);
  });

  test("a high s is mirrored and v flipped (EIP-2)", () => {
    expect(parseSignature(`0x${r}${word(ORDER - 9n)}1b`)?.ecdsa).toBe(`0x${r}${word(9n)}1c`);
    const half = ORDER / 2n;
    expect(parseSignature(`0x${r}${word(half)}1b`)?.ecdsa).toBe(`0x${r}${word(half)}1b`);
    expect(parseSignature(`0x${r}${word(half + 1n)}1b`)?.ecdsa).toBe(`0x${r}${word(half)}1c`);
  });

  test("64 bytes are read as EIP-2098: the top bit of s is the parity", () => {
    expect(parseSignature(`0x${r}${word(9n)}`)?.ecdsa).toBe(`0x${r}${word(9n)}1b`);
    expect(parseSignature(`0x${r}${word((1n << 255n) | 9n)}`)?.ecdsa).toBe(`0x${r}${word(9n)}1c`);
  });

  test("the EIP-2098 example of the standard's own text", () => {
    const long =
      "0x68a020a209d3d56c46f38cc50a33f704f4a9a10a59377f8dd762ac66910e9b907e865ad05c4035ab5792787d4a0297a43617ae897930a6fe4d822b8faea520641b";
    const compact =
      "0x68a020a209d3d56c46f38cc50a33f704f4a9a10a59377f8dd762ac66910e9b907e865ad05c4035ab5792787d4a0297a43617ae897930a6fe4d822b8faea52064";
    expect(parseSignature(compact)?.ecdsa).toBe(long);
  });

  test.each([
    ["v 29", `${r}${word(9n)}1d`],
    ["v 2", `${r}${word(9n)}02`],
    ["r = 0", `${word(0n)}${word(9n)}1b`],
    ["r = n", `${word(ORDER)}${word(9n)}1b`],
    ["s = 0", `${r}${word(0n)}1b`],
    ["s = n", `${r}${word(ORDER)}1b`],
    ["63 bytes", "11".repeat(63)],
    ["66 bytes", "11".repeat(66)],
    ["900 bytes", "11".repeat(900)],
    ["8 KiB", "11".repeat(8_192)],
  ])("%s has no ECDSA form but keeps its bytes, for contract payers", (_, digits) => {
    expect(parseSignature(`0x${digits}`)).toEqual({ bytes: `0x${digits}`, ecdsa: undefined });
  });

  test.each([
    ["no bytes", "0x"],
    ["half a byte", "0x1"],
    ["hex without 0x", "11".repeat(65)],
    ["letters", `0x${"zz".repeat(65)}`],
    ["nothing", undefined],
    ["more than 8 KiB", `0x${"11".repeat(8193)}`],
  ])("refuses %s as a signature", (_, text) => {
    expect(parseSignature(text)).toBeUndefined();
  });

  test("v, r, s give what the joined bytes give", () => {
    const anyWord = fc.bigInt({ min: 1n, max: ORDER - 1n }).map(word);
    fc.assert(
      fc.property(fc.constantFrom(0, 1, 27, 28), anyWord, anyWord, (v, r_, s_) => {
        const joined = parseSignature(`0x${r_}${s_}${v.toString(16).padStart(2, "0")}`);
        expect(joined?.ecdsa).toBeDefined();
        expect(parseVrs(v, `0x${r_}`, `0x${s_}`)).toEqual(joined);
        expect(parseVrs(String(v), `0x${r_.toUpperCase()}`, `0x${s_}`)).toEqual(joined);
      }),
    );
  });

  test("refuses v, r, s of the wrong shape", () => {
    expect(parseVrs(255, `0x${r}`, `0x${r}`)).toEqual({ bytes: `0x${r}${r}ff`, ecdsa: undefined });
    expect(parseVrs(256, `0x${r}`, `0x${r}`)).toBeUndefined();
    expect(parseVrs(27, `0x${r}00`, `0x${r}`)).toBeUndefined();
    expect(parseVrs(undefined, `0x${r}`, `0x${r}`)).toBeUndefined();
  });
});
