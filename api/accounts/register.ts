/** Registration: creates a user for an address and sends a code. */
import { conflict } from "../../core/domain/errors.ts";
import { newUserId } from "../../core/domain/ids.ts";
import { insertUser, lockUserByEmail } from "../../db/accounts/users.ts";
import { recordEvents } from "../../db/events/events.ts";
import type { User } from "../../db/schema.ts";
import type { Trace } from "../http/audit-trace.ts";
import type { ApiDeps } from "../http/deps.ts";
import { sendCode } from "./send-code.ts";

export type Registration = { user: User; isNew: boolean; emailVerificationSent: boolean };

/** Returns the existing user while it is REGISTERED. Throws CONFLICT once its address was verified. */
export async function register(
  deps: ApiDeps,
  { email, trace }: { email: string; trace: Trace },
): Promise<Registration> {
  return deps.sql.begin(async (tx) => {
    const created = await insertUser(tx, { id: newUserId(), email });
    if (created)
      await recordEvents(tx, [{ userId: created.id, type: "user.registered", subjectId: created.id }]);
    const user = created ?? (await lockUserByEmail(tx, email));
    if (!user) throw new Error("the address was taken a moment ago and is free now");
    if (user.status !== "REGISTERED") {
      throw conflict("This e-mail address already has an account; sign in instead", {
        field: "email",
        issue: "already_verified",
      });
    }
    const code = await sendCode(tx, deps, { userId: user.id, trace });
    return { user, isNew: created !== undefined, emailVerificationSent: code.sent };
  });
}
