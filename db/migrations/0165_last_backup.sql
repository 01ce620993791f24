-- The newest backup that was written and read back, for metrics and the operator's page: one row, none before the first.
create table last_backup (
  is_only boolean primary key default true check (is_only),
  -- of its snapshot, as its file's name says
  taken_at timestamptz not null
);
