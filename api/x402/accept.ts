/**
 * Accepting payments by group commit: while one transaction is on its way to disk, the payments that arrive gather
 * and go together in the next. Alone a payment goes at once; under load a commit, a job and its locks serve many.
 */

import type { Sql } from "../../db/client.ts";
import { insertPayments, lockLinks, type NewPayment } from "../../db/payments.ts";
import { enqueue } from "../../db/queue.ts";

const GROUP_MAX = 100;
const WAITING_MAX = 5_000;

export type Acceptor = {
  /** True once the payment, its link's move and its relay job are committed; false when it lost to another or to the link's state. */
  accept(payment: NewPayment): Promise<boolean>;
};

type Waiting = { payment: NewPayment; resolve(accepted: boolean): void; reject(error: unknown): void };

export class OverloadedError extends Error {}

export function openAcceptor(sql: Sql): Acceptor {
  const waiting: Waiting[] = [];
  let running = false;

  async function drain(): Promise<void> {
    running = true;
    while (waiting.length > 0) await commitGroup(sql, waiting.splice(0, GROUP_MAX));
    running = false;
  }

  return {
    accept: (payment) =>
      new Promise((resolve, reject) => {
        if (waiting.length >= WAITING_MAX) {
          reject(new OverloadedError(`${WAITING_MAX} payments are waiting to be stored`));
          return;
        }
        waiting.push({ payment, resolve, reject });
        if (!running) void drain();
      }),
  };
}

/** One transaction for the group. When it fails its members are told apart by trying each alone. */
async function commitGroup(sql: Sql, group: readonly Waiting[]): Promise<void> {
  try {
    const accepted = await commit(
      sql,
      group.map((one) => one.payment),
    );
    for (const one of group) one.resolve(accepted.has(one.payment.id));
  } catch (error) {
    const [only] = group;
    if (group.length === 1 && only) only.reject(error);
    else for (const one of group) await commitGroup(sql, [one]);
  }
}

async function commit(sql: Sql, payments: readonly NewPayment[]): Promise<Set<string>> {
  return sql.begin(async (tx) => {
    await lockLinks(
      tx,
      payments.map((payment) => payment.linkId),
    );
    const accepted = await insertPayments(tx, payments);
    const networks = new Map(
      payments.filter((payment) => accepted.has(payment.id)).map((payment) => [payment.network, payment]),
    );
    for (const [network, payment] of networks) {
      await enqueue(tx, "relay_payments", {
        network,
        ...(payment.requestId === null ? {} : { requestId: payment.requestId }),
      });
    }
    return accepted;
  });
}
