/** A payment that failed before anything left the house may be tried again with the same authorization. */

import { enqueue } from "../../db/jobs/queue.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { lockPayments, type NewPayment, requeuePayment } from "../../db/payments/payments.ts";
import type { Sql } from "../../db/postgres/client.ts";

/** True when the payment is queued again and its job is in. */
export async function requeue(sql: Sql, paymentId: string, payment: NewPayment): Promise<boolean> {
  return sql.begin(async (tx) => {
    await lockPayments(tx, [paymentId]);
    await lockLinks(tx, [payment.linkId]);
    const row = await requeuePayment(tx, paymentId, payment);
    if (!row) return false;
    await enqueue(tx, "relay_payments", {
      network: payment.network,
      ...(payment.requestId === null ? {} : { requestId: payment.requestId }),
    });
    return true;
  });
}
