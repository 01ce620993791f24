/** Amounts as people type them, with a decimal point or a decimal comma. */
import { Refusal } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { hasTwoReadings, TWO_READINGS } from "./two-readings.ts";

/** With a decimal point, as the API takes it. Throws a Refusal of `field` for an amount with two readings. */
export function readTyped(text: string, field = "amount"): string {
  if (!hasTwoReadings(text)) return text.trim().replace(",", ".");
  throw new Refusal(400, "VALIDATION_ERROR", say(TWO_READINGS), { field });
}
