/**
 * Stores a request for a refund, by an operator or an API key that may not sign: an owner of the wallet prepares and signs it later.
 * Reserves nothing.
 */
import { conflict } from "../../core/domain/errors.ts";
import { newRefundId } from "../../core/domain/ids.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { REFUND_REQUESTS_MAX } from "../../core/domain/refund.ts";
import { recordEvents } from "../../db/events/events.ts";
import {
  countOpenRequests,
  findRequestByKey,
  insertRefundRequest,
  type NewRefundRequest,
} from "../../db/wallet-ops/refund-requests.ts";
import { lockForRefunds } from "../../db/wallet-ops/refunds.ts";
import type { ApiDeps } from "../http/deps.ts";
import { type AskedRefund, getRefundedLink, readRefundChoice, toNewRefund } from "./choose-refund.ts";

export type RequestedRefund = { id: string; isReplay: boolean };

/** Throws NOT_FOUND for another user's link, CONFLICT when nothing or too little is left or too many requests are open, VALIDATION_ERROR. */
export async function requestRefund(
  deps: ApiDeps,
  asked: AskedRefund & { requestedBy: string },
): Promise<RequestedRefund> {
  const { user, linkId, body, idempotencyKey, requestedBy } = asked;
  const { link, wallet } = await getRefundedLink(deps, asked);
  const request = { linkId, ...body };
  const replay = await findReplay(deps, { userId: user.id, key: idempotencyKey, request });
  if (replay) return replay;
  const id = newRefundId(new Date());
  const isNew = await deps.sql.begin(async (tx) => {
    await lockForRefunds(tx, linkId);
    const chosen = await readRefundChoice(tx, { link, wallet }, asked);
    if ((await countOpenRequests(tx, linkId)) >= REFUND_REQUESTS_MAX)
      throw conflict(`At most ${REFUND_REQUESTS_MAX} refund requests can be open per link`, {
        issue: "too_many_requests",
      });
    const refund: NewRefundRequest = {
      ...toNewRefund(chosen, { id, link, body }),
      requestedBy,
      idempotencyKey,
      request,
    };
    if (!(await insertRefundRequest(tx, refund))) return false;
    const data = {
      network: link.network,
      amount: formatUnits(chosen.amountUnits),
      to: chosen.to,
      linkId,
      requestedBy,
    };
    await recordEvents(tx, [{ userId: user.id, type: "refund.requested", subjectId: id, data }]);
    return true;
  });
  if (isNew) return { id, isReplay: false };
  // another request with the same key came first
  const faster = await findReplay(deps, { userId: user.id, key: idempotencyKey, request });
  if (faster) return faster;
  throw conflict("A request with this Idempotency-Key is still running.", {
    field: "Idempotency-Key",
    issue: "in_progress",
  });
}

async function findReplay(
  { sql }: Pick<ApiDeps, "sql">,
  { userId, key, request }: { userId: string; key: string | undefined; request: unknown },
): Promise<RequestedRefund | undefined> {
  const known = key === undefined ? undefined : await findRequestByKey(sql, { userId, key, request });
  if (!known) return undefined;
  if (known.isSameRequest) return { id: known.id, isReplay: true };
  throw conflict("This Idempotency-Key was used with another request.", {
    field: "Idempotency-Key",
    issue: "other_request",
  });
}
