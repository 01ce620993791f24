-- The event log, and webhooks: who is notified of events, what was sent, and how it went.

-- Transaction numbers order the event log, and another cluster, or a restored one, counts them anew: new events would sort before old
-- ones, and a cursor from before would skip them silently. So a log has epochs, one for each run of a server that wrote into it.
-- A cursor names its epoch, by a name no other history can have.
create table event_epochs (
  number int primary key,
  name text not null unique default replace(gen_random_uuid()::text, '-', ''),
  -- of event_cluster()
  cluster text,
  created_at timestamptz not null default now()
);

-- The run of the server that writes, by its start: known to every user, also where a service hides the cluster's name. A standby has
-- its own, and keeps it when it is promoted.
create function event_cluster() returns text language sql stable as $$
  select (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
$$;

-- The epoch of what is written now; opens one when this run has written nothing yet. Of two writers that open it at once the
-- second waits for the first: they write on the same cluster, so it is the same epoch.
create function write_event_epoch() returns int language plpgsql volatile as $$
declare
  here constant text := event_cluster();
  newest event_epochs;
begin
  select * into newest from event_epochs order by number desc limit 1;
  if newest.cluster = here then
    return newest.number;
  end if;
  insert into event_epochs (number, cluster) values (coalesce(newest.number, 0) + 1, here) on conflict (number) do nothing;
  return coalesce(newest.number, 0) + 1;
end $$;

-- The epoch whose transactions may still run: those of earlier ones have ended. On a standby it is the newest.
create function running_event_epoch() returns int language sql stable as $$
  select number + case when cluster = event_cluster() or pg_is_in_recovery() then 0 else 1 end
  from event_epochs
  order by number desc
  limit 1
$$;

-- The name that readers know an event by.
create function event_name(public_id uuid) returns text
  language sql immutable parallel safe
  return 'evt_' || replace(public_id::text, '-', '');

-- Append-only; written in the transaction of the change it reports.
-- Ids are handed out before commit, so readers stop at the oldest transaction still running (written_by).
create table events (
  id bigint generated always as identity primary key,
  -- outside, an event's name says nothing of how many there are
  public_id uuid not null default gen_random_uuid(),
  user_id text not null,
  type text not null,
  subject_id text not null,
  data jsonb not null,
  epoch int not null default write_event_epoch(),
  written_by xid8 not null default pg_current_xact_id(),
  -- Below this number every transaction had ended when the event was written. A standby that is promoted without the last transactions
  -- of its primary keeps the epoch of what it has, so a cursor into the lost part names a known epoch; nor is it enough that the
  -- cursor's own event survived: a transaction with a lower number may have committed later and be lost. The commits below this
  -- number precede its own in the write-ahead log and survive wherever it survives; what lies between is compared one by one
  -- (listEvents in db/events/event-log.ts).
  ended_before xid8 default pg_snapshot_xmin(pg_current_snapshot()),
  created_at timestamptz not null default now()
);
-- serves: a user's events after a cursor
create index events_user_epoch on events (owner_key(user_id), epoch, written_by, id);
-- serves: retention
create index events_created on events using brin (created_at);

create table webhook_endpoints (
  id text primary key check (starts_with(id, 'whe_')),
  user_id text not null references users on delete cascade,
  url text not null check (length(url) between 1 and 2000),
  description text not null default '' check (length(description) <= 200),
  -- empty: every type
  event_types text[] not null default '{}',
  -- AES-256-GCM, key derived from OTP_PEPPER: api seals, worker signs
  sealed_secret bytea not null,
  -- after a rotation both sign until then
  sealed_old_secret bytea,
  old_secret_until timestamptz,
  enabled boolean not null default true,
  disabled_reason text,
  -- first failure since the last success
  failing_since timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
-- serves: a user's endpoints; which endpoints does an event concern
create index webhook_endpoints_user on webhook_endpoints (user_id, created_at);

-- One event for one endpoint. Sending it again is the same row and the same message id.
create table webhook_deliveries (
  id text primary key check (starts_with(id, 'whd_')),
  endpoint_id text not null references webhook_endpoints on delete cascade,
  user_id text not null,
  event_id bigint not null references events on delete cascade,
  state text not null default 'PENDING' check (state in ('PENDING', 'DELIVERED', 'FAILED')),
  attempts int not null default 0,
  -- attempts since it was put on the schedule: sending it again starts the schedule anew
  tries int not null default 0,
  next_try_at timestamptz not null default now(),
  -- leased by a worker; after that the worker died
  lease_until timestamptz,
  last_status int,
  last_error text,
  delivered_at timestamptz,
  created_at timestamptz not null default now()
);
create unique index webhook_deliveries_event_key on webhook_deliveries (endpoint_id, event_id);
-- serves: what is due to an endpoint; when the next will be
create index webhook_deliveries_due on webhook_deliveries (endpoint_id, next_try_at) where state = 'PENDING';
create index webhook_deliveries_next on webhook_deliveries (next_try_at) where state = 'PENDING';
-- serves: an endpoint's log, newest first
create index webhook_deliveries_log on webhook_deliveries (endpoint_id, created_at desc, id desc);
-- serves: how many are in flight to an endpoint
create index webhook_deliveries_leased on webhook_deliveries (endpoint_id, lease_until) where state = 'PENDING' and lease_until is not null;
-- serves: deleting an event
create index webhook_deliveries_event on webhook_deliveries (event_id);
-- serves: housekeeping of the webhook log
create index webhook_deliveries_ended on webhook_deliveries (created_at) where state <> 'PENDING';

create table webhook_attempts (
  delivery_id text not null references webhook_deliveries on delete cascade,
  number int not null,
  status int,
  error text,
  -- the beginning of the answer
  response text,
  duration_ms int not null,
  created_at timestamptz not null default now(),
  primary key (delivery_id, number)
);

-- Deliveries are made in the transaction that writes their event, so an event is delivered exactly when it exists. The job's key
-- is the transaction's own: a key shared by all would make their transactions wait for one another, and now and then deadlock.
create function deliver_events() returns trigger language plpgsql as $$
begin
  insert into webhook_deliveries (id, endpoint_id, user_id, event_id)
  select 'whd_' || replace(gen_random_uuid()::text, '-', ''), endpoint.id, added.user_id, added.id
  from added
  join webhook_endpoints endpoint on endpoint.user_id = added.user_id
  where endpoint.enabled and (endpoint.event_types = '{}' or added.type = any(endpoint.event_types))
  order by added.id;
  if found then
    perform graphile_worker.add_job(
      'deliver_webhooks', '{}'::json, max_attempts => 3, priority => 4,
      job_key => 'deliver_webhooks:' || pg_current_xact_id()::text
    );
  end if;
  return null;
end $$;
create trigger events_deliver after insert on events
  referencing new table as added
  for each statement execute function deliver_events();
