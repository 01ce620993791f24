/** Translates a reverted transfer's data into a documented refusal. */
import type { Hex } from "viem";
import { decodeErrorResult } from "viem-modules/utils/abi/decodeErrorResult.js";
import type { PaymentRefusal } from "../domain/payment.ts";

export type Refusal = {
  readonly reason: PaymentRefusal;
  /** The same authorization may succeed later: retry before refusing. */
  readonly healable: boolean;
  /** The chain's own message, for logs. */
  readonly text: string;
};

const ERROR_ABI = [{ type: "error", name: "Error", inputs: [{ type: "string" }] }] as const;

/** FiatTokenV2_2's revert strings. The first match counts. */
const REASONS: readonly (readonly [pattern: RegExp, reason: PaymentRefusal, healable: boolean])[] = [
  [/authorization is used or canceled/, "NONCE_USED", false],
  [/authorization is expired/, "EXPIRED_TRANSFER", false],
  [/authorization is not yet valid/, "NOT_YET_VALID", true],
  [/invalid signature/, "INVALID_SIGNATURE", false],
  [/transfer amount exceeds balance/, "INSUFFICIENT_FUNDS", true],
  [/account is blacklisted/, "PAYMENT_NOT_ALLOWED", false],
  [/Pausable: paused/, "PAYMENT_NOT_ALLOWED", false],
  [/(to|from) the zero address/, "PAYMENT_NOT_ALLOWED", false],
];

/** Revert data to a refusal. Unknown reasons are INTERNAL_ERROR and healable: retried, never attributed to the payer. */
export function explainRevert(data: Hex | undefined): Refusal {
  const text = revertText(data);
  const match = REASONS.find(([pattern]) => pattern.test(text));
  if (match) return { reason: match[1], healable: match[2], text };
  return { reason: "INTERNAL_ERROR", healable: true, text };
}

/** The string of `Error(string)`, else the data itself, shortened. */
function revertText(data: Hex | undefined): string {
  if (!data || data === "0x") return "reverted without a reason";
  if (data.startsWith("0x08c379a0")) {
    try {
      return decodeErrorResult({ abi: ERROR_ABI, data }).args[0];
    } catch {
      // Only the selector of Error(string): shown as data below.
    }
  }
  return `reverted with ${data.slice(0, 74)}`;
}
