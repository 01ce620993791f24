-- A volume's snapshot brings a cluster back under its own name and timeline, with transaction numbers that were given before: nothing
-- of event_cluster() told it from the cluster that went on, and cursors of the time in between skipped what came after, without a word.
-- So an epoch ends with the server's run: whoever starts begins another, wherever its files are from. Readers notice nothing.

-- transactions that wrote into the last epoch end before the next can begin
lock table events in share row exclusive mode;

-- The run of the server that writes, by its start: known to everybody, also where a service hides the cluster's name. A standby has
-- its own, and keeps it when it is promoted.
create or replace function event_cluster() returns text language sql stable as $$
  select (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text
$$;
