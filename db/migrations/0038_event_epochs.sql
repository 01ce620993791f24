-- Transaction numbers order the event log, and another cluster counts them anew: after a dump and restore new events would sort
-- before old ones, and a cursor from before would skip them without a word. So a log has epochs: one for every cluster and timeline
-- that wrote into it. A cursor names its epoch, by a name no other history can have.

create table event_epochs (
  number int primary key,
  name text not null unique default replace(gen_random_uuid()::text, '-', ''),
  -- of event_cluster(); unknown for what was written before this table
  cluster text,
  created_at timestamptz not null default now()
);
insert into event_epochs (number) values (1);

-- The cluster and timeline that write: another after a restore, a rewind to an earlier time, and a promotion. Where a service
-- hides both it is empty, and whoever restores opens an epoch by hand (docs/OPERATIONS.md).
create function event_cluster() returns text language plpgsql stable as $$
begin
  return (select system_identifier from pg_control_system()) || ':' || left(pg_walfile_name(pg_current_wal_lsn()), 8);
exception
  when insufficient_privilege or feature_not_supported or object_not_in_prerequisite_state then
    return '';
end $$;

-- The epoch of what is written now; opens one when this cluster has written nothing yet. Of two writers that open it at once the
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

-- What is there was written by transactions that have ended: adding the column waits for them.
alter table events add column epoch int not null default 1;
alter table events alter column epoch set default write_event_epoch();

-- serves: a user's events after a cursor
create index events_user_epoch on events (user_id, epoch, written_by, id);
drop index events_user;
