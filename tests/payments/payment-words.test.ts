/** What a payment's state and reason mean. */
import { expect, test } from "bun:test";
import {
  isPaymentRefusal,
  isSettled,
  PAYMENT_REFUSALS,
  PAYMENT_STATES,
  refusalOf,
  standardReason,
} from "../../core/domain/payment.ts";

test("a payment is settled once a block has its transfer", () => {
  expect(PAYMENT_STATES.filter((state) => isSettled({ state }))).toEqual(["MINED", "CONFIRMED"]);
});

test("a failure is one that the payer can act on unless the fault is ours", () => {
  expect(isPaymentRefusal("NONCE_USED")).toBe(true);
  expect(isPaymentRefusal("INTERNAL_ERROR")).toBe(false);
  expect(isPaymentRefusal("LOST")).toBe(false);
});

test("a refusal has x402's own name if there is one, and a message", () => {
  expect(standardReason("NONCE_USED")).toBe("invalid_exact_evm_nonce_already_used");
  expect(standardReason("LINK_ALREADY_PAID")).toBe("LINK_ALREADY_PAID");
  expect(refusalOf("NOT_FOUND")).toEqual({
    ...{ reason: "NOT_FOUND", message: "no payment link has this id" },
  });
  expect(refusalOf("RATE_LIMITED").message).toBe("RATE_LIMITED");
  expect(refusalOf("NOT_FOUND", "gone").message).toBe("gone");
  expect(Object.values(PAYMENT_REFUSALS).every((status) => status >= 400 && status <= 500)).toBe(true);
});
