/** Deletes old rows in bounded steps. How long each kind is kept: core/domain/retention.ts. */
import {
  DEAD_JOBS_KEPT_DAYS,
  ENDED_CLAIMS_KEPT_DAYS,
  IDEMPOTENCY_KEYS_KEPT_DAYS,
  INVITATIONS_KEPT_DAYS,
  NOTICES_KEPT_DAYS,
  OTPS_KEPT_DAYS,
  PAYMENT_LEASES_KEPT_HOURS,
  PAYMENT_REQUESTS_KEPT_HOURS,
  RELAY_COSTS_KEPT_DAYS,
  SECURITY_TRAIL_KEPT_DAYS,
  SIGNED_BYTES_KEPT_HOURS,
  TRACES_KEPT_DAYS,
  UNVERIFIED_USERS_KEPT_DAYS,
  WEBHOOK_DELIVERIES_KEPT_DAYS,
} from "../../core/domain/retention.ts";
import type { Tx } from "../postgres/client.ts";
import { KEYED_JOBS } from "./queue.ts";

/** Maximum events of a user read to find a following one. */
const FOLLOWERS_READ = 100;

/**
 * Deletes at most `limit` events older than `keptDays`, and their webhook deliveries with them: ended ones, and those that wait for a disabled
 * endpoint. Each user's newest event of that age is kept, because the cursor of a reader who has read everything refers to it, and `listEvents`
 * looks it up. Events covered by its seal are kept too.
 */
export async function deleteOldEvents(
  tx: Tx,
  { keptDays, limit }: { keptDays: number; limit: number },
): Promise<number> {
  const result = await tx`
    delete from events
    where id = any(array(
        select old.id
        from events old
        where old.created_at < now() - make_interval(days => ${keptDays}::int)
          and exists (
            select from (
              select next.created_at, next.epoch, next.ended_before
              from events next
              where owner_key(next.user_id) = owner_key(old.user_id)
                -- none of its own transaction, however many those are: their seals cover it
                and (next.epoch, next.written_by) > (old.epoch, old.written_by)
              order by next.epoch, next.written_by
              limit ${FOLLOWERS_READ}
            ) follower
            where follower.created_at < now() - make_interval(days => ${keptDays}::int)
              and (follower.epoch > old.epoch or follower.ended_before > old.written_by)
          )
          and not exists (
            select from webhook_deliveries delivery
            join webhook_endpoints endpoint on endpoint.id = delivery.endpoint_id and endpoint.enabled
            where delivery.event_id = old.id and delivery.state = 'PENDING'
          )
        limit ${limit}
      ))`;
  return result.count;
}

/** Deletes the signed bytes of relays that ended long ago: for CONFIRMED ones only below the finalized block, which cannot be undone. */
export async function dropSignedBytes(tx: Tx, limit: number): Promise<number> {
  const result = await tx`
    update relay_attempts
    set raw = null
    where tx_hash = any(array(
        select attempt.tx_hash
        from relay_attempts attempt
        join relays relay on relay.id = attempt.relay_id
        join cursors on cursors.network = relay.network
        where attempt.raw is not null
          and attempt.created_at < now() - make_interval(hours => ${SIGNED_BYTES_KEPT_HOURS}::int)
          and relay.state = 'CONFIRMED'
          and relay.mined_at < now() - make_interval(hours => ${SIGNED_BYTES_KEPT_HOURS}::int)
          and relay.block_number <= cursors.finalized_number
        order by attempt.created_at
        limit ${limit}
      ))`;
  return result.count;
}

/** The trail refuses every other deletion: only rows older than this time, and only in this transaction. */
export async function deleteOldSecurityEvents(tx: Tx, limit: number): Promise<number> {
  await tx`
    select set_config(
      'service.security_trail_from', (now() - make_interval(days => ${SECURITY_TRAIL_KEPT_DAYS}::int))::text, true
    )`;
  const result = await tx`
    delete from security_events
    where id = any(array(
        select id
        from security_events
        where created_at < now() - make_interval(days => ${SECURITY_TRAIL_KEPT_DAYS}::int)
        limit ${limit}
      ))`;
  await tx`select set_config('service.security_trail_from', '', true)`;
  return result.count;
}

/**
 * Deletes at most `limit` accounts whose address was never verified, which anyone can create for any address. Accounts with a live code are
 * skipped, as they may be about to verify. Such an account cannot own anything, but one that does is kept anyway: a wallet whose address was
 * shown must never be forgotten.
 */
export async function deleteUnverifiedUsers(tx: Tx, limit: number): Promise<number> {
  const result = await tx`
    delete from users
    where id = any(array(
        select id
        from users unverified
        where status = 'REGISTERED'
          and created_at < now() - make_interval(days => ${UNVERIFIED_USERS_KEPT_DAYS}::int)
          and not exists (select from otps where otps.user_id = unverified.id)
          and not exists (select from wallets where wallets.user_id = unverified.id)
          and not exists (select from passkeys where passkeys.user_id = unverified.id)
          and not exists (select from identities where identities.user_id = unverified.id)
          and not exists (select from members where members.user_id = unverified.id)
          and not exists (select from members where members.merchant_id = unverified.id)
        limit ${limit}
        for update skip locked
      ))`;
  return result.count;
}

/**
 * Deletes at most `limit` deliveries to deleted endpoints, with their attempts. One in flight stays until its result is recorded, or its worker
 * has died.
 */
export async function deleteDeliveriesOfDeleted(tx: Tx, limit: number): Promise<number> {
  const result = await tx`
    delete from webhook_deliveries
    where id = any(array(
        select found.id
        from webhook_endpoints endpoint
        cross join lateral (
          select delivery.id
          from webhook_deliveries delivery
          -- between, and ordered by both: with an equality Postgres may read the whole table
          where delivery.endpoint_id between endpoint.id and endpoint.id
            and (delivery.lease_until is null or delivery.lease_until <= now())
          order by delivery.endpoint_id, delivery.event_id
          limit ${limit}
          for update skip locked
        ) found
        where endpoint.user_id is null
        limit ${limit}
      ))`;
  return result.count;
}

/**
 * Deletes at most `limit` deleted endpoints without deliveries. One that a transaction is writing a delivery to is locked, and left for the next
 * run.
 */
export async function deleteDeletedEndpoints(tx: Tx, limit: number): Promise<number> {
  const result = await tx`
    delete from webhook_endpoints
    where id = any(array(
        select endpoint.id
        from webhook_endpoints endpoint
        where endpoint.user_id is null
          and (
            select delivery.id
            from webhook_deliveries delivery
            where delivery.endpoint_id between endpoint.id and endpoint.id
            order by delivery.endpoint_id, delivery.event_id
            limit 1
          ) is null
        limit ${limit}
        for update of endpoint skip locked
      ))`;
  return result.count;
}

const isOlder = (column: string, days: number) => `${column} < now() - interval '${days} days'`;
/** UTC, as budgets are. */
const isDayOver = `day < (now() at time zone 'utc')::date - ${RELAY_COSTS_KEPT_DAYS}`;

/** Rows to delete and when. */
const LEFTOVERS = {
  challenges: { key: "id", over: "expires_at < now()" },
  otps: { key: "id", over: isOlder("created_at", OTPS_KEPT_DAYS) },
  sessions: { key: "id", over: "least(expires_at, absolute_end_at) < now()" },
  oauth_flows: { key: "state_hash", over: "expires_at < now()" },
  idempotency_keys: { key: "ctid", over: isOlder("created_at", IDEMPOTENCY_KEYS_KEPT_DAYS) },
  exports: { key: "id", over: "expires_at < now()" },
  // those matched by a transfer are kept
  claims: {
    key: "id",
    over: `state in ('HINT', 'REJECTED', 'EXPIRED') and ${isOlder("updated_at", ENDED_CLAIMS_KEPT_DAYS)}`,
  },
  notices: { key: "id", over: isOlder("created_at", NOTICES_KEPT_DAYS) },
  member_invitations: {
    key: "id",
    over: isOlder("coalesce(ended_at, expires_at)", INVITATIONS_KEPT_DAYS),
  },
  webhook_deliveries: {
    key: "id",
    over: `state <> 'PENDING' and ${isOlder("created_at", WEBHOOK_DELIVERIES_KEPT_DAYS)}`,
  },
  payment_leases: {
    key: "payment_id",
    over: `until < now() - interval '${PAYMENT_LEASES_KEPT_HOURS} hours'`,
  },
  payment_requests: {
    key: "payment_id",
    over: `created_at < now() - interval '${PAYMENT_REQUESTS_KEPT_HOURS} hours'`,
  },
  relay_charges: { key: "ctid", over: isDayOver },
  relay_budgets: { key: "ctid", over: isDayOver },
  traces: { key: "subject_id", over: isOlder("created_at", TRACES_KEPT_DAYS) },
  rate_counters: { key: "key", over: "ends_at < now()" },
} as const;
export type Leftover = keyof typeof LEFTOVERS;
export const LEFTOVER_NAMES = Object.keys(LEFTOVERS) as Leftover[];

/** Deletes at most `limit` expired rows of one kind. Locked rows are left for the next run. */
export async function deleteLeftovers(tx: Tx, name: Leftover, limit: number): Promise<number> {
  const { key, over } = LEFTOVERS[name];
  const result = await tx`
    delete from ${tx(name)}
    where ${tx.unsafe(key)} in (
        select ${tx.unsafe(key)}
        from ${tx(name)}
        where ${tx.unsafe(over)}
        limit ${limit}
        for update skip locked
      )`;
  return result.count;
}

/**
 * Deletes jobs that failed permanently long ago, and at once those that were replaced while they ran and did not complete: the queue library
 * takes their key and their attempts, and their successor does the work.
 */
export async function deleteDeadJobs(tx: Tx, limit: number): Promise<number> {
  const rows = await tx`
    select id
    from graphile_worker.complete_jobs(
      array(
        select id
        from graphile_worker.jobs
        where attempts >= max_attempts
          and locked_at is null
          and (
            run_at < now() - make_interval(days => ${DEAD_JOBS_KEPT_DAYS}::int)
            or key is null and task_identifier = any(${KEYED_JOBS}::text[])
          )
        limit ${limit}
      )
    )`;
  return rows.length;
}
