-- The event log, and who reads it as it is written.

-- Transaction numbers order the event log, and another cluster, or a restored one, restarts them: new events would sort before old
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
-- second waits for the first: they write on the same cluster, so it is the same epoch. It is looked up for the first event of a
-- transaction alone: the cluster can't change within one, and a rolled back transaction (or savepoint) takes its setting along with the
-- row it may have inserted.
create function write_event_epoch() returns integer language plpgsql as $$
declare
  known constant text := current_setting('service.event_epoch', true);
  here text;
  newest event_epochs;
  epoch integer;
begin
  if known <> '' then
    return known::integer;
  end if;
  here := event_cluster();
  select * into newest from event_epochs order by number desc limit 1;
  epoch := newest.number;
  if newest.cluster is distinct from here then
    epoch := coalesce(newest.number, 0) + 1;
    insert into event_epochs (number, cluster) values (epoch, here) on conflict (number) do nothing;
  end if;
  perform set_config('service.event_epoch', epoch::text, true);
  return epoch;
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
  written_by xid8 not null default pg_current_xact_id(),
  -- Below this number every transaction had ended when the event was written. A standby that is promoted without the last transactions
  -- of its primary keeps the epoch of what it has, so a cursor into the lost part names a known epoch; nor is it enough that the
  -- cursor's own event survived: a transaction with a lower number may have committed later and be lost. The commits below this
  -- number precede its own in the write-ahead log and survive wherever it survives; what lies between is compared one by one
  -- (listEvents in db/events/event-log.ts).
  ended_before xid8 default pg_snapshot_xmin(pg_current_snapshot()),
  created_at timestamptz not null default now(),
  epoch int not null default write_event_epoch(),
  -- outside, an event's name says nothing of how many there are
  public_id uuid not null default gen_random_uuid(),
  user_id text not null,
  type text not null,
  subject_id text not null,
  data jsonb not null
);
-- serves: a user's events after a cursor; those of one transaction are sorted by id as they are read
create index events_of_user on events (owner_key(user_id), epoch, written_by);
-- serves: retention
create index events_created on events using brin (created_at);

-- Every event about a link or its transaction carries the link's order data, whichever statement writes it. Most links have none: the event
-- of such a link is stored as it came. The event of a transaction without a link has none to look for: every one of a past read in bulk
-- is such an event.
create function add_order_data() returns trigger language plpgsql as $$
declare
  reference text;
  customer_email text;
  metadata jsonb;
  parent_id text;
begin
  select link.reference, link.customer_email, nullif(link.metadata, '{}'), link.parent_id
  into reference, customer_email, metadata, parent_id
  from payment_links link
  where link.id = case
      when new.type like 'payment_link.%' then new.subject_id
      when new.data ? 'linkId' then new.data ->> 'linkId'
      else (select link_id from transactions where id = new.subject_id)
    end;
  if num_nonnulls(reference, customer_email, metadata, parent_id) > 0 then
    new.data := new.data || jsonb_strip_nulls(jsonb_build_object(
      'reference', reference, 'customerEmail', customer_email, 'metadata', metadata, 'parentLinkId', parent_id
    ));
  end if;
  return new;
end $$;
create trigger events_add_order_data before insert on events
  for each row when (
    new.type like 'payment_link.%'
    or (new.type like 'transaction.%' and new.data -> 'linkId' is distinct from 'null'::jsonb)
  )
  execute function add_order_data();

-- Who reads a merchant's events as they happen: only their commits notify. A notification wakes every listening connection of the database
-- and every API, and commits with one wait for each other. Unlogged: after a crash the APIs write their rows again within seconds. Rows are
-- updated in place: half of each page is free for that (HOT).
create unlogged table event_readers (
  until timestamptz not null,
  -- an API process
  reader uuid not null,
  user_id text not null,
  primary key (user_id, reader)
) with (fillfactor = 50);

-- Wakes the event streams of the merchants concerned when the transaction commits, whoever writes the events. A payload of NOTIFY is
-- limited to 8,000 bytes: 150 ids of users fit.
create function notify_event_readers() returns trigger language plpgsql as $$
begin
  if not exists (select from event_readers where until > now()) then
    return null;
  end if;
  perform pg_notify('outcome', string_agg(chunk.user_id, ','))
  from (
    select user_id, (row_number() over (order by user_id) - 1) / 150 as number
    from (
      select distinct added.user_id
      from added
      join event_readers on event_readers.user_id = added.user_id and event_readers.until > now()
    ) readers
  ) chunk
  group by chunk.number;
  return null;
end $$;
create trigger events_notify_readers after insert on events
  referencing new table as added
  for each statement execute function notify_event_readers();
