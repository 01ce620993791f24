/**
 * Accepts payments by group commit: payments that arrive while one transaction commits share the next. A single payment is committed immediately;
 * under load many share one commit, one job and its locks.
 */
import type { NetworkId } from "../../core/domain/networks.ts";
import { currentTraceparent } from "../../core/tracing/spans.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import { lockLinks } from "../../db/links/lock-links.ts";
import { insertPayments, type NewPayment, requeuePayment } from "../../db/payments/accept-payments.ts";
import { isDrained } from "../../db/payments/drain-lease.ts";
import { isNoneStored, lockPayments } from "../../db/payments/payments.ts";
import { isWorthRetrying, type Sql, type Tx } from "../../db/postgres/client.ts";
import { storeTraces } from "../../db/traces/traces.ts";
import { GROUP_LIMITS, isGathered } from "./group-commit-timing.ts";

const WAITING_MAX = 5_000;

export type Acceptable = { id: string; network: NetworkId; requestId: string | null };

export type Acceptor<Payment extends Acceptable> = {
  /**
   * True once the payment, the states it changes and, if needed, its relay job are committed; false when another payment or its link's state
   * excludes it.
   */
  accept(payment: Payment): Promise<boolean>;
};

/** Writes a group inside a transaction and returns the accepted ids. */
export type Store<Payment> = (tx: Tx, payments: readonly Payment[]) => Promise<Set<string>>;
type Waiting<Payment> = {
  payment: Payment;
  /** The request's trace: the group is committed in the trace of its first payment. */
  traceparent: string | undefined;
  resolve(accepted: boolean): void;
  reject(error: unknown): void;
};

export class OverloadedError extends Error {}

export function openAcceptor<Payment extends Acceptable>(sql: Sql, store: Store<Payment>): Acceptor<Payment> {
  const waiting: Waiting<Payment>[] = [];
  let running = false;
  let isBusy = false;

  async function gather(): Promise<void> {
    const startedMs = performance.now();
    for (let before = 0; ; ) {
      const now = waiting.length;
      if (isGathered(now, { before, passedMs: performance.now() - startedMs })) return;
      before = now;
      await Bun.sleep(GROUP_LIMITS.pollIntervalMs);
    }
  }

  async function drain(): Promise<void> {
    running = true;
    while (waiting.length > 0) {
      if (isBusy) await gather();
      const group = waiting.splice(0, GROUP_LIMITS.groupMax);
      isBusy = group.length > 1;
      await commitGroup(sql, store, group);
    }
    running = false;
  }

  return {
    accept: (payment) =>
      new Promise((resolve, reject) => {
        if (waiting.length >= WAITING_MAX) {
          reject(new OverloadedError(`${WAITING_MAX} payments wait to be stored`));
          return;
        }
        waiting.push({ payment, traceparent: currentTraceparent(), resolve, reject });
        if (!running) void drain();
      }),
  };
}

/** Payments of links: each moves its link, and is not accepted when another payment holds it. */
export const storeLinkPayments: Store<NewPayment> = async (tx, payments) => {
  const linkIds = payments.map((payment) => payment.linkId);
  // pipelined: the second statement starts when the first has its locks
  const [, accepted] = await Promise.all([lockLinks(tx, linkIds), insertPayments(tx, payments)]);
  return accepted;
};

/**
 * One transaction for the group. When it fails because of its contents, each member is committed separately; when the database is
 * unavailable, each member retries on its own.
 */
async function commitGroup<Payment extends Acceptable>(
  sql: Sql,
  store: Store<Payment>,
  group: readonly Waiting<Payment>[],
): Promise<void> {
  try {
    const accepted = await commit(sql, store, group);
    for (const one of group) one.resolve(accepted.has(one.payment.id));
  } catch (error) {
    if (group.length === 1 || isWorthRetrying(error)) for (const one of group) one.reject(error);
    else for (const one of group) await commitGroup(sql, store, [one]);
  }
}

async function commit<Payment extends Acceptable>(
  sql: Sql,
  store: Store<Payment>,
  group: readonly Waiting<Payment>[],
): Promise<Set<string>> {
  const payments = group.map(({ payment }) => payment);
  const ids = payments.map(({ id }) => id);
  const firsts = [...Map.groupBy(group, ({ payment }) => payment.network).values()];
  return sql.begin(async (tx) => {
    // pipelined: whether a job is needed is read once the payments are stored
    const [accepted] = await Promise.all([
      store(tx, payments),
      ...firsts.map(async ([first]) => first && enqueueRelay(tx, first.payment, { ids, ...first })),
    ]);
    await storeTraces(tx, group.filter(({ payment }) => accepted.has(payment.id)).flatMap(toTrace));
    return accepted;
  });
}

/**
 * Queues a failed payment of a link again with the authorization that was shown now: nothing of the first attempt could still execute.
 * True once the payment and its job are committed.
 */
export async function requeueLinkPayment(sql: Sql, paymentId: string, payment: NewPayment): Promise<boolean> {
  return sql.begin(async (tx) => {
    await lockPayments(tx, [paymentId]);
    await lockLinks(tx, [payment.linkId]);
    if (!(await requeuePayment(tx, paymentId, payment))) return false;
    const traceparent = currentTraceparent();
    await storeTraces(tx, toTrace({ payment: { id: paymentId }, traceparent }));
    await enqueueRelay(tx, payment, { ids: [paymentId], traceparent });
    return true;
  });
}

function toTrace({ payment, traceparent }: { payment: { id: string }; traceparent: string | undefined }) {
  return traceparent ? [{ subjectId: payment.id, traceparent }] : [];
}

/** Wakes a worker when any of these payments are stored, unless one is already draining: under load most groups need no job. */
async function enqueueRelay(
  tx: Tx,
  { network, requestId }: Omit<Acceptable, "id">,
  { ids, traceparent }: { ids: readonly string[]; traceparent: string | undefined },
): Promise<void> {
  const payload = { network, ...(requestId === null ? {} : { requestId }) };
  await enqueue(tx, "relay_payments", payload, {
    traceparent,
    unless: tx`(${isNoneStored(tx, network, ids)} or ${isDrained(tx, network)})`,
  });
}
