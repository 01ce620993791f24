/**
 * Accepting payments by group commit: while one transaction is on its way to disk, the payments that arrive gather
 * and go together in the next. Alone a payment goes at once; under load a commit, a job and its locks serve many.
 */
import type { NetworkId } from "../../core/domain/networks.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { insertPayments, type NewPayment } from "../../db/payments/payments.ts";
import { isWorthRetrying, type Sql, type Tx } from "../../db/postgres/client.ts";

const GROUP_MAX = 100;
/** After a group that had company the next one waits this long for more: fewer commits, transactions and blocks carry the same load. */
const GATHER_MS = 8;
const WAITING_MAX = 5_000;

type Acceptable = { id: string; network: NetworkId; requestId: string | null };

export type Acceptor<Payment extends Acceptable> = {
  /** True once the payment, what it moves and its relay job are committed; false when it lost to another or to its link's state. */
  accept(payment: Payment): Promise<boolean>;
};

/** Writes a group inside a transaction and returns the ids that were taken. */
type Store<Payment> = (tx: Tx, payments: readonly Payment[]) => Promise<Set<string>>;
type Waiting<Payment> = { payment: Payment; resolve(accepted: boolean): void; reject(error: unknown): void };

export class OverloadedError extends Error {}

export function openAcceptor<Payment extends Acceptable>(sql: Sql, store: Store<Payment>): Acceptor<Payment> {
  const waiting: Waiting<Payment>[] = [];
  let running = false;
  let isBusy = false;

  async function drain(): Promise<void> {
    running = true;
    while (waiting.length > 0) {
      if (isBusy) await Bun.sleep(GATHER_MS);
      const group = waiting.splice(0, GROUP_MAX);
      isBusy = group.length > 1;
      await commitGroup(sql, store, group);
    }
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

/** Payments of links: each moves its link, and loses when somebody else holds it. */
export const storeLinkPayments: Store<NewPayment> = async (tx, payments) => {
  await lockLinks(
    tx,
    payments.map((payment) => payment.linkId),
  );
  return insertPayments(tx, payments);
};

/**
 * One transaction for the group. When it fails for what is in it, its members are told apart by trying each alone; a database that is
 * away is away for all of them, and each asks again by itself.
 */
async function commitGroup<Payment extends Acceptable>(
  sql: Sql,
  store: Store<Payment>,
  group: readonly Waiting<Payment>[],
): Promise<void> {
  try {
    const payments = group.map((one) => one.payment);
    const accepted = await commit(sql, store, payments);
    for (const one of group) one.resolve(accepted.has(one.payment.id));
  } catch (error) {
    if (group.length === 1 || isWorthRetrying(error)) for (const one of group) one.reject(error);
    else for (const one of group) await commitGroup(sql, store, [one]);
  }
}

async function commit<Payment extends Acceptable>(
  sql: Sql,
  store: Store<Payment>,
  payments: readonly Payment[],
): Promise<Set<string>> {
  return sql.begin(async (tx) => {
    const accepted = await store(tx, payments);
    const networks = new Map(
      payments.filter((payment) => accepted.has(payment.id)).map((payment) => [payment.network, payment]),
    );
    for (const [network, { requestId }] of networks) {
      await enqueue(tx, "relay_payments", { network, ...(requestId === null ? {} : { requestId }) });
    }
    return accepted;
  });
}
