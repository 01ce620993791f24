-- Who reads a merchant's events as they happen: only their commits notify. A notification wakes every listening connection of the database
-- and every API, and commits with one wait for each other. Unlogged: after a crash the APIs write their rows again within seconds.
create unlogged table event_readers (
  user_id text not null,
  -- an API process
  reader uuid not null,
  until timestamptz not null,
  primary key (user_id, reader)
) with (fillfactor = 50);

create or replace function notify_event_readers() returns trigger language plpgsql as $$
begin
  if not exists (select from event_readers where until > now()) then
    return null;
  end if;
  perform pg_notify('outcome', string_agg(chunk.user_id, ','))
  from (
    select user_id, (row_number() over (order by user_id) - 1) / 150 as number
    from (
      select distinct added.user_id
      from added
      join event_readers on event_readers.user_id = added.user_id and event_readers.until > now()
    ) readers
  ) chunk
  group by chunk.number;
  return null;
end $$;
