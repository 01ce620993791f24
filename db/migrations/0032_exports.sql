-- What a renderer needs to know of itself.
alter table exports
  -- rows the filter chose when the file was rendered; more than rows_total when truncated
  add column rows_matched bigint,
  add column attempts int not null default 0,
  add column started_at timestamptz;
-- serves: how many a user renders now, and which waits next
create index exports_unfinished on exports (user_id, created_at) where status in ('QUEUED', 'RUNNING');
