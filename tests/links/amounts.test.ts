/** Amounts between the wire and micro-USDC, and what the words of a link's state mean. */
import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { isOpenStatus, LINK_AMOUNT_MAX_UNITS, LINK_STATUSES } from "../../core/domain/link.ts";
import { effectiveStatus } from "../../core/domain/link-expiry.ts";
import { formatUnits, parseUnits, parseUnitsFromNumber, toAmountNumber } from "../../core/domain/money.ts";
import { choiceOf, isTooFine, useIdOf } from "../../core/domain/reusable-link.ts";
import { isInferred, isRevocable, SETTLED_BY } from "../../core/domain/settled-by.ts";

describe("an amount", () => {
  test.each([
    ["0", 0n],
    ["1", 1_000_000n],
    ["0.000001", 1n],
    ["12.340000000", 12_340_000n],
    ["999999999999999999.999999", 999_999_999_999_999_999_999_999n],
  ] as const)("of the text %s is %p units", (text, units) => {
    expect(parseUnits(text)).toBe(units);
  });

  test.each(["", ".5", "1.", "-1", "+1", "1e3", " 1", "1,5", "0.0000001", "0x10", "1".repeat(19)])(
    "of the text %p is refused",
    (text) => {
      expect(parseUnits(text)).toBeUndefined();
    },
  );

  test.each([
    [0, 0n],
    [0.1, 100_000n],
    [1e-6, 1n],
    [1_000_000, LINK_AMOUNT_MAX_UNITS],
    [123_456.789_012, 123_456_789_012n],
  ] as const)("of the number %p is %p units", (value, units) => {
    expect(parseUnitsFromNumber(value)).toBe(units);
  });

  test.each([-1, -0.5, Number.NaN, Number.POSITIVE_INFINITY, 1e-7, 1.5e-7, 1e21, 1.123_456_7, 0.1 + 0.2])(
    "of the number %p is refused",
    (value) => {
      expect(parseUnitsFromNumber(value)).toBeUndefined();
    },
  );

  test.each([
    [0n, "0.000000"],
    [1n, "0.000001"],
    [-1n, "-0.000001"],
    [-12_340_000n, "-12.340000"],
    [LINK_AMOUNT_MAX_UNITS, "1000000.000000"],
  ] as const)("of %p units is written as %s", (units, text) => {
    expect(formatUnits(units)).toBe(text);
    expect(toAmountNumber(units)).toBe(Number(text));
  });

  test("that a payer chooses has at most five decimals", () => {
    expect(isTooFine(1_000_020n)).toBe(false);
    expect(isTooFine(1_000_001n)).toBe(true);
  });

  test("is chosen by the payer between both bounds, and fixed without them", () => {
    expect(choiceOf({ minUnits: 1n, maxUnits: 2n })).toEqual({ minUnits: 1n, maxUnits: 2n });
    expect(choiceOf({ minUnits: null, maxUnits: null })).toBeUndefined();
    expect(choiceOf({})).toBeUndefined();
    expect(choiceOf({ minUnits: 1n, maxUnits: null })).toBeUndefined();
  });
});

describe("a link", () => {
  const at = (ms: number) => new Date(ms);

  test("has expired from its expiry on, unless it waits for something", () => {
    expect(effectiveStatus({ status: "ACTIVE", expiresAt: at(1_000) }, at(999))).toBe("ACTIVE");
    expect(effectiveStatus({ status: "ACTIVE", expiresAt: at(1_000) }, at(1_000))).toBe("EXPIRED");
    expect(effectiveStatus({ status: "PENDING", expiresAt: at(1_000) }, at(1_001))).toBe("PENDING");
    expect(effectiveStatus({ status: "PAID", expiresAt: at(1_000) }, at(1_001))).toBe("PAID");
  });

  test("can be paid normally while it is ACTIVE or PENDING", () => {
    expect(LINK_STATUSES.filter(isOpenStatus)).toEqual(["ACTIVE", "PENDING"]);
  });

  test("gives up transfers attributed by its merchant, the amount or an early claim, but not those proven for it", () => {
    expect(SETTLED_BY.filter(isRevocable)).toEqual(["early_claim", "amount", "merchant"]);
  });

  test("is settled by inference where neither payer nor merchant named the link", () => {
    expect(SETTLED_BY.filter(isInferred)).toEqual(["early_claim", "pay_amount", "amount"]);
    expect([isInferred(null), isInferred(undefined)]).toEqual([true, true]);
  });

  test("that is reusable has a use for each authorization, identified by 16 bytes of its digest", () => {
    const authorization = { from: `0x${"0a".repeat(20)}`, nonce: `0x${"0b".repeat(32)}` } as const;
    const digest = createHash("sha256")
      .update(`use:link_1:${authorization.from}:${authorization.nonce}`)
      .digest("base64url");
    // 21 digits of six bits are 126 of the 128 bits
    expect(useIdOf("link_1", authorization, undefined).slice(0, -1)).toBe(`link_${digest.slice(0, 21)}`);
    expect(useIdOf("link_1", authorization, undefined)).toHaveLength("link_".length + 22);
  });

  test("that is reusable has one use for each payer and idempotency key", () => {
    const [from, other] = [`0x${"0a".repeat(20)}`, `0x${"0c".repeat(20)}`] as const;
    const [nonce, next] = [`0x${"0b".repeat(32)}`, `0x${"0d".repeat(32)}`] as const;
    const id = useIdOf("link_1", { from, nonce }, "order 1");
    expect(useIdOf("link_1", { from, nonce: next }, "order 1")).toBe(id);
    const others = [
      useIdOf("link_1", { from: other, nonce }, "order 1"),
      useIdOf("link_1", { from, nonce }, "order 2"),
      useIdOf("link_2", { from, nonce }, "order 1"),
      useIdOf("link_1", { from, nonce }, undefined),
    ];
    expect(new Set([id, ...others]).size).toBe(5);
  });
});
