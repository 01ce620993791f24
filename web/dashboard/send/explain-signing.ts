/** Explains why nothing was signed, or why that is not known. */
import { messageOf } from "../frame/service.ts";
import { say } from "../frame/texts.ts";
import { ForeignOperation } from "./check-signed-operation.ts";

/** For a signature whose submission got no answer while the service says that it has none. */
export function notArrived(error: unknown): Error {
  const advice = say("Your signature has not arrived yet. Sign again, or cancel it with “Do not sign”.");
  return new Error(`${messageOf(error)} ${advice}`, { cause: error });
}

export function explainSigning(error: unknown): string {
  if (!(error instanceof ForeignOperation)) return messageOf(error);
  return say(
    "The service offered something to sign that differs from what is shown here ({field}). Nothing was signed. Tell the operator.",
    { field: error.field },
  );
}
