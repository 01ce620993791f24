-- When a network's cursor was made: transfers from before then were never reported as events.
alter table cursors add column started_at timestamptz;
