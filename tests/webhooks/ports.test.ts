import { expect, test } from "bun:test";
import { isWebhookPort } from "../../core/domain/webhook.ts";
import { RETRY_AFTER_S, retryAfterS } from "../../core/domain/webhook-failures.ts";

test("a webhook goes to port 443 or one without a well-known service", () => {
  expect([22, 25, 53, 80, 442, 443, 444, 1_023, 1_024, 8_443].filter(isWebhookPort)).toEqual([
    443, 1_024, 8_443,
  ]);
});

test("a delivery is attempted immediately, and ten times in all", () => {
  expect(retryAfterS(0)).toBe(0);
  expect(retryAfterS(9)).toBe(24 * 3_600);
  expect(retryAfterS(10)).toBeUndefined();
  expect(RETRY_AFTER_S).toHaveLength(10);
});
