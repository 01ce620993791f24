-- A history of any size: every page costs what it shows, every total is a sum of counters.
--
-- Triggers append differences to transaction_count_deltas, so writers never wait for one another; housekeeping folds the
-- differences into transaction_counts and transaction_amount_counts in one statement. A reader adds both: exact at its snapshot.

create extension if not exists pg_trgm;

-- serves: any choice of types, statuses and networks, newest first: one ordered scan a cell, merged
create index transactions_cell on transactions (user_id, type, status, network, detected_at desc, id desc);
-- serves: amount bounds that few rows meet
create index transactions_user_amount on transactions (user_id, amount_units, detected_at desc, id desc);
-- serves: search by the beginning of a hash
create index transactions_user_hash on transactions (user_id, tx_hash text_pattern_ops) where tx_hash is not null;
-- serves: search for a part of the description
create index transactions_description on transactions using gin (description gin_trgm_ops);

-- Rows of a user by UTC day and cell (network, type, status). The day 'infinity' holds the sum of all days.
create table transaction_counts (
  user_id text not null,
  day date not null,
  network text not null,
  type text not null,
  status text not null,
  count bigint not null,
  primary key (user_id, day, network, type, status)
);

-- Rows of a user by amount and cell. A bucket is the number of digits and the first three of them, so that the prices people
-- use are edges of buckets. The cell ('*', '*', '*') holds the sum of all cells.
create table transaction_amount_counts (
  user_id text not null,
  network text not null,
  type text not null,
  status text not null,
  bucket int not null,
  count bigint not null,
  primary key (user_id, network, type, status, bucket)
);

create table transaction_count_deltas (
  id bigint generated always as identity primary key,
  user_id text not null,
  day date not null,
  network text not null,
  type text not null,
  status text not null,
  amount_bucket int not null,
  count bigint not null
);
-- serves: the differences a reader adds
create index transaction_count_deltas_user on transaction_count_deltas (user_id);

create function transaction_amount_bucket(units numeric) returns int
  language sql immutable parallel safe
  return length(trunc(units)::text) * 1000 + rpad(left(trunc(units)::text, 3), 3, '0')::int;

create function transaction_day(detected_at timestamptz) returns date
  language sql immutable parallel safe
  return (detected_at at time zone 'UTC')::date;

create function count_added_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count)
  select user_id, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), count(*)
  from added
  group by 1, 2, 3, 4, 5, 6;
  return null;
end $$;

create function count_removed_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count)
  select user_id, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), -count(*)
  from removed
  group by 1, 2, 3, 4, 5, 6;
  return null;
end $$;

create function count_changed_transactions() returns trigger language plpgsql as $$
begin
  insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count)
  select user_id, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), sum(n)
  from (
    select user_id, detected_at, network, type, status, amount_units, 1 as n from added
    union all
    select user_id, detected_at, network, type, status, amount_units, -1 from removed
  ) changed
  group by 1, 2, 3, 4, 5, 6
  having sum(n) <> 0;
  return null;
end $$;

create trigger transactions_count_added after insert on transactions
  referencing new table as added
  for each statement execute function count_added_transactions();
create trigger transactions_count_changed after update on transactions
  referencing new table as added old table as removed
  for each statement execute function count_changed_transactions();
create trigger transactions_count_removed after delete on transactions
  referencing old table as removed
  for each statement execute function count_removed_transactions();

-- rows that were there before
insert into transaction_count_deltas (user_id, day, network, type, status, amount_bucket, count)
select user_id, transaction_day(detected_at), network, type, status, transaction_amount_bucket(amount_units), count(*)
from transactions
group by 1, 2, 3, 4, 5, 6;
