/** Which amounts a relay budget has room for, and how a refusal describes it. */
import { expect, test } from "bun:test";
import {
  describeBudget,
  isRelayObstacle,
  judgeBudget,
  PAYMENT_GAS,
  type RelayLimits,
  whyBudgetSpent,
  whyNotRelayed,
} from "../../core/domain/relay-budget.ts";

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

test("a description states figures, unit and the next UTC day, and what is reserved only if something is", () => {
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

const NOW = new Date("2026-12-31T23:59:59.999Z");
const LINK = {
  amountUnits: 10_000n,
  recipient: `0x${"ab".repeat(20)}`,
  relayGasUsed: 0n,
  relayGasOwnMaximum: null,
} as const;
const LIMITS: RelayLimits = { relayMinUnits: 10_000n, relayGasPerMerchantPerDay: 1_000_000n };
const TRANSFER_PAYS = `; a USDC transfer to ${LINK.recipient} pays this link`;

test("a payment of the minimum amount is relayed; one below it is refused, and a transfer pays its link", () => {
  expect(whyNotRelayed(LINK, LIMITS, NOW)).toBeUndefined();
  expect(whyNotRelayed({ ...LINK, amountUnits: 9_999n }, LIMITS, NOW)).toEqual({
    reason: "AMOUNT_TOO_SMALL_TO_RELAY",
    message: `0.009999 USDC is below 0.010000 USDC, the minimum that is relayed${TRANSFER_PAYS}`,
  });
});

test("a merchant's gas is spent when one more payment does not fit, by the merchant's own maximum if there is one", () => {
  const judge = (relayGasUsed: bigint, relayGasOwnMaximum: bigint | null, limits = LIMITS) =>
    whyNotRelayed({ ...LINK, relayGasUsed, relayGasOwnMaximum }, limits, NOW)?.reason;
  expect(judge(1_000_000n - PAYMENT_GAS, null)).toBeUndefined();
  expect(judge(1_000_001n - PAYMENT_GAS, null)).toBe("RELAY_BUDGET_SPENT");
  expect(judge(0n, PAYMENT_GAS)).toBeUndefined();
  expect(judge(1n, PAYMENT_GAS)).toBe("RELAY_BUDGET_SPENT");
  expect(judge(1_000_000n, 2_000_000n)).toBeUndefined();
  expect(judge(10n ** 12n, null, { ...LIMITS, relayGasPerMerchantPerDay: undefined })).toBeUndefined();
});

test("gas that a merchant has only reserved refuses no payment, and is mentioned when something else does", () => {
  const budget = { used: 0n, reserved: PAYMENT_GAS, maximum: PAYMENT_GAS };
  expect(whyBudgetSpent(budget, NOW)).toBeUndefined();
  expect(whyBudgetSpent({ ...budget, used: 1n }, NOW)?.message).toContain(
    "1 used and 150000 reserved of 150000 gas",
  );
});
