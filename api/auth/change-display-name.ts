/** Changes the merchant name that payers see. */

import { recordSecurityEvent } from "../../db/accounts/security-events.ts";
import { setDisplayName } from "../../db/accounts/users.ts";
import type { User } from "../../db/schema.ts";
import type { Trace } from "../http/audit-trace.ts";
import { unauthorized } from "../http/authenticate.ts";
import type { ApiDeps } from "../http/deps.ts";

export async function changeDisplayName(
  { sql }: Pick<ApiDeps, "sql">,
  { user, displayName, trace }: { user: User; displayName: string | null; trace: Trace },
): Promise<User> {
  return sql.begin(async (tx) => {
    const renamed = await setDisplayName(tx, user.id, displayName);
    if (!renamed) throw unauthorized();
    await recordSecurityEvent(tx, { userId: user.id, type: "name_changed", ...trace });
    return renamed;
  });
}
