/**
 * An authorization, or its payer's idempotency key, always leads to the same use of a reusable link. When that use has expired unpaid,
 * the refusal says how to retry.
 */
import { effectiveStatus } from "../../core/domain/link-expiry.ts";
import { type Refusal, refusalOf } from "../../core/domain/payment.ts";
import { findObstacle, NO_PLACE_LEFT, type PayableLink } from "../../core/domain/payment-acceptance.ts";
import type { AskedLink } from "../../db/links/payable-links.ts";
import { hasUnknownOutcome } from "../../db/links/unknown-outcomes.ts";
import type { NewPayment } from "../../db/payments/accept-payments.ts";
import type { PayTools } from "./pay-tools.ts";

/** Undefined when the use may have been paid or can be, and when another one would not be accepted either. */
export async function refuseEndedUse(
  tools: PayTools<NewPayment>,
  parent: PayableLink,
  { asked, idempotencyKey }: { asked: AskedLink; idempotencyKey: string | undefined },
): Promise<Refusal | undefined> {
  const use = await tools.readLink(asked);
  const now = new Date();
  const hasEnded = use && effectiveStatus(use, now) === "EXPIRED";
  if (!hasEnded || use.paymentId !== null || use.paidTxHash !== null || use.isExecuted) return undefined;
  // a new authorization could then be a second payment
  if (await hasUnknownOutcome(tools.sql, use.id)) return undefined;
  const obstacle = findObstacle(parent, tools.config, now);
  if (obstacle && obstacle.reason !== "LINK_ALREADY_PAID") return undefined;
  const advice = `sign a new authorization${idempotencyKey === undefined ? "" : " and use a new Idempotency-Key"}`;
  return obstacle
    ? refusalOf("LINK_ALREADY_PAID", `${NO_PLACE_LEFT}; to try again later, ${advice}`)
    : refusalOf("LINK_NOT_PAYABLE", `what was begun with this authorization has expired unpaid; ${advice}`);
}
