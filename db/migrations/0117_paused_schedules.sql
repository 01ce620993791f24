-- A scheduled export can be paused: no further period is ordered until it is resumed.
alter table export_schedules add column paused_at timestamptz;
