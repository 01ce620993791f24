/** A payment that failed before anything left the house may be tried again with the same authorization. */
import type { Sql } from "../../db/client.ts";
import { lockLinks, lockPayments, type NewPayment, requeuePayment } from "../../db/payments.ts";
import { enqueue } from "../../db/queue.ts";

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
