-- Webhooks: who is notified of events, what was sent, and how it went.

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
  event_id bigint not null references events on delete cascade,
  next_try_at timestamptz not null default now(),
  created_at timestamptz not null default now(),
  -- leased by a worker; after that the worker died
  lease_until timestamptz,
  delivered_at timestamptz,
  attempts int not null default 0,
  -- attempts since it was put on the schedule: sending it again restarts the schedule
  tries int not null default 0,
  last_status int,
  id text primary key check (starts_with(id, 'whd_')),
  endpoint_id text not null references webhook_endpoints on delete cascade,
  user_id text not null,
  state text not null default 'PENDING' check (state in ('PENDING', 'DELIVERED', 'FAILED')),
  last_error text
);
-- an endpoint gets an event once
create unique index webhook_deliveries_event_key on webhook_deliveries (endpoint_id, event_id);
-- serves: what is due to an endpoint
create index webhook_deliveries_due on webhook_deliveries (endpoint_id, next_try_at) where state = 'PENDING';
-- serves: when the next will be due
create index webhook_deliveries_next on webhook_deliveries (next_try_at) where state = 'PENDING';
-- serves: an endpoint's log, newest first
create index webhook_deliveries_log on webhook_deliveries (endpoint_id, created_at desc, id desc);
-- serves: how many are in flight to an endpoint
create index webhook_deliveries_leased on webhook_deliveries (endpoint_id, lease_until) where state = 'PENDING' and lease_until is not null;
-- serves: deleting an event
create index webhook_deliveries_event on webhook_deliveries (event_id);
-- serves: housekeeping of the webhook log
create index webhook_deliveries_ended on webhook_deliveries (created_at) where state <> 'PENDING';

-- What an endpoint answered to each attempt.
create table webhook_attempts (
  created_at timestamptz not null default now(),
  number int not null,
  duration_ms int not null,
  status int,
  delivery_id text not null references webhook_deliveries on delete cascade,
  error text,
  -- the beginning of the answer
  response text,
  primary key (delivery_id, number)
);

-- Deliveries are made in the transaction that writes their event, so an event is delivered exactly when it exists. A test event goes to
-- the endpoint it names, whichever types that one selected, and to no other. The job's key is the transaction's own: a key shared by all
-- would make their transactions wait for one another, and now and then deadlock.
create function deliver_events() returns trigger language plpgsql as $$
begin
  insert into webhook_deliveries (id, endpoint_id, user_id, event_id)
  select 'whd_' || replace(gen_random_uuid()::text, '-', ''), endpoint.id, added.user_id, added.id
  from added
  join webhook_endpoints endpoint on endpoint.user_id = added.user_id
  where endpoint.enabled
    and case
      when added.type = 'webhook.test' then endpoint.id = added.subject_id
      else endpoint.event_types = '{}' or added.type = any(endpoint.event_types)
    end
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
