/** The API's title of a transaction in the reader's language; the merchant's own words in it stay as they are. */
import { say } from "../frame/texts.ts";

export function sayTitle(title: string): string {
  const [, start, what = ""] = /^(\w+ (?:for|from|to)) (.*)$/s.exec(title) ?? [];
  switch (start) {
    case "Payment for":
      return say("Payment for {what}", { what });
    case "Payment from":
      return say("Payment from {what}", { what });
    case "Received from":
      return say("Received from {what}", { what });
    case "Sent to":
      return say("Sent to {what}", { what });
    case "Refund for":
      return say("Refund for {what}", { what });
    default:
      return title;
  }
}
