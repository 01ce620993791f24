/** Explains why nothing was signed. */
import { messageOf } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { ForeignOperation } from "./check-signed-operation.ts";

export function explainSigning(error: unknown): string {
  if (!(error instanceof ForeignOperation)) return messageOf(error);
  return say(
    "The service offered something to sign that differs from what is shown here ({field}). Nothing was signed. Tell the operator.",
    { field: error.field },
  );
}
