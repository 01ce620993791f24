/** Reads refunds and presents them in the routes' format. */

import type { z } from "zod";
import { invalid, notFound } from "../../core/domain/errors.ts";
import { REFUND_ID } from "../../core/domain/ids.ts";
import { formatUnits } from "../../core/domain/money.ts";
import { refundableUnits } from "../../core/domain/refund.ts";
import { findLink } from "../../db/links/links.ts";
import type { User } from "../../db/schema.ts";
import { listRefundable } from "../../db/wallet-ops/list-refundable.ts";
import { findOperation, findOperations } from "../../db/wallet-ops/operations.ts";
import { findRefund, listRefunds, type RefundView } from "../../db/wallet-ops/refunds.ts";
import type { ApiDeps } from "../http/deps.ts";
import { pageOf } from "../http/list-pages.ts";
import {
  type linkRefundsSchema,
  presentRefund,
  presentRefundable,
  type refundListQuery,
  type refundListSchema,
  type refundSchema,
} from "./refund-wire.ts";

/** Of one link. */
const LIST_MAX = 100;

/** Throws NOT_FOUND for another user's refund and for malformed ids. */
export async function getRefund({ sql }: Pick<ApiDeps, "sql">, user: User, id: string): Promise<RefundView> {
  const refund = REFUND_ID.test(id) ? await findRefund(sql, { id, userId: user.id }) : undefined;
  if (refund) return refund;
  throw notFound("Refund");
}

export async function answerRefund(
  deps: ApiDeps,
  user: User,
  id: string,
): Promise<z.infer<typeof refundSchema>> {
  const refund = await getRefund(deps, user, id);
  return presentRefund(refund, await findOperation(deps.sql, { id, userId: user.id, kind: "REFUND" }));
}

export async function answerRefundsOfLink(
  deps: ApiDeps,
  user: User,
  linkId: string,
): Promise<z.infer<typeof linkRefundsSchema>> {
  const link = await findLink(deps.sql, { id: linkId, userId: user.id });
  if (!link) throw notFound("Payment link");
  const refunds = await listRefunds(deps.sql, { userId: user.id, linkId }, { limit: LIST_MAX });
  const transfers = await listRefundable(deps.sql, link.id);
  return {
    refunds: await presentAll(deps, user, refunds),
    refundable: formatUnits(refundableUnits(transfers)),
    payments: transfers.map((transfer) => presentRefundable(link, transfer)),
  };
}

export async function answerRefunds(
  deps: ApiDeps,
  user: User,
  { limit, cursor, status }: z.infer<typeof refundListQuery>,
): Promise<z.infer<typeof refundListSchema>> {
  if (cursor !== undefined && !REFUND_ID.test(cursor))
    throw invalid("cursor", "is not a cursor of this list");
  const found = await listRefunds(
    deps.sql,
    { userId: user.id, status },
    { before: cursor, limit: limit + 1 },
  );
  const { rows, nextCursor, hasNextPage } = pageOf(found, limit, ({ id }) => id);
  return { refunds: await presentAll(deps, user, rows), nextCursor, pagination: { hasNextPage, limit } };
}

async function presentAll({ sql }: ApiDeps, user: User, refunds: readonly RefundView[]) {
  const ids = refunds.map(({ id }) => id);
  const operations = await findOperations(sql, { ids, userId: user.id, kind: "REFUND" });
  const byId = new Map(operations.map((operation) => [operation.id, operation]));
  return refunds.map((refund) => presentRefund(refund, byId.get(refund.id)));
}
