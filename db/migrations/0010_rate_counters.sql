-- A counter's window begins with its first request, so that a limit never doubles at a window's edge. One row a key,
-- updated in place. Unlogged: fast, survives restarts of our processes, reset by a Postgres crash.
create unlogged table rate_counters (
  key text primary key,
  count int not null,
  ends_at timestamptz not null
) with (fillfactor = 50);
-- serves: housekeeping
create index rate_counters_ends on rate_counters (ends_at);
drop table rate_limits;
