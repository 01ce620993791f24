/** Why an operation of the wallet failed, in words. */
import { say } from "../frame/texts.ts";

const REASONS: Readonly<Record<string, string>> = {
  INSUFFICIENT_FUNDS: "The wallet does not hold enough.",
  PAYMENT_NOT_ALLOWED: "USDC does not allow this transfer.",
  SIGNATURE_REFUSED: "The account refused the signature.",
  ACCOUNT_CHANGED: "The account's owners have changed. Start again.",
  NONCE_TAKEN: "Another operation of the wallet came first. Start again.",
  NOT_SENT: "It could not be sent in time. Nothing moved.",
  NOT_RUN: "It was not executed. Nothing moved.",
  REVERTED: "The chain undid it. Nothing moved.",
};

/** A reason without a text is shown as it is. */
export const explainFailure = (reason: string) => say(REASONS[reason] ?? reason);
