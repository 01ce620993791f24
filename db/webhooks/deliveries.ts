/** Deliveries: one event for one endpoint, its attempts, and when the next is due. */

import type { EventType } from "../../core/domain/event-types.ts";
import type { Tx } from "../postgres/client.ts";

export type DeliveryState = "PENDING" | "DELIVERED" | "FAILED";
export type Delivery = {
  id: string;
  endpointId: string;
  eventId: bigint;
  state: DeliveryState;
  attempts: number;
  nextTryAt: Date;
  lastStatus: number | null;
  lastError: string | null;
  deliveredAt: Date | null;
  createdAt: Date;
  eventPublicId: string;
  eventType: EventType;
};

/** A delivery leased by this worker, with everything needed to send it. */
export type TakenDelivery = {
  id: string;
  endpointId: string;
  attempts: number;
  tries: number;
  url: string;
  sealedSecret: Uint8Array;
  sealedOldSecret: Uint8Array | null;
  eventPublicId: string;
  userId: string;
  type: EventType;
  subjectId: string;
  data: Record<string, unknown>;
  createdAt: Date;
};

/** One worker takes deliveries at a time, so that each sees what the others have in flight. */
const TAKE_LOCK = 7_041_035;

/**
 * Leases at most `limit` due deliveries for `leaseS`, so that no endpoint has more than `perEndpoint` in flight, a failing one no more
 * than one, and no user more than `perUser`. Users with fewer in flight go first, then endpoints with fewer, then those due longest: the age
 * of some users' backlogs does not delay the others. Call in a transaction of its own.
 */
export async function takeDeliveries(
  tx: Tx,
  {
    limit,
    leaseS,
    perEndpoint,
    perUser,
  }: { limit: number; leaseS: number; perEndpoint: number; perUser: number },
): Promise<TakenDelivery[]> {
  await tx`select pg_advisory_xact_lock(${TAKE_LOCK})`;
  return tx<TakenDelivery[]>`
    with recursive waiting (endpoint_id) as (
      (select endpoint_id from webhook_deliveries where state = 'PENDING' order by endpoint_id limit 1)
      union all
      select (
        select next.endpoint_id
        from webhook_deliveries next
        where next.state = 'PENDING' and next.endpoint_id > waiting.endpoint_id
        order by next.endpoint_id
        limit 1
      )
      from waiting
      where waiting.endpoint_id is not null
    ),
    on_their_way as materialized (
      select endpoint_id, user_id
      from webhook_deliveries
      where state = 'PENDING' and lease_until > now()
    ),
    sending as (
      select
        endpoint.id, endpoint.user_id,
        case when endpoint.failing_since is null then ${perEndpoint}::int else 1 end as places,
        (select count(*) from on_their_way where on_their_way.endpoint_id = endpoint.id) as used
      from waiting
      join webhook_endpoints endpoint on endpoint.id = waiting.endpoint_id and endpoint.enabled
    ),
    due as (
      select
        picked.id, picked.next_try_at, sending.user_id,
        sending.used + row_number() over (partition by sending.id order by picked.next_try_at, picked.id) as round
      from sending
      cross join lateral (
        select delivery.id, delivery.next_try_at
        from webhook_deliveries delivery
        -- between, and ordered by both: with an equality Postgres reads a young table completely by next_try_at, once per endpoint
        where delivery.endpoint_id between sending.id and sending.id
          and delivery.state = 'PENDING'
          and delivery.next_try_at <= now()
          and (delivery.lease_until is null or delivery.lease_until <= now())
        order by delivery.endpoint_id, delivery.next_try_at
        limit greatest(0, sending.places - sending.used)
      ) picked
    ),
    chosen as (
      select id
      from (
        select
          id, next_try_at, user_id, round,
          row_number() over (partition by user_id order by round, next_try_at, id)
            + (select count(*) from on_their_way where on_their_way.user_id = due.user_id) as place
        from due
      ) ranked
      where place <= ${perUser}::int
      order by place, round, next_try_at, id
      limit ${limit}
    ),
    taken as (
      update webhook_deliveries delivery
      set attempts = attempts + 1, tries = tries + 1, lease_until = now() + make_interval(secs => ${leaseS})
      from chosen
      where delivery.id = chosen.id
        -- not if the result of an earlier attempt, whose lease is over, has been recorded meanwhile
        and delivery.state = 'PENDING'
        and delivery.next_try_at <= now()
      returning delivery.id, delivery.endpoint_id, delivery.event_id, delivery.attempts, delivery.tries, delivery.created_at
    )
    select
      taken.id, taken.endpoint_id, taken.attempts, taken.tries, endpoint.url, endpoint.sealed_secret,
      case when endpoint.old_secret_until > now() then endpoint.sealed_old_secret end as sealed_old_secret,
      event_name(event.public_id) as event_public_id, event.user_id, event.type, event.subject_id, event.data, event.created_at
    from taken
    join webhook_endpoints endpoint on endpoint.id = taken.endpoint_id
    join events event on event.id = taken.event_id
    order by taken.created_at, taken.id`;
}

export type AttemptResult = {
  status: number | undefined;
  error: string | undefined;
  response: string | undefined;
  durationMs: number;
};

async function logAttempt(tx: Tx, taken: TakenDelivery, result: AttemptResult): Promise<void> {
  await tx`
    insert into webhook_attempts (delivery_id, number, status, error, response, duration_ms)
    values (
      ${taken.id}, ${taken.attempts}, ${result.status ?? null}, ${result.error ?? null}, ${result.response ?? null},
      ${Math.round(result.durationMs)}
    )
    on conflict do nothing`;
}

/** PENDING -> DELIVERED, unless the delivery was asked for again since the attempt began; the endpoint is healthy again. */
export async function markDelivered(tx: Tx, taken: TakenDelivery, result: AttemptResult): Promise<void> {
  await logAttempt(tx, taken, result);
  await tx`
    update webhook_deliveries
    set
      state = 'DELIVERED', delivered_at = now(), lease_until = null,
      last_status = ${result.status ?? null}, last_error = null
    where id = ${taken.id} and attempts - tries = ${taken.attempts - taken.tries}`;
  await tx`
    update webhook_endpoints
    set failing_since = null
    where id = ${taken.endpointId} and url = ${taken.url} and failing_since is not null`;
}

/**
 * Schedules a retry, or FAILED when `retryAfterS` is undefined. Neither when this attempt's lease was over and a later one has begun, or the
 * delivery was asked for again. Returns since when the endpoint has been failing; undefined when the attempt went to a URL that it has no more.
 */
export async function markFailedTry(
  tx: Tx,
  taken: TakenDelivery,
  result: AttemptResult,
  retryAfterS: number | undefined,
): Promise<Date | undefined> {
  await logAttempt(tx, taken, result);
  await tx`
    update webhook_deliveries
    set
      state = ${retryAfterS === undefined ? "FAILED" : "PENDING"},
      next_try_at = now() + make_interval(secs => ${retryAfterS ?? 0}),
      lease_until = null, last_status = ${result.status ?? null}, last_error = ${result.error ?? null}
    where id = ${taken.id}
      and state = 'PENDING'
      and attempts = ${taken.attempts}
      and tries = ${taken.tries}`;
  const [endpoint] = await tx<{ failingSince: Date }[]>`
    update webhook_endpoints
    set failing_since = coalesce(failing_since, now())
    where id = ${taken.endpointId} and url = ${taken.url}
    returning failing_since`;
  return endpoint?.failingSince;
}

/** When the next delivery is due: a later retry, or one leased by a dead worker. */
export async function findNextDue(tx: Tx): Promise<Date | undefined> {
  const [row] = await tx<{ due: Date | null }[]>`
    select least(
      (select min(next_try_at) from webhook_deliveries where state = 'PENDING' and next_try_at > now()),
      (select min(lease_until) from webhook_deliveries where state = 'PENDING' and lease_until > now())
    ) as due`;
  return row?.due ?? undefined;
}

export type DeliveryPosition = { createdAtMicros: bigint; id: string };

/** An endpoint's deliveries, newest first. */
export async function listDeliveries(
  tx: Tx,
  { endpointId, userId }: { endpointId: string; userId: string },
  page: { after?: DeliveryPosition | undefined; limit: number },
): Promise<(Delivery & { createdAtMicros: bigint })[]> {
  const after = page.after
    ? tx`and (delivery.created_at, delivery.id) < (to_timestamp_micros(${page.after.createdAtMicros}::bigint), ${page.after.id}::text)`
    : tx``;
  return tx<(Delivery & { createdAtMicros: bigint })[]>`
    select ${deliveryColumns(tx)}, timestamp_micros(delivery.created_at) as created_at_micros
    from webhook_deliveries delivery
    join events event on event.id = delivery.event_id
    where delivery.endpoint_id = ${endpointId} and delivery.user_id = ${userId} ${after}
    order by delivery.created_at desc, delivery.id desc
    limit ${page.limit}`;
}

/** Of an endpoint that is not deleted. */
export async function findDelivery(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<Delivery | undefined> {
  const [row] = await tx<Delivery[]>`
    select ${deliveryColumns(tx)}
    from webhook_deliveries delivery
    join webhook_endpoints endpoint on endpoint.id = delivery.endpoint_id and endpoint.user_id = delivery.user_id
    join events event on event.id = delivery.event_id
    where delivery.id = ${id} and delivery.user_id = ${userId}`;
  return row;
}

export type Attempt = {
  number: number;
  status: number | null;
  error: string | null;
  response: string | null;
  durationMs: number;
  createdAt: Date;
};

export async function listAttempts(tx: Tx, deliveryId: string): Promise<Attempt[]> {
  return tx<Attempt[]>`
    select number, status, error, response, duration_ms, created_at
    from webhook_attempts
    where delivery_id = ${deliveryId}
    order by number`;
}

/** Schedules a delivery again, whatever its state; one in flight is unchanged. */
export async function redeliver(tx: Tx, { id, userId }: { id: string; userId: string }): Promise<boolean> {
  const result = await tx`
    update webhook_deliveries
    set state = 'PENDING', tries = 0, next_try_at = now(), lease_until = null
    where id = ${id} and user_id = ${userId} and (lease_until is null or lease_until <= now())`;
  return result.count > 0;
}

function deliveryColumns(tx: Tx) {
  return tx`
    delivery.id, delivery.endpoint_id, delivery.event_id, delivery.state, delivery.attempts, delivery.next_try_at,
    delivery.last_status, delivery.last_error, delivery.delivered_at, delivery.created_at,
    event_name(event.public_id) as event_public_id, event.type as event_type`;
}
