-- Where the file of a scheduled export ended: the next one begins there, whatever the time zone is by then. Null: made before this was kept.
alter table export_schedule_runs
  add column ends_at timestamptz;
