-- What each running process last reported about itself, for the operator's page. Unlogged: a crash of Postgres ends it, the next report
-- writes it again.
create unlogged table processes (
  id uuid primary key,
  kind text not null check (kind in ('api', 'worker', 'indexer')),
  version text not null,
  host text not null,
  pid int not null,
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  details jsonb not null default '{}'
) with (fillfactor = 50);
