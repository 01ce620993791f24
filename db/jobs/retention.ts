/** How long rows are kept that nothing ends: events, signed bytes, ended claims, the trail of security events. Each step is bounded. */
import type { Tx } from "../postgres/client.ts";

/** After the relay's end. Until its block is final a reorganisation may call for its bytes again; from then on the chain has them. */
const SIGNED_BYTES_KEPT_HOURS = 1;
/** Claims that decided nothing. */
const ENDED_CLAIMS_KEPT_DAYS = 90;
/** What auditors ask for. */
const SECURITY_TRAIL_KEPT_DAYS = 730;
/** Events of a user that are read to find one that follows. */
const FOLLOWERS_READ = 100;

/**
 * Deletes at most `limit` events older than `keptDays`, and their ended webhook deliveries with them. Each user's newest event of that age
 * stays: the cursor of a reader who has read everything names it, and `listEvents` looks for it. So does what its seal covers.
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
            where delivery.event_id = old.id and delivery.state = 'PENDING'
          )
        limit ${limit}
      ))`;
  return result.count;
}

/** Drops the signed bytes of relays that ended long ago: of CONFIRMED ones only below the finalized block, which nothing undoes. */
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

/** Claims that were refused, ran out or were only hints. What a transfer matched stays with it. */
export async function deleteEndedClaims(tx: Tx, limit: number): Promise<number> {
  const result = await tx`
    delete from claims
    where id = any(array(
        select id
        from claims
        where state in ('HINT', 'REJECTED', 'EXPIRED')
          and updated_at < now() - make_interval(days => ${ENDED_CLAIMS_KEPT_DAYS}::int)
        limit ${limit}
        for update skip locked
      ))`;
  return result.count;
}

/** The trail refuses every other removal: only what is older than the time said here, in this transaction alone. */
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
