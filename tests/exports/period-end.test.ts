/** When a period is complete, so that its files are final. */
import { expect, test } from "bun:test";
import { isComplete, type LedgerEnd } from "../../core/domain/period-end.ts";

const BEFORE = new Date("2026-07-01T00:00:00Z");
const at = (text: string) => new Date(`2026-${text}Z`);
const WHOLE: LedgerEnd = { confirmedBefore: BEFORE, recheckedBefore: BEFORE, isWhole: true };
const NOW = at("07-01T00:01:00");

test("a period is complete once all of it is confirmed and read twice, and the wallet's past is known", () => {
  expect(isComplete(WHOLE, BEFORE, NOW)).toBe(true);
  expect(isComplete({ ...WHOLE, isWhole: false }, BEFORE, NOW)).toBe(false);
  expect(isComplete({ ...WHOLE, confirmedBefore: at("06-30T23:59:59") }, BEFORE, NOW)).toBe(false);
});

test.each([[null], [at("06-30T23:59:58")]])(
  "a period waits for its second reading, which has reached %p, for a day at most",
  (recheckedBefore) => {
    const end = { ...WHOLE, recheckedBefore };
    expect(isComplete(end, BEFORE, NOW)).toBe(false);
    expect(isComplete(end, BEFORE, at("07-01T23:59:59.999"))).toBe(false);
    expect(isComplete(end, BEFORE, at("07-02T00:00:00"))).toBe(true);
    expect(isComplete({ ...end, confirmedBefore: at("06-30T23:59:59") }, BEFORE, at("08-01T00:00:00"))).toBe(
      false,
    );
  },
);
