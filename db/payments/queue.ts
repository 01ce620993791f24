/** The queue of accepted payments: rows, not jobs. A job only wakes the worker; leases and delays are in the rows. */
import type { PendingQuery, Row } from "postgres";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type Payment, payments } from "../schema.ts";
import { lockedPayments } from "./locked-payments.ts";

/** An earlier payment of the same link that ended while no node responded. */
export type UnknownOutcome = { id: string; payer: Hex; nonce: Hex };

/**
 * `isLinkPaid`: another transfer pays its link, or will if nothing else does. `payerReverts`: this payer's reverted payments in the last
 * day. `readNumber`: how far the ledger has been read; null before the indexer's first start.
 */
export type LeasedPayment = Payment & {
  /** Identifies what was leased: it changes when the payment fails, is accepted again, signed or requeued. */
  updatedAtMicros: bigint;
  /** Null an hour later, and after a crash of Postgres. */
  requestId: string | null;
  /** Null for a facilitated payment. */
  linkTag: Hex | null;
  isLinkPaid: boolean;
  payerReverts: number;
  readNumber: bigint | null;
  unknownOutcomes: UnknownOutcome[] | null;
  /** On whose behalf it is relayed: the link's merchant, or the owner of the API key. */
  merchantId: string;
  /** Today's gas budget of the merchant; the maximum is null without a limit of their own. */
  merchantGasUsed: bigint;
  merchantGasReserved: bigint;
  merchantGasMaximum: bigint | null;
};

/**
 * Leases the oldest queued payments: no other worker takes them within `leaseMs`; a dead worker's lease expires.
 * A transfer that executed this very authorization does not count as another transfer of its link.
 */
export async function leaseQueuedPayments(
  tx: Tx,
  network: NetworkId,
  limit: number,
  leaseMs: number,
): Promise<LeasedPayment[]> {
  return tx<LeasedPayment[]>`
    with queued as materialized (
      select payments.id
      from open_payments
      join payments on payments.id = open_payments.payment_id
      where open_payments.network = ${network} and ${isDue(tx)}
      order by payments.next_try_at, payments.created_at
    ),
    -- what another worker is leasing is left out. Not by locks on the rows, each a record of the log: a payment that is signed or fails
    -- meanwhile is found out by the unpaid check before signing. Materialized above, or the whole queue would be locked before it is sorted
    due as (
      select id
      from queued
      where pg_try_advisory_xact_lock(hashtext('lease of payment'), hashtext(id))
      limit ${limit}
    ),
    -- a lease taken by another worker after this statement began is not in its snapshot, but conflicts
    taken as (
      insert into payment_leases (payment_id, until)
      select id, now() + make_interval(secs => ${leaseMs / 1000}::float8)
      from due
      on conflict (payment_id) do update
      set until = excluded.until
      where payment_leases.until <= now()
      returning payment_id
    ),
    leased as (
      select ${columnsOf(tx, payments, "payments")}
      from taken
      join payments on payments.id = taken.payment_id
    )
    select
      leased.*,
      timestamp_micros(leased.updated_at) as updated_at_micros,
      (select request_id from payment_requests where payment_id = leased.id) as request_id,
      link.tag as link_tag,
      merchant.id as merchant_id,
      merchant.relay_gas_per_day as merchant_gas_maximum,
      coalesce(budget.used, 0)::numeric(78, 0) as merchant_gas_used,
      coalesce(budget.reserved, 0)::numeric(78, 0) as merchant_gas_reserved,
      exists (
        select from transfers
        where transfers.link_id = leased.link_id
          and transfers.pays
          and transfers.status <> 'ORPHANED'
          and (transfers.from_address, transfers.authorization_nonce) is distinct from (leased.payer, leased.nonce)
      )
      or exists (
        select from transfers
        where transfers.link_id = leased.link_id
          and not transfers.pays
          and transfers.amount_units = leased.amount_units
          and transfers.status <> 'ORPHANED'
          and (transfers.from_address, transfers.authorization_nonce) is distinct from (leased.payer, leased.nonce)
      ) as is_link_paid,
      (
        select coalesce(sum(other.reverts), 0)::int
        from payments other
        where other.network = leased.network
          and other.payer = leased.payer
          and other.reverts > 0
          and other.updated_at > now() - interval '24 hours'
      ) as payer_reverts,
      (select number from cursors where cursors.network = ${network}) as read_number,
      (
        select jsonb_agg(jsonb_build_object('id', earlier.id, 'payer', hex_of(earlier.payer), 'nonce', hex_of(earlier.nonce)))
        from payments earlier
        where earlier.link_id = leased.link_id and earlier.doubt_until > now()
      ) as unknown_outcomes
    from leased
    left join lateral (
      select tag, user_id
      from payment_links
      where id = leased.link_id
      limit 1
    ) link on true
    left join lateral (
      select id, relay_gas_per_day
      from users
      where id = coalesce(link.user_id, leased.facilitator_user_id)
      limit 1
    ) merchant on true
    left join lateral (
      select used, reserved
      from relay_budgets
      where network = ${network}
        and scope = 'MERCHANT'
        and subject = merchant.id
        and day = (now() at time zone 'utc')::date
      limit 1
    ) budget on true`;
}

/**
 * SQL: a payment that any worker may lease now. The lease is a scalar subquery: an anti-join, planned while there were few leases, would
 * read all of them for each payment.
 */
export function isDue(tx: Tx) {
  return tx`payments.state = 'QUEUED' and payments.next_try_at <= now()
        and coalesce(
          (select lease.until <= now() from payment_leases lease where lease.payment_id = payments.id),
          true
        )`;
}

/** A payment as it was leased. */
export type Leased = Pick<LeasedPayment, "id" | "updatedAtMicros">;

/**
 * SQL: sets these columns of the payments that are still queued as they were leased (`changed`), and ends their leases. A lease may be
 * over since, and its payment failed and accepted again: the retry is judged for itself. Locks the payments in the order of their ids.
 */
function changeLeased(tx: Tx, leased: readonly Leased[], columns: PendingQuery<Row[]>) {
  const ids = leased.map(({ id }) => id);
  const versions = leased.map(({ updatedAtMicros }) => String(updatedAtMicros));
  return tx`
    with ${lockedPayments(tx, tx`${ids}::text[]`)},
    changed as (
      update payments
      set ${columns}
      from locked
      join unnest(${ids}::text[], ${versions}::text[]::bigint[]) as given (id, updated_at_micros) using (id)
      where payments.id = locked.id
        and payments.state = 'QUEUED'
        and timestamp_micros(payments.updated_at) = given.updated_at_micros
      returning payments.id, payments.unavailable_since
    ),
    ended as (
      delete from payment_leases
      using changed
      where payment_leases.payment_id = changed.id
    )`;
}

function timeIn(tx: Tx, delayMs: number) {
  return tx`now() + make_interval(secs => ${delayMs / 1000}::float8)`;
}

/** Releases leases without a change: there was no capacity to send. */
export async function returnLeases(tx: Tx, leased: readonly Leased[], delayMs: number): Promise<void> {
  if (leased.length === 0) return;
  const columns = tx`next_try_at = ${timeIn(tx, delayMs)}, unavailable_since = null`;
  await tx`${changeLeased(tx, leased, columns)} select`;
}

/** Releases leases after a temporary refusal by the chain. */
export async function noteRefusals(tx: Tx, leased: readonly Leased[], delayMs: number): Promise<void> {
  if (leased.length === 0) return;
  const columns = tx`next_try_at = ${timeIn(tx, delayMs)}, unavailable_since = null, refusals = refusals + 1`;
  await tx`${changeLeased(tx, leased, columns)} select`;
}

/** Releases leases while the node or relayer is unavailable. Returns those for which that has lasted `giveUpMs`. */
export async function noteUnavailable(
  tx: Tx,
  leased: readonly Leased[],
  { delayMs, triedMs, giveUpMs }: { delayMs: number; triedMs: number; giveUpMs: number },
): Promise<Set<string>> {
  const columns = tx`
        next_try_at = ${timeIn(tx, delayMs)},
        unavailable_since = coalesce(unavailable_since, ${timeIn(tx, -triedMs)})`;
  const rows = await tx<{ id: string }[]>`
    ${changeLeased(tx, leased, columns)}
    select id from changed where unavailable_since <= ${timeIn(tx, -giveUpMs)}`;
  return new Set(rows.map(({ id }) => id));
}

/** Binds leased payments to their relay. Returns those that were still queued as leased; the caller rolls back when some are missing. */
export async function markSigned(tx: Tx, relayId: bigint, leased: readonly Leased[]): Promise<string[]> {
  const columns = tx`
        state = 'SIGNED', relay_id = ${relayId}, refusals = 0, unavailable_since = null, updated_at = now()`;
  const rows = await tx<{ id: string }[]>`${changeLeased(tx, leased, columns)} select id from changed`;
  return rows.map(({ id }) => id);
}

/** Those of these relays whose payments are all settled otherwise, or whose authorizations were over at `nowS`, Unix seconds. */
export async function findExpiredRelays(
  tx: Tx,
  relayIds: readonly bigint[],
  { nowS }: { nowS: bigint },
): Promise<Set<bigint>> {
  if (relayIds.length === 0) return new Set();
  const rows = await tx<{ id: bigint }[]>`
    select id
    from unnest(${relayIds.map(String)}::text[]::bigint[]) as relay (id)
    where coalesce(
        (
          select max(valid_before)
          from relay_payments carried
          join payments on payments.id = any(carried.payment_ids) and payments.relay_id = carried.relay_id
          where carried.relay_id = relay.id and payments.state in ('SIGNED', 'BROADCAST')
        ),
        0
      ) <= ${nowS}::bigint`;
  return new Set(rows.map(({ id }) => id));
}

/** Queues the payments of a lost relay again. */
export async function requeueRelay(tx: Tx, relayId: bigint): Promise<void> {
  await tx`
    with ${lockedPayments(tx, tx`(select payment_ids from relay_payments where relay_id = ${relayId})::text[]`)}
    update payments
    set state = 'QUEUED', relay_id = null, next_try_at = now(), updated_at = now()
    from locked
    where payments.id = locked.id
      and payments.relay_id = ${relayId}
      and payments.state in ('SIGNED', 'BROADCAST')`;
}

/** `isReverted`: the payment itself reverted its relay. */
export type UnsettledPayment = { id: string; requestId: string | null; relayId: bigint; isReverted: boolean };

/**
 * Queues again the payments of mined relays that their block did not settle, once the indexer has read that block (the same hash, or
 * too deep to be stored any more) and it is deep: the transaction is over, so nothing of ours could still settle them. In a block that
 * may still be reorganised away it may yet charge the payer, so the link must not go to another payer. Facilitated payments have none.
 * A payment whose batch reverted as a whole is not blamed, but relayed alone from now on; nor is one mined after its window, which may
 * be our own delay, nor one that the mined attempt had left out. Payments that the ledger may still settle are left to it.
 */
export async function requeueUnsettled(
  tx: Tx,
  network: NetworkId,
  depthBlocks: number,
): Promise<UnsettledPayment[]> {
  return tx<UnsettledPayment[]>`
    with mined as materialized (
      select
        relay.id, relay.tx_hash, relay.succeeded, block.block_time,
        cursors.number >= relay.block_number + ${depthBlocks}::bigint - 1 as is_deep
      from relays relay
      join cursors on cursors.network = relay.network and cursors.number >= relay.block_number
      left join blocks block on block.network = relay.network and block.number = relay.block_number
      where relay.network = ${network}
        and relay.state = 'MINED'
        and (block.hash = relay.block_hash or block.hash is null)
    ),
    over as materialized (
      select
        mined.id as relay_id,
        mined.succeeded
          or (
            select count(*)
            from payments mate
            where mate.id = any(carried.payment_ids) and mate.relay_id = mined.id
          ) = 1 as is_own_fault,
        coalesce(payment.valid_before <= extract(epoch from mined.block_time), true) as was_late,
        not exists (
          select from relay_attempts attempt
          where attempt.tx_hash = mined.tx_hash and (attempt.is_noop or payment.id = any(attempt.left_out))
        ) as was_tried,
        payment.id as payment_id, payment.network, payment.recipient, payment.payer, payment.nonce, payment.link_id
      from mined
      join relay_payments carried on carried.relay_id = mined.id
      join payments payment
        on payment.id = any(carried.payment_ids)
        and payment.relay_id = mined.id
        and payment.state in ('SIGNED', 'BROADCAST')
        and (mined.is_deep or payment.link_id is null)
    ),
    lost as materialized (select * from over where not ${isForBooksToEnd(tx, "over")}),
    ${lockedPayments(tx, tx`array(select payment_id from lost)`)}
    update payments
    set
      state = 'QUEUED', relay_id = null, next_try_at = now(), updated_at = now(),
      reverts = reverts + case when lost.was_tried and lost.is_own_fault and not lost.was_late then 1 else 0 end,
      alone = alone or (lost.was_tried and not lost.is_own_fault)
    from lost
    join locked on locked.id = lost.payment_id
    where payments.id = locked.id
      and payments.relay_id = lost.relay_id
      and payments.state in ('SIGNED', 'BROADCAST')
    returning
      payments.id, (select request_id from payment_requests where payment_id = payments.id) as request_id, lost.relay_id,
      (lost.was_tried and lost.is_own_fault and not lost.was_late) as is_reverted`;
}

/**
 * Queues again the payments of pending transactions whose authorizations expired before a deep block that the ledger has read: none can
 * be executed any more, whatever happens to the transaction. Its key may be retired, or unable to pay for using up the nonce.
 */
export async function requeueExpired(
  tx: Tx,
  network: NetworkId,
  depthBlocks: number,
): Promise<{ id: string }[]> {
  return tx<{ id: string }[]>`
    with expired as materialized (
      select payment.id as payment_id, payment.relay_id, payment.network, payment.recipient, payment.payer, payment.nonce, payment.link_id
      from open_payments, payments payment, relays, cursors, blocks deep
      where open_payments.network = ${network}
        and payment.id = open_payments.payment_id
        and payment.state in ('SIGNED', 'BROADCAST')
        and relays.id = payment.relay_id
        and relays.state in ('SIGNED', 'BROADCAST')
        and cursors.network = payment.network
        and deep.network = cursors.network
        and deep.number = cursors.number - ${depthBlocks}::bigint + 1
        and payment.valid_before <= extract(epoch from deep.block_time)
    ),
    lost as materialized (select * from expired where not ${isForBooksToEnd(tx, "expired")}),
    ${lockedPayments(tx, tx`array(select payment_id from lost)`)}
    update payments
    set state = 'QUEUED', relay_id = null, next_try_at = now(), updated_at = now()
    from lost
    join locked on locked.id = lost.payment_id
    where payments.id = locked.id
      and payments.relay_id = lost.relay_id
      and payments.state in ('SIGNED', 'BROADCAST')
    returning payments.id`;
}

/**
 * SQL: whether the ledger may still settle a payment although it has read its block: its recipient's wallet is not followed yet and will
 * be back-filled, or its transfer is recorded without a link. A payment to an address that is not ours is settled by its
 * authorization's log in any block.
 */
function isForBooksToEnd(tx: Tx, payment: "over" | "expired") {
  return tx`
    (
      exists (
        select from wallets
        where wallets.network = ${tx(payment)}.network
          and wallets.address = ${tx(payment)}.recipient
          and wallets.backfilled_at is null
      )
      or ${tx(payment)}.link_id is not null
        and exists (
          select from transfers own
          where own.network = ${tx(payment)}.network
            and own.from_address = ${tx(payment)}.payer
            and own.authorization_nonce = ${tx(payment)}.nonce
            and own.to_address = ${tx(payment)}.recipient
            and own.link_id is null
            and own.status <> 'ORPHANED'
        )
    )`;
}
