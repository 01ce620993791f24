-- Wakes the event streams of the merchants concerned when the transaction commits, whoever writes the events. A payload of NOTIFY is
-- limited to 8,000 bytes: 150 ids of users fit.
create function notify_event_readers() returns trigger language plpgsql as $$
begin
  perform pg_notify('outcome', string_agg(chunk.user_id, ','))
  from (
    select user_id, (row_number() over (order by user_id) - 1) / 150 as number
    from (select distinct user_id from added) readers
  ) chunk
  group by chunk.number;
  return null;
end $$;

create trigger events_notify_readers after insert on events
  referencing new table as added
  for each statement execute function notify_event_readers();
