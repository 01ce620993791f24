/**
 * The drain lease of a network: while a worker holds it, others leave queued payments to it, since N workers that lease side by side send
 * N small transactions instead of one. It only saves cost: correctness depends on each payment's own lease and the unpaid check before signing, so an
 * expired drain lease only makes batches smaller. Full batches do not need it.
 */
import type { NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { isDue } from "./queue.ts";

export type Drain = {
  network: NetworkId;
  /** The process; a new one for each start. */
  holder: string;
  /** Payments of a full batch. */
  batchMax: number;
  leaseMs: number;
};

/**
 * "full": enough for a full batch, whoever holds the lease. "pending": the lease is taken, and other payments are waiting for a
 * block. "busy": another worker holds it.
 */
export type DrainTurn = "full" | "taken" | "pending" | "idle" | "busy" | "released" | "awaited" | "kept";

/**
 * Takes or extends the lease when payments are due, and releases it when none is. "released": call again once, for payments of workers that
 * received "busy" before; those are committed by then, so the second result is final. "awaited": a transaction that relies on this drain (see
 * `isDrained`) has not ended, so the lease is kept; call again in a moment. "kept": none is due, and a holder with `staysOn` keeps
 * its lease for the rest of its time; it also calls again.
 */
export async function takeDrainLease(
  tx: Tx,
  { network, holder, batchMax, leaseMs }: Drain,
  { staysOn = false }: { staysOn?: boolean } = {},
): Promise<DrainTurn> {
  const [row] = await tx<DrainRow[]>`
    with due as materialized (
      select count(*)::int as count
      from ${firstDue(tx, network, batchMax)}
    ),
    taken as (
      insert into drain_leases (network, holder, until)
      select ${network}, ${holder}, now() + make_interval(secs => ${leaseMs / 1000}::float8)
      from due
      where count > 0
      on conflict (network) do update
      set holder = excluded.holder, until = excluded.until
      where drain_leases.until <= now()
        or (
          drain_leases.holder = excluded.holder
          -- while more than half of it is left the row is not rewritten, because every dead row version slows down reads
          and drain_leases.until < now() + make_interval(secs => ${leaseMs / 2_000}::float8)
        )
      returning 1
    ),
    kept as (
      select
      from drain_leases
      where network = ${network} and holder = ${holder} and until > now()
    ),
    held as (
      select network
      from drain_leases
      where network = ${network} and holder = ${holder} and (select count from due) = 0
        and not (${staysOn} and until > now())
    ),
    released as (
      delete from drain_leases
      where network in (
        select network
        from drain_leases
        where network in (select network from held) and holder = ${holder}
        for update skip locked
      )
      returning 1
    )
    select
      count as due,
      exists (select from taken) or exists (select from kept) as is_taken,
      exists (select from held) as is_held,
      exists (select from released) as is_released,
      count between 1 and ${batchMax - 1} and exists (
        select from open_payments
        join payments on payments.id = open_payments.payment_id
        where open_payments.network = ${network} and payments.state in ('SIGNED', 'BROADCAST')
      ) as is_pending
    from due`;
  if (row?.isHeld) return row.isReleased ? "released" : "awaited";
  if (!row || row.due === 0) return staysOn && row?.isTaken ? "kept" : "idle";
  if (row.due >= batchMax) return "full";
  if (!row.isTaken) return "busy";
  return row.isPending ? "pending" : "taken";
}

/** SQL: the payments that a drain may lease now, at most a batch. */
function firstDue(tx: Tx, network: NetworkId, batchMax: number) {
  return tx`
    (
      select
      from open_payments
      join payments on payments.id = open_payments.payment_id
      where open_payments.network = ${network} and ${isDue(tx)}
      limit ${batchMax}
    ) first_due`;
}

/** How many payments are due, up to a full batch. */
export async function countDue(tx: Tx, { network, batchMax }: Drain): Promise<number> {
  const [row] = await tx<{ due: number }[]>`
    select count(*)::int as due
    from ${firstDue(tx, network, batchMax)}`;
  return row?.due ?? 0;
}

type DrainRow = { due: number; isTaken: boolean; isHeld: boolean; isReleased: boolean; isPending: boolean };

/**
 * SQL: whether a worker is draining the network and will see what this transaction has queued: it keeps its lease until the transaction
 * has ended, and checks again after that. If it dies or ends early, any worker's next round finds the payments.
 */
export function isDrained(tx: Tx, network: NetworkId): ReturnType<Tx> {
  return tx`exists (
    select from drain_leases
    where network = ${network} and until > clock_timestamp()
    for key share
  )`;
}

/** For a drain that ends before the queue is empty. Does not wait, even for transactions that rely on the lease: the next payment adds a job again. */
export async function releaseDrainLease(tx: Tx, { network, holder }: Drain): Promise<void> {
  await tx`
    update drain_leases
    set until = now()
    where network = ${network} and holder = ${holder}`;
}
