/** Amounts as people type them, with a decimal point or a decimal comma. */
import { Refusal } from "../frame/service.ts";
import { groupsWithPoint, say } from "../frame/texts.ts";
import { faultOfAmount } from "./amount-fault.ts";

/** With a decimal point, as the API takes it. Throws a Refusal of `field` for anything else than an amount that can be read in one way. */
export function readTyped(text: string, field = "amount"): string {
  const fault = faultOfAmount(text, groupsWithPoint);
  if (fault) throw new Refusal(400, "VALIDATION_ERROR", say(fault), { field });
  return text.trim().replace(",", ".");
}
