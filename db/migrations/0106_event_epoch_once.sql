-- The epoch of a transaction's events is looked up for the first of them alone. The cluster can't change within a transaction, and a
-- rolled back transaction (or savepoint) takes its setting along with the row it may have inserted.
create or replace function write_event_epoch() returns integer language plpgsql as $$
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
