-- Counts and sums of a merchant's links, kept the same way as those of the history (0030).

-- serves: links whose time is over and which no job has moved yet
create index payment_links_user_active_expiry on payment_links (user_id, expires_at) where status = 'ACTIVE';

create table link_counts (
  user_id text not null,
  status text not null,
  count bigint not null,
  amount_units numeric(78, 0) not null,
  refunded_units numeric(78, 0) not null,
  primary key (user_id, status)
);

create table link_count_deltas (
  id bigint generated always as identity primary key,
  user_id text not null,
  status text not null,
  count bigint not null,
  amount_units numeric(78, 0) not null,
  refunded_units numeric(78, 0) not null
);
-- serves: the differences a reader adds
create index link_count_deltas_user on link_count_deltas (user_id);

create function count_added_links() returns trigger language plpgsql as $$
begin
  insert into link_count_deltas (user_id, status, count, amount_units, refunded_units)
  select user_id, status, count(*), sum(amount_units), sum(refunded_units)
  from added
  group by 1, 2;
  return null;
end $$;

create function count_removed_links() returns trigger language plpgsql as $$
begin
  insert into link_count_deltas (user_id, status, count, amount_units, refunded_units)
  select user_id, status, -count(*), -sum(amount_units), -sum(refunded_units)
  from removed
  group by 1, 2;
  return null;
end $$;

create function count_changed_links() returns trigger language plpgsql as $$
begin
  insert into link_count_deltas (user_id, status, count, amount_units, refunded_units)
  select user_id, status, sum(n), sum(n * amount_units), sum(n * refunded_units)
  from (
    select user_id, status, amount_units, refunded_units, 1 as n from added
    union all
    select user_id, status, amount_units, refunded_units, -1 from removed
  ) changed
  group by 1, 2
  having sum(n) <> 0 or sum(n * amount_units) <> 0 or sum(n * refunded_units) <> 0;
  return null;
end $$;

create trigger payment_links_count_added after insert on payment_links
  referencing new table as added
  for each statement execute function count_added_links();
create trigger payment_links_count_changed after update on payment_links
  referencing new table as added old table as removed
  for each statement execute function count_changed_links();
create trigger payment_links_count_removed after delete on payment_links
  referencing old table as removed
  for each statement execute function count_removed_links();

-- rows that were there before
insert into link_count_deltas (user_id, status, count, amount_units, refunded_units)
select user_id, status, count(*), sum(amount_units), sum(refunded_units)
from payment_links
group by 1, 2;

-- A kept answer is replayed as it was written: json keeps the order of its fields, jsonb does not.
alter table idempotency_keys alter column body type json using body::json;

-- Exact microseconds since 1970, for cursors: a Date of JavaScript keeps only milliseconds.
create function timestamp_micros(instant timestamptz) returns bigint
  language sql immutable parallel safe
  return (extract(epoch from instant) * 1000000)::bigint;

create function to_timestamp_micros(micros bigint) returns timestamptz
  language sql immutable parallel safe
  return timestamptz '1970-01-01 00:00:00+00' + micros * interval '1 microsecond';
