/** Cancels an unsigned refund: its operation, or the request for it. */
import { conflict } from "../../core/domain/errors.ts";
import { recordEvents } from "../../db/events/events.ts";
import type { Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import type { User } from "../../db/schema.ts";
import { cancelOperation } from "../../db/wallet-ops/operations.ts";
import { cancelRequest, lockRefund, markCancelled } from "../../db/wallet-ops/refund-requests.ts";
import type { RefundView } from "../../db/wallet-ops/refunds.ts";
import type { ApiDeps } from "../http/deps.ts";

/** Throws CONFLICT once it is signed, expired or cancelled. */
export async function cancelRefund(
  { sql }: Pick<ApiDeps, "sql">,
  { user, refund: { id, linkId, status } }: { user: User; refund: RefundView },
): Promise<void> {
  const isCancelled = await sql.begin(async (tx) => {
    await lockRefund(tx, id);
    const cancelled = await cancelEither(tx, { id, userId: user.id });
    if (cancelled === "no") return false;
    if (cancelled === "request")
      await recordEvents(tx, [
        { userId: user.id, type: "refund.cancelled", subjectId: id, data: { linkId } },
      ]);
    await notify(tx, [id]);
    return true;
  });
  if (isCancelled) return;
  throw conflict(`A refund can only be cancelled before it is signed; this one is ${status}`, {
    field: "status",
    issue: status,
  });
}

async function cancelEither(
  tx: Tx,
  refund: { id: string; userId: string },
): Promise<"request" | "operation" | "no"> {
  if (await cancelOperation(tx, refund))
    return (await markCancelled(tx, refund.id)) ? "request" : "operation";
  return (await cancelRequest(tx, refund)) ? "request" : "no";
}
