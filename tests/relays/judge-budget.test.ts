/** Which amounts a relay budget has room for, and how a refusal describes it. */
import { expect, test } from "bun:test";
import { describeBudget, isRelayObstacle, judgeBudget } from "../../core/domain/relay-budget.ts";

const BUDGET = { used: 4n, reserved: 3n, maximum: 10n };

test.each([
  [3, "fits"],
  [4, "held"],
  [6, "held"],
  [7, "spent"],
] as const)("a budget of 10 with 4 used and 3 reserved: %i more is %s", (amount, verdict) => {
  expect(judgeBudget(BUDGET, BigInt(amount))).toBe(verdict);
});

test("a budget without a maximum has room for every amount", () => {
  expect(judgeBudget({ ...BUDGET, maximum: null }, 10n ** 30n)).toBe("fits");
});

test("a description names figures, unit and the next UTC day, and what is reserved only when something is", () => {
  const now = new Date("2026-12-31T23:59:59.999Z");
  expect(describeBudget("FEES", BUDGET, now)).toBe(
    "the network's fee budget for relaying has no room for this payment today: 4 used and 3 reserved of 10 wei; it resets at 2027-01-01T00:00:00.000Z",
  );
  expect(describeBudget("MERCHANT", { ...BUDGET, reserved: 0n, maximum: null }, now)).toContain(
    "4 used of unlimited gas;",
  );
});

test.each([
  ["AMOUNT_TOO_SMALL_TO_RELAY", true],
  ["RELAY_BUDGET_SPENT", true],
  ["LINK_NOT_PAYABLE", false],
] as const)("%s as a reason not to relay a payable link: %s", (reason, isObstacle) => {
  expect(isRelayObstacle({ reason, message: "" })).toBe(isObstacle);
});
