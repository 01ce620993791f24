-- What each running process last reported about itself, for the operator's page. Unlogged: a crash of Postgres ends it, the next report
-- writes it again. Rows are updated in place: half of each page is free for that (HOT).
create unlogged table processes (
  id uuid primary key,
  started_at timestamptz not null default now(),
  seen_at timestamptz not null default now(),
  pid int not null,
  kind text not null check (kind in ('api', 'worker', 'indexer')),
  version text not null,
  host text not null,
  details jsonb not null default '{}'
) with (fillfactor = 50);
